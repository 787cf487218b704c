"""`with kube.fault(…)`: a fault lasts as long as the block, and counts what it hit."""

import pytest

from kubedra import ApiError, ControlPlane
from kubedra.pytest_plugin import Kube

pytestmark = pytest.mark.integration


def fails(kube: Kube) -> bool:
    try:
        kube.list("configmaps")
    except ApiError as error:
        return (error.code, error.reason) == (503, "ServiceUnavailable")
    return False


def test_a_fault_ends_with_its_block(kube: Kube) -> None:
    with kube.fault(resource="configmaps", verb="list", status=503) as fault:
        assert fails(kube)
        assert fails(kube)
        assert fault.fired() == 2
        assert [request["code"] for request in fault.requests()] == [503, 503]
        kube.list("secrets")
    assert not fails(kube)
    assert fault.fired() == 2
    assert len(fault.requests()) == 2


def test_a_fault_hits_as_many_requests_as_its_count(kube: Kube) -> None:
    with kube.fault(resource="configmaps", status=503, count=1) as fault:
        assert [fails(kube) for _ in range(3)] == [True, False, False]
    assert fault.fired() == 1


def test_a_fault_ends_with_an_error_in_its_block_and_after_a_reset(kube: Kube) -> None:
    with pytest.raises(ZeroDivisionError), kube.fault(resource="configmaps", status=503):
        raise ZeroDivisionError
    assert not fails(kube)
    with kube.fault(resource="configmaps", status=503) as fault:
        kube.plane.reset()
    assert fault.fired() == 0


def test_the_same_fault_can_be_injected_again(kube: Kube) -> None:
    fault = kube.fault(resource="configmaps", status=503)
    for _ in range(2):
        with fault:
            assert fails(kube)
        assert fault.fired() == 1


def test_components_meet_faults_and_recover(kube: Kube) -> None:
    kube.add_node("worker")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
    with kube.fault(user_agent="kube-scheduler*", resource="pods/binding", status=500, count=1) as fault:
        kube.apply({**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        kube.wait("pod/web", "phase=Running")
    (hit,) = fault.requests()
    assert (hit["code"], hit["name"]) == (500, "web")


def test_a_mistake_is_an_error_when_the_block_begins(kube: Kube) -> None:
    with pytest.raises(ApiError, match="mutually exclusive"), kube.fault(status=503, close="before"):
        pass
    with pytest.raises(ApiError, match="one of latencySeconds, status, close and watch is required"), kube.fault():
        pass
    with pytest.raises(TypeError, match="statos"):
        kube.fault(statos=503)  # type: ignore[call-arg]


@pytest.mark.real_time
async def test_an_asynchronous_client_has_faults_too() -> None:
    async with ControlPlane(controllers=False) as plane, plane.async_client() as client:
        async with client.fault(resource="configmaps", status=429, retry_after=0, message="slow down") as fault:
            with pytest.raises(ApiError, match="slow down"):
                await client.list("configmaps")
            assert await fault.fired() == 1
        assert await client.list("configmaps", namespace="default") == []
        assert [request["code"] for request in await fault.requests()] == [429]
