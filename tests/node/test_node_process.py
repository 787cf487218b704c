"""A node as a process with real drivers: the driver, the node or a pod ends at any moment."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from apiserver.api.objects import Json
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from kubedra import ControlPlane
from kubedra.plane.node_process import NodeProcess
from kubedra.pytest_plugin import Kube
from tests.node.driver_process import DriverProcess
from tests.node.grpcio_driver import M
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration

DRIVER = "gpu.example.com"
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}
CLAIM_SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one"},
    "spec": {"spec": CLAIM_SPEC},
}


def make_slice(node: str = "n1") -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"device-{number}"} for number in range(2)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


def make_pod() -> Json:
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


class Cluster:
    """A control plane, a node process and its driver."""

    def __init__(self, kube: Kube, root: Path) -> None:
        self.kube, self.root = kube, root
        kube.add_node("n1", plugin_dir=root)
        self.driver = DriverProcess(root, self.node.registry_dir, DRIVER)

    @property
    def node(self) -> NodeProcess:
        return self.kube.node("n1")

    def publish(self) -> None:
        """Publish the slice after the driver registered, since the node deletes slices at its start."""
        self.driver.wait_called("registered")
        self.kube.apply([CLASS, TEMPLATE])
        self.kube.client().apply(make_slice())

    def run_pod(self) -> None:
        self.kube.apply(make_pod())
        self.kube.wait("pod/p", "phase=Running")

    def delete_pod(self) -> None:
        self.kube.delete("pod/p")
        self.kube.wait("pod/p", "delete")

    def end_pod(self) -> None:
        self.kube.client().patch("pod/p", {"metadata": {"annotations": {"kubedra.dev/exit-after": "0"}}})

    def methods(self) -> list[str]:
        return [call["method"] for call in self.driver.calls("prepare", "unprepare")]

    def phase(self) -> str:
        return str(self.kube.get("pod/p")["status"]["phase"])

    def failure(self) -> str:
        """Return the message of the failed preparation."""
        reason = "FailedPrepareDynamicResources"

        def message() -> str:
            return next((str(e["message"]) for e in self.kube.list("events") if e["reason"] == reason), "")

        return str(wait_until(message, f"an event {reason}"))

    def wait_released(self) -> None:
        wait_until(lambda: not self.node.prepared(), "all claims are released")


@pytest.fixture
def cluster(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(kube, tmp_path_factory.mktemp("n"))
    with made.driver:
        made.publish()
        yield made


def test_a_pod_runs_with_its_claim_prepared_and_ends_when_it_is_released(cluster: Cluster) -> None:
    cluster.run_pod()
    assert next(iter(cluster.node.prepared())).startswith("default/p-gpu-")
    cluster.delete_pod()
    cluster.wait_released()
    assert cluster.methods() == ["prepare", "unprepare"]


def test_a_pod_waits_for_a_driver_that_is_not_registered(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = Cluster(kube, tmp_path_factory.mktemp("n"))
    kube.apply([CLASS, TEMPLATE, make_slice(), make_pod()])
    text = f"Failed to prepare dynamic resources: prepare dynamic resources: DRA driver {DRIVER} is not registered"
    assert cluster.failure() == text
    assert cluster.phase() == "Pending"
    with cluster.driver:
        kube.wait("pod/p", "phase=Running")


def test_a_claim_that_is_refused_is_tried_again(cluster: Cluster) -> None:
    cluster.driver.script(error="no such device")
    cluster.kube.apply(make_pod())
    assert "NodePrepareResources failed for ResourceClaim p-gpu-" in cluster.failure()
    assert cluster.phase() == "Pending"
    cluster.driver.script()
    cluster.kube.wait("pod/p", "phase=Running")


def test_a_pod_is_not_reported_as_ended_before_its_claim_is_released(cluster: Cluster) -> None:
    cluster.run_pod()
    cluster.driver.script(error="busy")
    cluster.end_pod()
    cluster.driver.wait_called("unprepare", 2)
    assert cluster.phase() == "Running"
    cluster.driver.script()
    cluster.kube.wait("pod/p", "phase=Succeeded")
    cluster.wait_released()


def test_a_deleted_pod_stays_while_its_driver_is_away(cluster: Cluster) -> None:
    cluster.run_pod()
    cluster.driver.kill()
    cluster.kube.delete("pod/p")
    wait_until(lambda: "cannot end yet" in cluster.node.log(), "the node tries")
    assert cluster.kube.get("pod/p")["metadata"]["deletionTimestamp"]
    cluster.driver.start()
    cluster.kube.wait("pod/p", "delete")
    assert len(cluster.driver.calls("unprepare")) == 1


def test_a_running_pod_is_not_prepared_again_when_the_node_was_killed(cluster: Cluster) -> None:
    cluster.run_pod()
    cluster.node.restart()
    cluster.driver.wait_called("registered", 2)
    # The pod ends once the node has observed it again, with its driver.
    cluster.end_pod()
    cluster.kube.wait("pod/p", "phase=Succeeded")
    assert cluster.methods() == ["prepare", "unprepare"]


def test_a_node_killed_while_the_driver_prepares_prepares_again_and_releases_once(cluster: Cluster) -> None:
    cluster.driver.script(block=True)
    cluster.kube.apply(make_pod())
    cluster.driver.wait_called("prepare")
    assert cluster.node.prepared()
    cluster.node.kill()
    cluster.driver.script()
    cluster.node.start()
    cluster.kube.wait("pod/p", "phase=Running")
    cluster.delete_pod()
    assert cluster.methods() == ["prepare", "prepare", "unprepare"]


def test_a_node_killed_while_the_driver_releases_releases_again(cluster: Cluster) -> None:
    cluster.run_pod()
    cluster.driver.script(block=True)
    cluster.kube.delete("pod/p")
    cluster.driver.wait_called("unprepare")
    cluster.node.kill()
    assert cluster.node.prepared()
    cluster.driver.script()
    cluster.node.start()
    cluster.kube.wait("pod/p", "delete")
    cluster.wait_released()


def test_a_pod_deleted_by_force_while_the_node_is_down_is_released_at_its_start(cluster: Cluster) -> None:
    cluster.run_pod()
    cluster.node.kill()
    cluster.kube.delete("pod/p", grace_period=0)
    cluster.node.start()
    cluster.driver.wait_called("unprepare")
    cluster.wait_released()


def test_a_pod_deleted_while_the_node_is_down_is_not_prepared(cluster: Cluster) -> None:
    cluster.node.kill()
    pod = make_pod()
    pod["spec"]["nodeName"] = "n1"
    cluster.kube.apply(pod)
    cluster.kube.delete("pod/p")
    cluster.node.start()
    cluster.kube.wait("pod/p", "delete")
    assert cluster.driver.calls("prepare") == []


def test_health_of_devices_shows_in_the_pods_status(cluster: Cluster) -> None:
    cluster.run_pod()

    def health(pod: Json) -> list[str]:
        status = pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus") or [{"resources": []}]
        return [item["health"] for item in status[0]["resources"]]

    def has_health(state: str, pod: Json) -> bool:
        return state.title() in health(pod)

    for state in ("HEALTHY", "UNHEALTHY", "HEALTHY"):
        cluster.driver.script(health=state)
        cluster.kube.wait("pod/p", partial(has_health, state))


def test_a_torn_checkpoint_ends_the_node_with_one_line(kube: Kube, tmp_path: Path) -> None:
    (tmp_path / "dra_manager_state").write_text('{"Data":"')
    node = NodeProcess("n1", kube.kubeconfig, tmp_path)
    node.start()
    wait_until(lambda: not node.running, "it ends")
    (line,) = node.log().splitlines()
    start = "kubedra node run: create ResourceClaim cache: GetOrCreate() on checkpoint state: failed to get checkpoint"
    assert line.startswith(start)
    node.close()


def test_a_plugin_directory_that_cannot_be_made_ends_the_node_with_one_line(
    kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("n") / "file"  # short, because its sockets' paths are checked first
    file.touch()
    node = NodeProcess("n1", kube.kubeconfig, file / "below")
    node.start()
    wait_until(lambda: not node.running, "it ends")
    (line,) = node.log().splitlines()
    assert "could not initialize checkpoint manager" in line
    node.close()


TOKENS = """admin-token,admin,1,"system:masters"
node-token,system:node:n1,2,"system:nodes"
"""


def test_a_node_needs_no_more_than_a_nodes_own_credentials(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("n")
    tokens, kubeconfig = root / "tokens.csv", root / "kubeconfig"
    tokens.write_text(TOKENS)
    flags = (f"--token-auth-file={tokens}", "--authorization-mode=Node,RBAC")
    with ControlPlane(args=(*flags, "--enable-admission-plugins=NodeRestriction")) as plane:
        cluster = {"clusters": [{"name": "k", "cluster": {"server": plane.url}}], "current-context": "k"}
        users = {"users": [{"name": "k", "user": {"token": "node-token"}}]}
        contexts = {"contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}]}
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **cluster, **users, **contexts}))
        node = NodeProcess("n1", kubeconfig, root)
        node.start()
        try:
            with plane.client() as client, DriverProcess(root, node.registry_dir, DRIVER) as driver:
                client.wait("node/n1", "condition=Ready")
                driver.wait_called("registered")
                client.apply([CLASS, TEMPLATE, make_slice(), make_pod()])
                client.wait("pod/p", "phase=Running")
                assert client.wait("lease/n1", "create", namespace="kube-node-lease")
                client.delete("pod/p")
                client.wait("pod/p", "delete")
                assert len(driver.calls("unprepare")) == 1
        finally:
            node.close()


@pytest.mark.parametrize("flags", [("--registry-dir=x",), ("--plugin-dir=x", "--nodes=0")])
def test_directories_without_a_node_are_a_mistake(flags: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="--plugin-dir"):
        read(flags)


def test_the_first_node_of_up_has_real_drivers(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("n")
    plane = ControlPlane(nodes=1, args=(f"--plugin-dir={root}",))
    driver = DriverProcess(root, root / "registry", DRIVER, node="node-1")
    with plane, plane.client() as client, driver:
        client.wait("node/node-1", "condition=Ready")
        driver.wait_called("registered")
        client.apply([CLASS, TEMPLATE, make_slice("node-1"), make_pod()])
        client.wait("pod/p", "phase=Running")
        assert len(driver.calls("prepare")) == 1


def test_the_pod_resources_api_names_the_devices_of_containers(cluster: Cluster) -> None:
    cluster.run_pod()
    claim, path_of = next(iter(cluster.node.prepared())), cluster.root / "pod-resources" / "kubelet.sock"

    def ask(method: str, request: Any, answer: Any) -> Any:
        with grpc.insecure_channel(f"unix:{path_of}") as channel:
            path = f"/v1.PodResourcesLister/{method}"
            return channel.unary_unary(path, type(request).SerializeToString, answer.FromString)(request)

    (pod,) = ask("List", M.Empty(), M.ListPodResources).pods
    named = M.PodName(name="p", namespace="default")
    assert ask("Get", named, M.GetPodResources).pod == pod
    (container,) = pod.containers
    (resource,) = container.dynamic_resources
    assert f"{resource.claim_namespace}/{resource.claim_name}" == claim
    (device,) = resource.claim_resources
    assert (device.driver_name, device.pool_name, device.device_name) == (DRIVER, "n1", "device-0")
    assert [cdi.name.partition("=")[0] for cdi in device.cdi_devices] == [f"{DRIVER}/test"]
    assert ask("GetAllocatableResources", M.Empty(), M.Empty) == M.Empty()
    with pytest.raises(grpc.RpcError, match="pod q in namespace default not found"):
        ask("Get", M.PodName(name="q", namespace="default"), M.GetPodResources)


def test_a_nodes_metrics_are_answered_where_a_flag_says(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    flags = (f"--healthz-bind-address=127.0.0.1:{port}",)
    node = NodeProcess("n1", kube.kubeconfig, tmp_path_factory.mktemp("n"), args=flags)
    node.start()
    try:
        kube.wait("node/n1", "condition=Ready")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert 'dra_resource_claims_in_use{driver_name="<any>"} 0' in answer.read().decode().splitlines()
    finally:
        node.close()
