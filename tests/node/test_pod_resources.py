"""The pod resources API of a node on its socket, read by protobuf's own library, and valid paths of sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.dra.cache import ClaimInfo
from controllers.kubelet.dra.drivers import DriverCallError, PreparedDevice
from controllers.kubelet.dra.manager import DraError
from controllers.kubelet.grpc.connection import Connection
from controllers.kubelet.grpc.plugins import _unusable
from controllers.kubelet.grpc.podresources import SERVICE, PodName, PodResources
from kubedra.driver.messages import Empty
from tests.node.grpcio_driver import M
from tests.support.patience import become, patience

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

DEVICES = (PreparedDevice("pool", "d0", (), ("v/c=0", "v/c=1")), PreparedDevice("pool", "d1", (), (), "shared"))


@dataclass(frozen=True)
class Raw:
    data: bytes = b""

    def encode(self) -> bytes:
        return self.data

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(data)


class FakeClaims:
    """Prepared claims by container."""

    def __init__(self) -> None:
        self.of: dict[str, list[ClaimInfo]] = {}

    def container_claims(self, pod: Json, container: Json) -> list[ClaimInfo]:
        if container["name"] == "unprepared":
            raise DraError("not prepared")
        return self.of.get(container["name"], [])


def pod(name: str, *containers: str, namespace: str = "ns", init: Iterable[Json] = ()) -> Json:
    spec = {"containers": [{"name": each} for each in containers], "initContainers": list(init)}
    return {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec}


class Caller:
    """Calls methods of the API."""

    def __init__(self, resources: PodResources, connection: Connection) -> None:
        self._resources, self._connection = resources, connection

    async def __call__(self, method: str, request: Any, answer: Any) -> Any:
        found = await self._connection.call(f"/{SERVICE}/{method}", request, Raw, 20)
        return answer.FromString(found.data)

    def counts(self) -> dict[str, int]:
        prefix = "pod_resources_endpoint_requests_"
        return {family.name.removeprefix(prefix): family.value("v1") for family in self._resources.metrics}


@asynccontextmanager
async def asking(place: Path, claims: FakeClaims, *pods: Json) -> AsyncIterator[Caller]:
    resources = PodResources(claims, lambda: pods)  # type: ignore[arg-type]
    running = asyncio.create_task(resources.run(place))
    path = place / "pod-resources" / "kubelet.sock"
    await become(path.exists, "it listens")
    connection = Connection(str(path))
    try:
        async with patience():
            yield Caller(resources, connection)
    finally:
        await connection.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert not path.exists()


async def test_every_pod_is_listed_with_the_devices_of_its_containers(tmp_path: Path) -> None:
    claims = FakeClaims()
    claims.of["gpu"] = [ClaimInfo("u", "a", "ns", drivers={"x.example.com": DEVICES, "y.example.com": DEVICES[:1]}),
                        ClaimInfo("v", "b", "ns")]  # fmt: skip
    init = ({"name": "before"}, {"name": "beside", "restartPolicy": "Always"})
    async with asking(tmp_path, claims, pod("p", "gpu", "unprepared", init=init), pod("q", "plain")) as ask:
        first, second = (await ask("List", Empty(), M.ListPodResources)).pods
    assert [(each.name, each.namespace) for each in (first, second)] == [("p", "ns"), ("q", "ns")]
    assert [each.name for each in first.containers] == ["beside", "gpu", "unprepared"], (
        "sidecars, but no other init containers"
    )
    assert [len(each.dynamic_resources) for each in first.containers] == [0, 2, 0]
    one, other = first.containers[1].dynamic_resources
    assert (one.claim_name, one.claim_namespace, other.claim_name) == ("a", "ns", "b")
    assert len(other.claim_resources) == 0
    d0, d1, again = one.claim_resources
    assert (d0.driver_name, d0.pool_name, d0.device_name) == ("x.example.com", "pool", "d0")
    assert [cdi.name for cdi in d0.cdi_devices] == ["v/c=0", "v/c=1"]
    assert (d0.share_id, d1.share_id) == ("", "shared")
    assert (d1.device_name, len(d1.cdi_devices)) == ("d1", 0)
    assert (again.driver_name, again.device_name) == ("y.example.com", "d0")


async def test_a_pod_is_found_by_name_and_namespace_and_requests_are_counted(tmp_path: Path) -> None:
    pods = (pod("p", "a", namespace="other"), pod("q", "b"), pod("p", "c"))
    async with asking(tmp_path, FakeClaims(), *pods) as ask:
        found = (await ask("Get", PodName("p", "ns"), M.GetPodResources)).pod
        assert (found.name, found.namespace, found.containers[0].name) == ("p", "ns", "c")
        for name, namespace in (("p", "none"), ("r", "ns")):
            with pytest.raises(DriverCallError, match=f"pod {name} in namespace {namespace} not found") as caught:
                await ask("Get", PodName(name, namespace), M.GetPodResources)
            assert caught.value.code == "Unknown"
        assert await ask("GetAllocatableResources", Empty(), M.Empty) == M.Empty()
        await ask("List", Empty(), M.ListPodResources)
        assert ask.counts() == {"total": 5, "get_total": 3, "get_allocatable_total": 1, "list_total": 1}


def test_a_pod_name_is_decoded() -> None:
    assert PodName.decode(M.PodName(name="p", namespace="ns").SerializeToString()) == PodName("p", "ns")
    assert PodName.decode(b"") == PodName()


async def test_a_node_that_cannot_listen_logs_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    await PodResources(FakeClaims(), tuple).run(tmp_path / "file")  # type: ignore[arg-type]
    assert "cannot serve the pod resources API at " in caplog.text


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("/var/lib/x y/dra.sock", ""),
        ("/a%20b", ""),
        ("/a\tb", "net/url: invalid control character in URL"),
        ("/a\x7fb", "net/url: invalid control character in URL"),
        ("/a%2", 'invalid URL escape "%2"'),
        ("/a%zzz", 'invalid URL escape "%zz"'),
        ("/a%", 'invalid URL escape "%"'),
    ],
)
def test_an_endpoint_has_to_be_the_path_of_a_url(endpoint: str, why: str) -> None:
    assert _unusable(endpoint) == why
