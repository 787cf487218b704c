"""Drivers behind unix sockets: registration, calls, health and slices, with a driver process on grpcio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.dra.drivers import DriverCallError
from controllers.kubelet.dra.manager import DraError
from controllers.kubelet.dra.metrics import DraMetrics
from controllers.kubelet.grpc.host import HostOptions, PluginHost
from controllers.kubelet.grpc.plugins import Plugin, Plugins
from controllers.runtime.client import Client
from tests.conformance.draapi import Api
from tests.node.driver_process import DriverProcess
from tests.node.test_dra_manager import pod
from tests.support.objects import make_claim
from tests.support.patience import become

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

DRIVER = "gpu.example.com"
CASE: Json = {
    "node": "n1",
    "steps": [],
    "claims": [
        make_claim(
            "c",
            uid="c-uid",
            allocation={"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "d"}]}},
            reservedFor=[{"resource": "pods", "name": "p", "uid": "p-uid"}],
        )
    ],
    "slices": [
        {"metadata": {"name": name}, "spec": {"driver": driver, "nodeName": node}}
        for name, driver, node in (("own", DRIVER, "n1"), ("nic", "nic.example.com", "n1"), ("far", DRIVER, "n2"))
    ],
}


class RunningHost:
    """A plugin host, with an API server of one case."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.registry, self.state = root / "registry", root / "state"
        self.registry.mkdir(exist_ok=True)
        self.api, self.metrics = Api(CASE), DraMetrics()
        self.changed: list[set[str]] = []
        client = Client(self.api)

        async def read(pod: Json, name: str) -> Json:
            found: Json = self.api._claims[pod["metadata"]["namespace"], name]
            return found

        given = HostOptions("n1", self.state, self.registry, **options)
        self.host = PluginHost(client, read, given, self.metrics, lambda: None, self.changed.append)

    def sockets(self) -> list[tuple[str, bool]]:
        plugins = self.host.plugins.registered.get(DRIVER, ())
        return [(plugin.service, plugin.connection.connected) for plugin in plugins]

    async def connected(self, number: int = 1) -> None:
        await become(lambda: [c for _, c in self.sockets()] == [True] * number, f"{number} connected")


@asynccontextmanager
async def running(root: Path, **options: Any) -> AsyncIterator[RunningHost]:
    node = RunningHost(root, **options)
    task = asyncio.create_task(node.host.run())
    try:
        yield node
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def connected(root: Path, **options: Any) -> AsyncIterator[tuple[RunningHost, DriverProcess]]:
    """Run a host with a connected driver."""
    async with running(root, **options) as node:
        with DriverProcess(root, node.registry) as driver:
            await node.connected()
            yield node, driver


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a directory with a short path, since the path of a socket has at most 107 bytes."""
    return tmp_path_factory.mktemp("n")


@pytest.mark.parametrize(
    ("versions", "service"), [("v1,v1beta1", "v1"), ("v1beta1", "v1beta1"), ("v1beta1,v1", "v1beta1")]
)
async def test_a_driver_registers_and_is_called_by_its_first_service(root: Path, versions: str, service: str) -> None:
    async with running(root) as node:
        with DriverProcess(root, node.registry, versions=versions) as driver:
            await node.connected()
            await become(lambda: driver.calls("registered"), "registered")
            await node.host.claims.prepare(pod("p", "c"))
            using = pod("p", "c")
            devices = node.host.claims.container_devices(using, using["spec"]["containers"][0])
            assert devices == [f"{DRIVER}/test=claim-c-uid"]
            await node.host.claims.unprepare(pod("p", "c"))
            calls = [(call["method"], call["version"], call["claims"]) for call in driver.calls("prepare", "unprepare")]
            assert calls == [("prepare", service, ["c"]), ("unprepare", service, ["c"])]


async def test_a_driver_of_unknown_services_is_rejected_with_the_reason(root: Path) -> None:
    async with running(root) as node:
        with DriverProcess(root, node.registry, versions="v2") as driver:
            await become(lambda: driver.calls("refused"), "refused")
            error = driver.calls("refused")[0]["error"]
            assert error.startswith("RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC")
            assert '(["v2.DRAPlugin"]) are supported by the kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])' in error
            assert node.sockets() == []


async def test_a_driver_that_dies_in_a_call_fails_it_and_is_called_again_when_it_is_back(root: Path) -> None:
    async with connected(root) as (node, driver):
        driver.script(block=True)
        preparing = asyncio.create_task(node.host.claims.prepare(pod("p", "c")))
        await become(lambda: driver.calls("prepare"), "asked")
        driver.kill()
        with pytest.raises(DraError, match="code = Unavailable desc = "):
            await preparing
        assert node.host.claims.might_need_unprepare("p-uid")
        driver.script()
        driver.start()
        await node.connected()
        await node.host.claims.prepare(pod("p", "c"))


async def test_a_driver_that_deregisters_in_a_call_cancels_it_and_later_calls_to_it(root: Path) -> None:
    async with connected(root) as (node, driver):
        plugin = node.host.plugins.get(DRIVER)
        driver.script(block=True)
        preparing = asyncio.create_task(node.host.claims.prepare(pod("p", "c")))
        await become(lambda: driver.calls("prepare"), "asked")
        await node.host.plugins.deregister(DRIVER, plugin.endpoint)
        canceled = "rpc error: code = Canceled desc = grpc: the client connection is closing"
        with pytest.raises(DraError, match=f"NodePrepareResources: {canceled}$"):
            await preparing
        with pytest.raises(DriverCallError, match=f"^{canceled}$"):
            await plugin.unprepare([])
        assert len(driver.calls("prepare", "unprepare")) == 1, "a closed connection is not opened again"
        driver.script()


async def test_a_late_answer_is_not_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(root) as (node, driver):
        monkeypatch.setattr(node.host.plugins.get(DRIVER), "_timeout", 0.2)
        driver.script(block=True)
        with pytest.raises(DraError, match="code = DeadlineExceeded desc = context deadline exceeded"):
            await node.host.claims.prepare(pod("p", "c"))
        driver.script()


async def test_the_newest_of_two_instances_is_called_and_the_old_one_when_it_is_gone(root: Path) -> None:
    async with running(root) as node:
        with DriverProcess(root, node.registry, instance="-a") as old:
            await node.connected()
            new = DriverProcess(root, node.registry, instance="-b")
            with new:
                await node.connected(2)
                await node.host.claims.prepare(pod("p", "c"))
                assert old.calls("prepare")[-1]["instance"] == "-b"
                new.stop()
                await node.connected(1)
                await node.host.claims.unprepare(pod("p", "c"))
                assert old.calls("unprepare")[-1]["instance"] == "-a"


async def test_slices_go_at_start_and_when_a_driver_stays_away(root: Path) -> None:
    async with running(root, wiping_delay=0.3) as node:
        await become(lambda: set(node.api.slices) == {"far"}, "the node's slices go at its start")
        with DriverProcess(root, node.registry) as driver:
            await node.connected()
            node.api.slices = {item["metadata"]["name"]: item for item in CASE["slices"]}
            driver.stop()
            await become(lambda: set(node.api.slices) == {"nic", "far"}, "the driver's slices go, no others")


async def test_slices_stay_when_a_driver_is_back_in_time(root: Path) -> None:
    async with connected(root, wiping_delay=3600) as (node, driver):
        driver.kill()
        await become(lambda: node.host.wiper._pending, "its time runs")
        task = node.host.wiper._pending[DRIVER]
        driver.start()
        await node.connected()
        await become(task.cancelled, "its time is over")


async def test_health_is_watched_and_unknown_without_the_driver(root: Path) -> None:
    async with connected(root) as (node, driver):
        await node.host.claims.prepare(pod("p", "c"))
        driver.script(health="UNHEALTHY", text="too hot")
        await become(lambda: node.changed, "the pod is named")
        assert node.changed[0] == {"p-uid"}
        (shown,) = node.host.with_health(pod("p", "c"), [{"name": "c"}])
        resource = {"resourceID": f"{DRIVER}/test=claim-c-uid", "health": "Unhealthy", "message": "too hot"}
        assert shown["allocatedResourcesStatus"] == [{"name": "claim:c", "resources": [resource]}]
        driver.kill()

        def known() -> str:
            (status,) = node.host.with_health(pod("p", "c"), [{"name": "c"}])
            return str(status["allocatedResourcesStatus"][0]["resources"][0]["health"])

        await become(lambda: known() == "Unknown", "nothing is known")


async def test_calls_and_sockets_are_counted(root: Path) -> None:
    async with connected(root) as (node, _):
        await node.host.claims.prepare(pod("p", "c"))
        lines = [line for family in (*node.metrics.families, *node.host.metrics) for line in family.lines()]
        path = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
        labels = f'{{driver_name="{DRIVER}",method_name="{path}",grpc_status_code="OK"}}'
        assert f"dra_grpc_operations_duration_seconds_count{labels} 1" in lines
        assert 'dra_resource_claims_in_use{driver_name="<any>"} 1' in lines
        assert sum("plugin_manager_total_plugins" in line for line in lines) == 2


async def test_a_driver_can_be_deregistered_although_its_health_stream_swallows_a_cancellation(root: Path) -> None:
    cancelled: list[str] = []

    async def watch(plugin: Plugin) -> None:
        while len(cancelled) < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(plugin.name)

    plugins = Plugins(DraMetrics(), watch=watch)
    plugins.register(DRIVER, str(root / "dra.sock"), ["v1.DRAPlugin"])
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await plugins.deregister(DRIVER, str(root / "dra.sock"))
    assert plugins.registered == {}
