"""The node agent without a server: whose work a change is, which kubelet does it, and what a node that is gone leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
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
from tests.support.patience import become
from tests.support.recording import RecordingClient
from tests.support.virtual import run

pytestmark = pytest.mark.integration


def node(name: str = "n", *, emulated: bool = True, **annotations: str) -> Json:
    marks = {f"kubedra.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    marks |= {"kubedra.dev/emulated": "true"} if emulated else {}
    return {"metadata": {"name": name, "uid": f"{name}-uid", "resourceVersion": "1", "annotations": marks}}


def pod(name: str = "p", on: str = "n", uid: str = "", claim: str = "", **status: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": on} if on else {})}
    spec |= {"resourceClaims": [{"name": "x", "resourceClaimName": claim}]} if claim else {}
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"{name}-uid", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": spec, "status": status}


def claim(*users: str, allocated: bool = True, results: Any = ()) -> Json:
    reserved = [{"resource": "pods", "name": name, "uid": f"{name}-uid"} for name in users]
    status = {"reservedFor": reserved} | ({"allocation": {"devices": {"results": list(results)}}} if allocated else {})
    return {"metadata": {"name": "c", "namespace": "ns", "uid": "c"}, "status": status}


class Agent:
    """The agent with make_informers nodes, pods and claims."""

    def __init__(self, **options: Any) -> None:
        self.client = RecordingClient()
        self.informers = Informers(Client(NoTransport()))
        self.options = Options(**options)
        self.part = NodeAgent(self.client, self.informers, self.options)  # type: ignore[arg-type]

    def put(self, kind: Kind, obj: Json, *, gone: bool = False) -> list[str]:
        """An object comes, changes or goes; the keys that are queued for it."""
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
        return self.part._kubelet(name)


@asynccontextmanager
async def an_agent(**options: Any) -> AsyncIterator[Agent]:
    """An agent whose kubelets may start their tasks."""
    agent = Agent(**options)
    async with asyncio.TaskGroup() as group:
        agent.part._group = group
        yield agent
        for running in agent.part._kubelets.values():
            running.stop()


def played(scenario: Callable[[], Awaitable[None]]) -> None:
    async def play() -> None:
        await scenario()

    run(play)


def test_changes_are_the_work_of_the_nodes_that_are_emulated() -> None:
    async def scenario() -> None:
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
        assert agent.part._registration._addresses._owner_of == {"172.18.0.7": "n-uid"}, "it is taken"
        agent.put(NODES, addressed, gone=True)
        assert agent.part._registration._addresses._owner_of == {}
        agent.part._slices_changed("n")
        assert agent.queued() == ["node:n"]

    played(scenario)


def test_a_pod_that_has_ended_concerns_its_node_again_when_it_is_deleted() -> None:
    async def scenario() -> None:
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

    played(scenario)


def test_a_kubelet_of_one_node_follows_that_alone() -> None:
    async def scenario() -> None:
        agent = Agent(node="n")
        assert agent.part._claims is None
        assert agent.put(NODES, node(emulated=False)) == ["node:n"]
        assert agent.put(NODES, node("m")) == []
        assert Agent().part._claims is not None

    played(scenario)


def test_a_pod_that_is_gone_leaves_its_address_and_its_claims_are_released() -> None:
    async def scenario() -> None:
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

    played(scenario)


def test_a_node_that_is_gone_takes_its_kubelet_with_it() -> None:
    async def scenario() -> None:
        async with an_agent() as agent:
            agent.put(NODES, node())
            first = agent.kubelet()
            assert agent.kubelet() is first
            [running] = agent.part._kubelets.values()
            agent.put(NODES, node(), gone=True)
            assert agent.part._kubelets == {}
            await asyncio.gather(*running.tasks, return_exceptions=True)
            assert all(task.cancelled() for task in running.tasks)
            assert agent.kubelet() is not first

    played(scenario)


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
def test_a_pod_that_cannot_be_reported_on_is_gone_or_tried_again(
    reason: tuple[int, str], now: Json | None, raised: bool, released: bool
) -> None:
    async def scenario() -> None:
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

    played(scenario)


def test_only_pods_on_nodes_that_are_there_and_emulated_are_looked_at() -> None:
    async def scenario() -> None:
        async with an_agent() as agent:
            assert await agent.part.reconcile("pod:ns/none") is None
            agent.put(PODS, pod())
            assert await agent.part.reconcile("pod:ns/p") is None
            agent.put(NODES, node(emulated=False))
            assert await agent.part.reconcile("pod:ns/p") is None
            assert await agent.part.reconcile("node:n") is None
            assert await agent.part.reconcile("node:none") is None
            assert (agent.part._kubelets, agent.client.writes) == ({}, [])
            agent.put(NODES, node())

            async def sync(*given: Json) -> timedelta:
                assert given == (pod(), node())
                return timedelta(seconds=3)

            agent.kubelet().sync = sync
            assert await agent.part.reconcile("pod:ns/p") == timedelta(seconds=3)
            assert await agent.part.reconcile("node:n") == timedelta(seconds=10)
            assert "patch/status" in agent.client.verbs

    played(scenario)


def test_a_claim_is_read_where_what_was_seen_does_not_serve_the_pod() -> None:
    async def scenario() -> None:
        agent = Agent()
        live = claim("live")
        agent.client.there["ResourceClaim", "c"] = live
        for seen, found in ((None, live), (claim("p"), claim("p")), (claim("q"), live),
                            (claim("p", allocated=False), live)):  # fmt: skip
            if seen is not None:
                agent.put(RESOURCE_CLAIMS, seen)
            assert await agent.part._read_claim(pod(), "c") == found
        one = Agent(node="n")
        one.client.there["ResourceClaim", "c"] = live
        assert await one.part._read_claim(pod(), "c") == live

    played(scenario)


def test_what_a_claim_was_given_is_known_as_far_as_it_was_seen() -> None:
    async def scenario() -> None:
        agent, asked = Agent(), ClaimId("ns", "c", "c")
        assert list(agent.part._allocation_results(asked)) == []
        agent.put(RESOURCE_CLAIMS, claim(allocated=False))
        assert list(agent.part._allocation_results(asked)) == []
        agent.put(RESOURCE_CLAIMS, claim(results=[{"device": "d"}]))
        assert list(agent.part._allocation_results(asked)) == [{"device": "d"}]
        assert list(Agent(node="n").part._allocation_results(asked)) == []

    played(scenario)


def test_a_nodes_faults_are_those_that_it_says_now() -> None:
    async def scenario() -> None:
        agent = Agent()
        healthy = agent.part._faults("n")
        agent.put(NODES, node(missing_drivers="gpu.example.com"))
        assert agent.part._faults("n") != healthy
        assert agent.part._faults("none") == healthy

    played(scenario)


@pytest.mark.real_time
async def test_containers_are_processes_where_that_was_said_and_one_socket_serves_all_nodes(tmp_path: Path) -> None:
    run_as = Processes(directory=tmp_path / "run", announcements=tmp_path / "kubelets")
    async with an_agent(run=run_as) as agent:
        for name in ("n", "m"):
            agent.put(NODES, node(name))
            agent.kubelet(name)
        agent.put(PODS, pod())
        agent.put(PODS, pod("unbound", ""))
        agent.put(PODS, pod("far", "away"))
        found = agent.part._find_pod("p-uid")
        assert found is not None
        running = agent.part._kubelets["n"].containers
        assert found == (pod(), running)
        assert running is not agent.part._kubelets["m"].containers
        assert (
            agent.part._find_pod("unbound-uid"),
            agent.part._find_pod("far-uid"),
            agent.part._find_pod("x"),
        ) == (None,) * 3
        server = agent.part._run_server
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
        assert plain.part._kubelets["n"].containers is None
        plain.put(PODS, pod())
        assert plain.part._find_pod("p-uid") is None


@pytest.mark.real_time
async def test_the_node_with_plugin_directories_has_real_drivers(tmp_path: Path) -> None:
    dirs = PluginDirs(plugins=tmp_path / "plugins", registry=tmp_path / "registry")
    async with an_agent(plugin_dirs=dirs) as agent:
        plugins = agent.part._plugins
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
        assert list(one.part._kubelets) == ["n"], "drivers register whether it has pods or not"
    assert Agent().part.due is None


@pytest.mark.parametrize(
    ("gates", "reported", "messages"),
    [({}, True, True), ({"ResourceHealthStatus": False, "ResourceHealthStatusMessage": False}, False, True),
     ({"ResourceHealthStatusMessage": False}, True, False)],
)  # fmt: skip
def test_health_is_reported_where_its_gates_are_on(gates: Any, reported: bool, messages: bool) -> None:
    async def scenario() -> None:
        agent = Agent(gates=gates)
        health = agent.part._emulated_health("n", Claims())  # type: ignore[arg-type]
        assert (health is not None) is reported
        if health is not None:
            assert health._messages is messages

    played(scenario)


class Claims:
    cache = None


def test_what_gates_allow_of_claims() -> None:
    async def scenario() -> None:
        for gate, field in (
            ("DRAExtendedResource", "extended_resources"),
            ("DRAReservedForWorkloads", "for_workloads"),
        ):
            for enabled in (True, False):
                features = Agent(gates={gate: enabled}).part._dra_features()
                assert getattr(features, field) is enabled

    played(scenario)


@pytest.mark.real_time
async def test_claims_of_pods_that_are_gone_are_released_once_the_pods_are_known(tmp_path: Path) -> None:
    dirs = PluginDirs(plugins=tmp_path / "plugins", registry=tmp_path / "registry")
    plugins = Agent(plugin_dirs=dirs).part._plugins
    assert plugins is not None
    active: list[Any] = []

    async def release(found: Any) -> None:
        active.append(sorted(found))

    plugins.claims.release_lost = release  # type: ignore[method-assign, assignment]
    for pods in (
        None,
        [],
        [pod(), pod("over", phase="Succeeded"), pod("failed", phase="Failed"), pod("q", phase="Running")],
    ):
        plugins._pods = lambda found=pods: found  # type: ignore[misc]
        await plugins.release_lost()
    assert active == [[], ["p-uid", "q-uid"]]
