"""The record of calls between kubelets and drivers, and kubelets that are killed at points of claim handling."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver.api.objects import Json
from kubedra import ControlPlane
from kubedra.client.client import ApiError
from kubedra.client.report import call_text, dump
from kubedra.pytest_plugin import Kube
from kubedra.runtime.crash_points import CrashPoint
from tests.node.driver_process import DriverProcess
from tests.node.test_node_process import CLASS, DRIVER, TEMPLATE, Cluster, make_pod, make_slice
from tests.node.test_node_process import cluster as cluster
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration


def calls(kube: Kube, method: str, number: int, *, ended: bool = True) -> list[Json]:
    """Return the calls of a method, once there are this number of them."""

    def found() -> list[Json]:
        known = kube.driver_calls(method=method)
        return known if len([call for call in known if call["code"] or not ended]) >= number else []

    return list(wait_until(found, f"{number} × {method}"))


def test_calls_of_a_node_in_its_own_process_are_recorded_with_claims_and_answers(cluster: Cluster) -> None:
    kube = cluster.kube
    (info,) = calls(kube, "GetInfo", 1)
    assert (info["node"], info["driver"], info["code"]) == ("n1", DRIVER, "OK")
    assert info["answer"]["supportedVersions"] == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
    (notified,) = calls(kube, "NotifyRegistrationStatus", 1)
    assert notified["request"] == {"registered": True, "error": ""}
    cluster.driver.script(health="HEALTHY")
    cluster.run_pod()
    claim = kube.list("resourceclaims")[0]["metadata"]
    (prepared,) = calls(kube, "NodePrepareResources", 1)
    assert prepared["claims"] == [{name: claim[name] for name in ("namespace", "name", "uid")}]
    devices = prepared["answer"]["claims"][claim["uid"]]["devices"]
    assert (devices[0]["pool"], devices[0]["device"], prepared["seconds"] > 0) == ("n1", "device-0", True)
    assert kube.driver_calls(claim=f"default/{claim['name']}") == [prepared]
    assert kube.driver_calls(driver="other") == []
    stream, message = calls(kube, "NodeWatchResources", 2, ended=False)[:2]
    assert (stream["stream"], stream["code"], message["id"]) == (True, "", f"{stream['id']}/1")
    assert message["answer"]["devices"][0]["health"] == "Healthy"
    cluster.delete_pod()
    (released,) = calls(kube, "NodeUnprepareResources", 1)
    assert len({call["id"] for call in (info, notified, prepared, stream, message, released)}) == 6


def test_a_failing_test_shows_running_and_failed_calls(cluster: Cluster) -> None:
    cluster.driver.script(error="no such device")
    cluster.kube.apply(make_pod())
    calls(cluster.kube, "NodePrepareResources", 1)
    cluster.driver.script(block=True)

    def lines() -> list[str]:
        return [line for line in dump(cluster.kube.client()).splitlines() if "NodePrepareResources" in line]

    wait_until(lambda: any(line.endswith(": still running") for line in lines()), "a running call is shown")
    failed = next(line for line in lines() if "no such device" in line and line.startswith("Driver call "))
    assert f" n1 {DRIVER} NodePrepareResources default/p-gpu-" in failed
    cluster.driver.script()


def test_a_long_answer_is_shortened() -> None:
    call = {
        "time": "T",
        "node": "n",
        "driver": "",
        "method": "M",
        "claims": [],
        "code": "OK",
        "error": "",
        "seconds": 1,
    }
    assert len(call_text({**call, "answer": {"devices": "x" * 999}})) < 400


def test_calls_of_the_first_node_of_up_are_recorded_until_a_reset(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("n")
    plane = ControlPlane(nodes=1, args=(f"--plugin-dir={root}",))
    with plane, plane.client() as client, DriverProcess(root, root / "registry", DRIVER, node="node-1") as driver:
        driver.wait_called("registered")
        client.apply([CLASS, TEMPLATE, make_slice("node-1"), make_pod()])
        client.wait("pod/p", "phase=Running")
        (prepared,) = client.driver_calls(method="NodePrepareResources")
        assert (prepared["node"], prepared["code"]) == ("node-1", "OK")
        plane.reset()
        assert client.driver_calls(method="NodePrepareResources") == []


def test_a_node_logs_its_calls_with_v(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> None:
    from kubedra.plane.node_process import NodeProcess

    root = tmp_path_factory.mktemp("n")
    node = NodeProcess("n1", kube.kubeconfig, root, args=("-v",))
    node.start()
    try:
        with DriverProcess(root, node.registry_dir, DRIVER) as driver:
            driver.wait_called("registered")
            wait_until(lambda: f"driver {DRIVER}: NotifyRegistrationStatus (" in node.log(), "the call is logged")
            assert " OK after " in node.log()
    finally:
        node.close()


def test_only_users_who_may_do_everything_read_and_record_calls(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('admin,admin,1,"system:masters"\nnode,system:node:n1,2,"system:nodes"\n')
    with ControlPlane(args=(f"--token-auth-file={tokens}", "--authorization-mode=Node,RBAC")) as plane:
        from kubedra.client.client import Client

        with Client(plane.url, token="node") as client:
            for method in ("GET", "POST", "DELETE"):
                with pytest.raises(ApiError) as caught:
                    client.request(method, "/-/drivers/calls", {"calls": []} if method == "POST" else None)
                assert caught.value.code == 403


@pytest.mark.parametrize(
    ("point", "prepared", "before"),
    [
        ("before-prepare", ["prepare"], False),
        ("prepared", ["prepare", "prepare"], False),
        ("before-checkpoint", ["prepare", "prepare"], False),
        ("checkpointed", ["prepare", "prepare"], True),
    ],
)
def test_a_kubelet_killed_in_the_preparation_prepares_again(
    cluster: Cluster, point: CrashPoint, prepared: list[str], before: bool
) -> None:
    cluster.node.kill(at=point)
    cluster.kube.apply(make_pod())
    cluster.node.wait_killed()
    assert len(cluster.node.prepared()) == 1, "the pod is in the checkpoint before the first call"
    assert (b"device-0" in (cluster.root / "dra_manager_state").read_bytes()) == before
    cluster.node.start()
    cluster.kube.wait("pod/p", "phase=Running")
    assert cluster.methods() == prepared


@pytest.mark.parametrize(
    ("point", "released", "left"),
    [
        ("before-unprepare", ["unprepare"], 1),
        ("unprepared", ["unprepare", "unprepare"], 1),
        ("released", ["unprepare"], 0),
    ],
)
def test_a_kubelet_killed_in_the_release_releases_again(
    cluster: Cluster, point: CrashPoint, released: list[str], left: int
) -> None:
    cluster.run_pod()
    cluster.node.kill(at=point)
    cluster.kube.delete("pod/p")
    cluster.node.wait_killed()
    assert len(cluster.node.prepared()) == left
    cluster.node.start()
    cluster.kube.wait("pod/p", "delete")
    assert cluster.methods() == ["prepare", *released]


def test_an_unknown_point_and_a_stopped_node_are_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="unknown point nowhere; use one of: before-prepare, prepared, "):
        cluster.node.kill(at="nowhere")  # type: ignore[arg-type]
    cluster.node.kill()
    with pytest.raises(RuntimeError, match="node n1 is not running"):
        cluster.node.kill(at="prepared")
