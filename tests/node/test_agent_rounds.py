"""The node agent without a server: keys of changes, kubelets of nodes, and the removal of nodes and pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.kubelet.agent import NodeAgent
from controllers.kubelet.dra.drivers import ClaimId
from controllers.options.options import Options, PluginDirs, Processes
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, PODS, RESOURCE_CLAIMS, Kind, key_of
from controllers.runtime.transport import NoTransport
from tests.support.objects import make_claim, make_emulated_node, make_pod
from tests.support.patience import become
from tests.support.recording import RecordingClient

pytestmark = pytest.mark.integration


def with_version_1(obj: Json) -> Json:
    """Give the object a fixed resourceVersion, so that equal objects compare equal."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": "1"}}


def node(name: str = "n", *, emulated: bool = True, **annotations: str) -> Json:
    made = make_emulated_node(name, **annotations)
    if not emulated:
        del made["metadata"]["annotations"]
    return with_version_1(made)


def pod(name: str = "p", on: str = "n", uid: str = "", claim: str = "", **status: Any) -> Json:
    claims = {"x": claim} if claim else {}
    return with_version_1(make_pod(name, uid=uid or f"{name}-uid", node=on, claims=claims, status=status))


def claim(*users: str, allocated: bool = True, results: Sequence[Json] = ()) -> Json:
    reserved = [{"resource": "pods", "name": name, "uid": f"{name}-uid"} for name in users]
    allocation: Json = {"allocation": {"devices": {"results": list(results)}}} if allocated else {}
    return with_version_1(make_claim("c", uid="c", reservedFor=reserved, **allocation))


class Agent:
    """The agent with nodes, pods and claims in its informers."""

    def __init__(self, **options: Any) -> None:
        self.client = RecordingClient()
        self.informers = Informers(Client(NoTransport()))
        self.options = Options(**options)
        self.part = NodeAgent(self.client, self.informers, self.options)  # type: ignore[arg-type]

    def put(self, kind: Kind, obj: Json, *, gone: bool = False) -> list[str]:
        """Add, update or delete an object. Return the keys that are queued for it."""
        selectors = {}
        if self.options.node and kind in (NODES, PODS):
            field = "metadata.name" if kind == NODES else "spec.nodeName"
            selectors = {"field_selector": f"{field}={self.options.node}"}
        self.informers.of(kind, **selectors).set_object(key_of(obj), None if gone else obj)
        return self.queued()

    def queued(self) -> list[str]:
        queue = self.part._controller.queue
        keys = sorted(queue._order)
        queue._order.clear()
        queue._dirty.clear()
        return keys

    def kubelet(self, name: str = "n") -> Any:
        return self.part._kubelets.start(name)


@asynccontextmanager
async def an_agent(**options: Any) -> AsyncIterator[Agent]:
    """Run an agent whose kubelets may start tasks."""
    agent = Agent(**options)
    async with asyncio.TaskGroup() as group:
        agent.part._kubelets.group = group
        yield agent
        for running in agent.part._kubelets._running.values():
            running.stop()


async def test_changes_are_queued_for_emulated_nodes() -> None:
    agent = Agent()
    assert agent.put(PODS, pod()) == [], "its node is not there yet"
    assert agent.put(PODS, pod("unbound", "")) == []
    assert agent.put(NODES, node()) == ["node:n", "pod:ns/p"]
    assert agent.put(NODES, node() | {"x": 1}) == ["node:n", "pod:ns/p"]
    assert agent.put(NODES, node("other", emulated=False)) == []
    assert agent.put(PODS, pod("r", "other")) == []
    assert agent.put(PODS, pod() | {"x": 1}) == ["pod:ns/p"]
    assert agent.put(PODS, pod("q", claim="c")) == ["pod:ns/q"]
    assert agent.put(RESOURCE_CLAIMS, claim()) == ["pod:ns/q"]
    assert agent.put(RESOURCE_CLAIMS, claim("q")) == ["pod:ns/q"]
    addressed = node() | {"status": {"addresses": [{"type": "InternalIP", "address": "172.18.0.7"}]}}
    agent.put(NODES, addressed)
    assert agent.part._registration._addresses._owner_of == {"172.18.0.7": "uid-n"}, "it is taken"
    agent.put(NODES, addressed, gone=True)
    assert agent.part._registration._addresses._owner_of == {}
    agent.part._slices_changed("n")
    assert agent.queued() == ["node:n"]


async def test_an_ended_pod_is_queued_again_when_it_is_deleted() -> None:
    agent = Agent()
    agent.put(NODES, node())
    held, ended = pod() | {"status": {"phase": "Running"}}, pod() | {"status": {"phase": "Succeeded"}}
    assert agent.put(PODS, held) == ["pod:ns/p"]
    assert agent.put(PODS, ended) == ["pod:ns/p"]
    assert agent.put(PODS, ended | {"x": 1}) == []
    assert agent.put(PODS, ended | {"status": {"phase": "Failed"}}) == []
    going = {**ended["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert agent.put(PODS, ended | {"metadata": going}) == ["pod:ns/p"]
    assert agent.put(PODS, ended | {"metadata": {**ended["metadata"], "uid": "other"}}) == ["pod:ns/p"]


async def test_a_kubelet_of_one_node_follows_only_that_node() -> None:
    agent = Agent(node="n")
    assert agent.part._claims is None
    assert agent.put(NODES, node(emulated=False)) == ["node:n"]
    assert agent.put(NODES, node("m")) == []
    assert Agent().part._claims is not None


async def test_a_deleted_pod_frees_its_address_and_its_claims() -> None:
    async with an_agent() as agent:
        agent.put(NODES, node())
        agent.put(PODS, pod(podIP="10.244.0.7", phase="Running"))
        assert agent.part._addresses._pool._address_of == {"p-uid": "10.244.0.7"}
        assert agent.put(PODS, pod(), gone=True) == []
        assert agent.part._addresses._pool._address_of == {}
        released: list[str] = []
        again: list[Any] = [timedelta(seconds=5), None]

        async def release(found: Json) -> Any:
            released.append(found["metadata"]["uid"])
            return again.pop(0)

        kubelet = agent.kubelet()
        kubelet.claims.might_need_unprepare = lambda uid: uid == "p-uid"
        kubelet.release = release
        agent.put(PODS, pod())
        assert agent.put(PODS, pod(uid="later")) == ["gone:p-uid", "pod:ns/p"], "another one of the same name"
        assert await agent.part.reconcile("gone:p-uid") == timedelta(seconds=5)
        assert "p-uid" in agent.part._gone
        assert await agent.part.reconcile("gone:p-uid") is None
        assert (agent.part._gone, released) == ({}, ["p-uid", "p-uid"])
        assert agent.put(PODS, pod(uid="later"), gone=True) == [], "nothing is held for it"
        agent.put(PODS, pod())
        assert agent.put(PODS, pod(), gone=True) == ["gone:p-uid"]
        agent.put(NODES, node(), gone=True)
        assert await agent.part.reconcile("gone:p-uid") is None
        assert agent.part._gone == {}, "its drivers went with the node"


async def test_a_deleted_node_stops_its_kubelet() -> None:
    async with an_agent() as agent:
        agent.put(NODES, node())
        first = agent.kubelet()
        assert agent.kubelet() is first
        [running] = agent.part._kubelets._running.values()
        agent.put(NODES, node(), gone=True)
        assert agent.part._kubelets._running == {}
        await asyncio.gather(*running.tasks, return_exceptions=True)
        assert all(task.cancelled() for task in running.tasks)
        assert agent.kubelet() is not first


@pytest.mark.parametrize(
    ("reason", "now", "raised", "released"),
    [
        ((404, "NotFound"), pod(), False, False),
        ((500, "InternalError"), pod(), True, False),
        ((404, "NotFound"), None, False, True),
        ((422, "Invalid"), None, False, True),
        ((422, "Invalid"), pod(uid="another"), False, True),
        ((422, "Invalid"), pod(), True, False),
    ],
)
async def test_a_pod_whose_report_fails_is_released_if_deleted_and_else_retried(
    reason: tuple[int, str], now: Json | None, raised: bool, released: bool
) -> None:
    async with an_agent() as agent:
        agent.put(NODES, node())
        agent.put(PODS, pod())
        gone: list[str] = []
        agent.part._pod_gone = lambda pod: gone.append(pod["metadata"]["uid"])  # type: ignore[method-assign]

        async def sync(*_: Any) -> None:
            agent.informers.of(PODS)._objects.pop("ns/p")
            if now is not None:
                agent.informers.of(PODS)._objects["ns/p"] = now
            raise StatusError(*reason, "refused")

        agent.kubelet().sync = sync
        if raised:
            with pytest.raises(StatusError):
                await agent.part.reconcile("pod:ns/p")
        else:
            assert await agent.part.reconcile("pod:ns/p") is None
        assert gone == (["p-uid"] if released else [])


async def test_only_pods_of_existing_emulated_nodes_are_reconciled() -> None:
    async with an_agent() as agent:
        assert await agent.part.reconcile("pod:ns/none") is None
        agent.put(PODS, pod())
        assert await agent.part.reconcile("pod:ns/p") is None
        agent.put(NODES, node(emulated=False))
        assert await agent.part.reconcile("pod:ns/p") is None
        assert await agent.part.reconcile("node:n") is None
        assert await agent.part.reconcile("node:none") is None
        assert (agent.part._kubelets._running, agent.client.writes) == ({}, [])
        agent.put(NODES, node())

        async def sync(*given: Json) -> timedelta:
            assert given == (pod(), node())
            return timedelta(seconds=3)

        agent.kubelet().sync = sync
        assert await agent.part.reconcile("pod:ns/p") == timedelta(seconds=3)
        assert await agent.part.reconcile("node:n") == timedelta(seconds=10)
        assert "patch/status" in agent.client.verbs


async def test_a_claim_is_read_from_the_server_if_the_cached_one_does_not_serve_the_pod() -> None:
    agent = Agent()
    live = claim("live")
    agent.client.there["ResourceClaim", "c"] = live
    for seen, found in ((None, live), (claim("p"), claim("p")), (claim("q"), live),
                        (claim("p", allocated=False), live)):  # fmt: skip
        if seen is not None:
            agent.put(RESOURCE_CLAIMS, seen)
        assert await agent.part._kubelets._read_claim(pod(), "c") == found
    one = Agent(node="n")
    one.client.there["ResourceClaim", "c"] = live
    assert await one.part._kubelets._read_claim(pod(), "c") == live


async def test_allocation_results_come_from_the_cache() -> None:
    agent, asked = Agent(), ClaimId("ns", "c", "c")
    assert list(agent.part._kubelets._allocation_results(asked)) == []
    agent.put(RESOURCE_CLAIMS, claim(allocated=False))
    assert list(agent.part._kubelets._allocation_results(asked)) == []
    agent.put(RESOURCE_CLAIMS, claim(results=[{"device": "d"}]))
    assert list(agent.part._kubelets._allocation_results(asked)) == [{"device": "d"}]
    assert list(Agent(node="n").part._kubelets._allocation_results(asked)) == []


async def test_faults_of_a_node_come_from_its_current_annotations() -> None:
    agent = Agent()
    healthy = agent.part._kubelets._faults("n")
    agent.put(NODES, node(missing_drivers="gpu.example.com"))
    assert agent.part._kubelets._faults("n") != healthy
    assert agent.part._kubelets._faults("none") == healthy


@pytest.mark.real_time
async def test_one_socket_serves_the_containers_of_all_nodes_that_run_as_processes(tmp_path: Path) -> None:
    run_as = Processes(directory=tmp_path / "run", announcements=tmp_path / "kubelets")
    async with an_agent(run=run_as) as agent:
        for name in ("n", "m"):
            agent.put(NODES, node(name))
            agent.kubelet(name)
        agent.put(PODS, pod())
        agent.put(PODS, pod("unbound", ""))
        agent.put(PODS, pod("far", "away"))
        found = agent.part._kubelets._find_pod("p-uid")
        assert found is not None
        running = agent.part._kubelets._running["n"].containers
        assert found == (pod(), running)
        assert running is not agent.part._kubelets._running["m"].containers
        assert [agent.part._kubelets._find_pod(uid) for uid in ("unbound-uid", "far-uid", "x")] == [None] * 3
        server = agent.part._kubelets._run_server
        assert server is not None
        await become(lambda: len(server._announced) == 2, "both are announced")
        assert sorted(each.name for each in (tmp_path / "kubelets").iterdir()) == ["m", "n"]
        assert running is not None
        running._changed(pod())
        assert agent.queued() == ["pod:ns/p"]
        await server.close()
    async with an_agent() as plain:
        plain.put(NODES, node())
        plain.kubelet()
        assert plain.part._kubelets._running["n"].containers is None
        plain.put(PODS, pod())
        assert plain.part._kubelets._find_pod("p-uid") is None


@pytest.mark.real_time
async def test_the_node_with_plugin_directories_has_real_drivers(tmp_path: Path) -> None:
    dirs = PluginDirs(plugins=tmp_path / "plugins", registry=tmp_path / "registry")
    async with an_agent(plugin_dirs=dirs) as agent:
        plugins = agent.part._kubelets.plugins
        assert plugins is not None
        assert agent.kubelet("node-1").claims is plugins.claims
        assert agent.kubelet("node-2").claims is not plugins.claims
        before = asyncio.get_running_loop().time()
        due = agent.part.due
        assert due is not None
        assert before <= due <= asyncio.get_running_loop().time(), "what drivers do cannot be foreseen"
        assert len(agent.part.metrics) > len(Agent().part.metrics)
        assert plugins._pods() is None, "nothing has been read yet"
        agent.informers.of(PODS).mark_synced()
        agent.put(PODS, pod(on="node-1"))
        agent.put(PODS, pod("q", "node-2"))
        assert plugins._pods() == [pod(on="node-1")]
        plugins._changed({"p-uid", "q-uid"})
        assert agent.queued() == ["pod:ns/p"]
        agent.put(NODES, node("node-1"))
    async with an_agent(plugin_dirs=dirs, node="n") as one:
        one.put(NODES, node(emulated=False))
        await one.part.reconcile("node:n")
        assert list(one.part._kubelets._running) == ["n"], "drivers register whether it has pods or not"
    assert Agent().part.due is None


@pytest.mark.parametrize(
    ("gates", "reported", "messages"),
    [({}, True, True), ({"ResourceHealthStatus": False, "ResourceHealthStatusMessage": False}, False, True),
     ({"ResourceHealthStatusMessage": False}, True, False)],
)  # fmt: skip
async def test_health_is_reported_where_its_gates_are_on(gates: Any, reported: bool, messages: bool) -> None:
    agent = Agent(gates=gates)
    health = agent.part._kubelets._emulated_health("n", Claims())  # type: ignore[arg-type]
    assert (health is not None) is reported
    if health is not None:
        assert health._messages is messages


class Claims:
    cache = None


async def test_gates_enable_features_of_claims() -> None:
    for gate, field in (("DRAExtendedResource", "extended_resources"), ("DRAReservedForWorkloads", "for_workloads")):
        for enabled in (True, False):
            features = Agent(gates={gate: enabled}).part._kubelets._dra_features()
            assert getattr(features, field) is enabled


@pytest.mark.real_time
async def test_lost_claims_are_released_once_the_pods_are_known(tmp_path: Path) -> None:
    dirs = PluginDirs(plugins=tmp_path / "plugins", registry=tmp_path / "registry")
    plugins = Agent(plugin_dirs=dirs).part._kubelets.plugins
    assert plugins is not None
    active: list[Any] = []

    async def release(found: Any) -> None:
        active.append(sorted(found))

    plugins.claims.release_lost = release  # type: ignore[method-assign, assignment]
    ended = [pod("over", phase="Succeeded"), pod("failed", phase="Failed")]
    for pods in (None, [], [pod(), *ended, pod("q", phase="Running")]):
        plugins._pods = lambda found=pods: found  # type: ignore[misc]
        await plugins.release_lost()
    assert active == [[], ["p-uid", "q-uid"]]
