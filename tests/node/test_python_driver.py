"""Drivers on kubedra.driver, on a node of kubedra and called by a plain grpcio client."""

from __future__ import annotations

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest

from apiserver.api.objects import Json
from kubedra.driver import Claim, Driver
from kubedra.driver.metadata import DeviceMetadata
from kubedra.driver.sockets import SocketServer
from kubedra.pytest_plugin import Kube
from tests.node.grpcio_driver import M
from tests.node.test_node_process import CLAIM_SPEC, CLASS, DRIVER, TEMPLATE, make_pod
from tests.support.patience import patience, wait_until

pytestmark = pytest.mark.integration


class Gpus(Driver):
    name = DRIVER

    def __init__(self, number: int = 2) -> None:
        self.number, self.prepared, self.problem = number, dict[str, tuple[str, ...]](), ""
        self.errors: list[str] = []

    def devices(self) -> list[Json]:
        return [{"name": f"gpu-{index}"} for index in range(self.number)]

    def prepare(self, claim: Claim) -> dict[str, list[str]]:
        if self.problem:
            raise RuntimeError(self.problem)
        self.prepared[claim.uid] = claim.devices
        return {device: [f"vendor.com/gpu={device}"] for device in claim.devices}

    def unprepare(self, claim: Claim) -> None:
        self.prepared.pop(claim.uid, None)

    def failed(self, error: Exception) -> None:
        self.errors.append(str(error))


def test_a_driver_of_a_few_lines_serves_a_pod_to_its_end(kube: Kube) -> None:
    driver = Gpus()
    kube.add_node("n1", driver=driver)
    kube.apply([CLASS, TEMPLATE, make_pod()])
    kube.wait("pod/p", "phase=Running")
    assert [len(devices) for devices in driver.prepared.values()] == [1]
    kube.delete("pod/p")
    kube.wait("pod/p", "delete")
    assert driver.prepared == {}
    assert driver.errors == []


def test_a_driver_that_starts_before_its_node_exists_waits_for_it(kube: Kube) -> None:
    # The path of a socket has at most 107 bytes.
    with TemporaryDirectory() as directory, ThreadPoolExecutor() as pool:
        driver = Gpus().run(node="n1", plugin_dir=directory, kubeconfig=kube.kubeconfig)
        started = pool.submit(driver.start)
        wait_until(lambda: kube.requests(resource="nodes", name="n1", code=404), "a read of the node")
        kube.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        with started.result():
            wait_until(lambda: kube.list("resourceslices"), "its slice")


def test_an_exception_of_prepare_is_the_error_of_the_claim_and_is_retried(kube: Kube) -> None:
    driver = Gpus()
    driver.problem = "out of order"
    kube.add_node("n1", driver=driver)
    kube.apply([CLASS, TEMPLATE, make_pod()])
    event = wait_until(
        lambda: [e["message"] for e in kube.list("events") if e["reason"] == "FailedPrepareDynamicResources"],
        "an event",
    )[0]
    assert event.endswith(": out of order")
    driver.problem = ""
    kube.wait("pod/p", "phase=Running")


def test_changed_devices_are_published_with_the_fewest_writes(kube: Kube) -> None:
    driver = Gpus(1)
    kube.add_node("n1", driver=driver)
    running = kube.node("n1")._drivers[0]

    def there() -> list[int]:
        return [len(s["spec"].get("devices") or ()) for s in kube.list("resourceslices")]

    wait_until(lambda: there() == [1], "one device")
    driver.number = 3
    running.publish()
    wait_until(lambda: there() == [3], "three devices")
    # The driver counts a write when it has the answer.
    wait_until(lambda: running.statistics == {"creates": 1, "updates": 1, "deletes": 0}, "one write of each")


def test_reported_health_is_in_the_status_of_the_pod(kube: Kube) -> None:
    kube.add_node("n1", driver=Gpus(1))
    kube.apply([CLASS, TEMPLATE, make_pod()])
    kube.wait("pod/p", "phase=Running")
    kube.node("n1")._drivers[0].set_health("gpu-0", "Unhealthy", "too hot")

    def unhealthy(pod: Json) -> bool:
        shown = pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus") or ()
        resource = {"resourceID": "vendor.com/gpu=gpu-0", "health": "Unhealthy", "message": "too hot"}
        return [item["resources"] for item in shown] == [[resource]]

    kube.wait("pod/p", unhealthy)


def call(socket: Path, method: str, request: Any, answer: Any) -> Any:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        made = channel.unary_unary(method, type(request).SerializeToString, answer.FromString)
        return made(request)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plain_client_can_use_both_versions(
    kube: Kube, tmp_path_factory: pytest.TempPathFactory, version: str
) -> None:
    root = tmp_path_factory.mktemp("d")
    kube.add_node("n1")
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    kube.apply([CLASS, {**head, "spec": CLAIM_SPEC}])
    service = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin"
    with Gpus().run(node="n1", plugin_dir=root, kubeconfig=kube.kubeconfig):
        registration = root / "registry" / f"{DRIVER}-reg.sock"
        info = call(registration, "/pluginregistration.Registration/GetInfo", M.Empty(), M.PluginInfo)
        assert (info.type, info.name) == ("DRAPlugin", DRIVER)
        assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"]
        claim = kube.get("resourceclaim/c")
        asked = M.Claim(namespace="default", uid=claim["metadata"]["uid"], name="c")
        socket = Path(info.endpoint)

        def prepare(claim: Any) -> Any:
            request = M.PrepareRequest(claims=[claim])
            return call(socket, f"{service}/NodePrepareResources", request, M.PrepareResponse)

        with pytest.raises(grpc.RpcError, match="get resource claims: claim default/c not allocated"):
            prepare(asked)
        result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-1"}
        status = {"status": {"allocation": {"devices": {"results": [result]}}}}
        kube.client().patch("resourceclaim/c", status, subresource="status")
        (entry,) = prepare(asked).claims
        (device,) = entry.value.devices
        assert (entry.key, device.pool_name, device.device_name) == (asked.uid, "n1", "gpu-1")
        assert (list(device.request_names), list(device.cdi_device_ids)) == (["r"], ["vendor.com/gpu=gpu-1"])
        other = M.Claim(namespace="default", uid="another", name="c")
        with pytest.raises(grpc.RpcError, match="claim default/c got replaced"):
            prepare(other)
        request = M.PrepareRequest(claims=[asked])
        answer = call(socket, f"{service}/NodeUnprepareResources", request, M.UnprepareResponse)
        assert [entry.value.error for entry in answer.claims] == [""]


def test_a_rejected_driver_gets_the_reason(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> None:
    driver = Gpus()
    root = tmp_path_factory.mktemp("d")
    kube.add_node("n1")
    with driver.run(node="n1", plugin_dir=root, kubeconfig=kube.kubeconfig) as running:
        status = M.RegistrationStatus(plugin_registered=False, error="no room")
        registration = root / "registry" / f"{DRIVER}-reg.sock"
        with pytest.raises(grpc.RpcError, match="failed registration process: no room"):
            call(registration, "/pluginregistration.Registration/NotifyRegistrationStatus", status, M.Empty)
        with pytest.raises(RuntimeError, match="no room"):
            running.wait_registered()
    assert driver.errors == ["failed registration process: no room"]
    assert not list((root / "registry").iterdir())


@pytest.mark.real_time
@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_being_accepted_ends_with_its_socket(tmp_path: Path, turns: int) -> None:
    path = tmp_path / "x.sock"
    server = SocketServer(path, {})
    await server.listen()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.stop()
        async with patience(10):
            with suppress(ConnectionResetError):
                while await asyncio.get_running_loop().sock_recv(client, 4096):
                    pass


@pytest.mark.real_time
@pytest.mark.parametrize("turns", range(3))
async def test_a_socket_whose_opening_is_cancelled_is_closed(tmp_path: Path, turns: int) -> None:
    path = tmp_path / "x.sock"
    server = SocketServer(path, {})
    opening = asyncio.ensure_future(server.listen())
    while not path.exists():
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait((opening,))
    if not opening.cancelled():
        await server.stop()
    with pytest.raises((FileNotFoundError, ConnectionRefusedError)):
        await asyncio.open_unix_connection(path)


def test_device_metadata_is_one_file_per_request_with_a_generation(tmp_path: Path) -> None:
    metadata = DeviceMetadata(DRIVER, tmp_path / "data", tmp_path / "cdi")
    marks = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    claim = {"metadata": {"name": "c", "namespace": "ns", "uid": "u", "annotations": marks}}
    results = [{"request": request, "pool": "n1", "device": request[-1]} for request in ("a/x", "a/x", "b")]
    for generation in (1, 2):
        assert metadata.write(claim, results, {}) == {"a": f"{DRIVER}/metadata=u_a", "b": f"{DRIVER}/metadata=u_b"}
        written = json.loads((tmp_path / "data/dra-device-metadata/ns_c/a/metadata.json").read_text())
        assert (written["metadata"]["generation"], written["podClaimName"]) == (generation, "gpu")
        assert len(written["requests"][0]["devices"]) == 2
    (edited,) = json.loads((tmp_path / f"cdi/{DRIVER}_metadata_u_b.json").read_text())["devices"]
    (mount,) = edited["containerEdits"]["mounts"]
    assert mount["containerPath"].endswith(f"/resourceclaimtemplates/gpu/b/{DRIVER}-metadata.json")
    metadata.remove("ns", "c", "u")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
