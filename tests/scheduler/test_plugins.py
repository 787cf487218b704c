"""Plugins: the fields that they declare to read decide how long verdicts are cached and which events wake pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import NODES
from controllers.scheduler.cycle.watching import node_comparison
from controllers.scheduler.framework.events import ClusterEvent, Event
from controllers.scheduler.framework.framework import SKIP, Plugin, Reads, hints_of, node_field, pod_field
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.plugins.placement import NODE_NAME
from controllers.scheduler.queue.queue import SchedulingQueue
from controllers.scheduler.queue.queued_pod import SubQueue
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from tests.scheduler.cluster import Cluster
from tests.scheduler.world import World, scheduled
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice

RACK = "example.com/rack"
WRONG_RACK = Rejection("Rack", ("node(s) were in another rack",))
WRONG = f"0/1 nodes are available: 1 {WRONG_RACK.reasons[0]}."


class Rack:
    """A filter that keeps pods with a rack on nodes of that rack. `calls` lists pod and node of each call."""

    def __init__(self, **more: Any) -> None:
        self.calls: list[tuple[str, str]] = []
        reads = Reads(pod=(pod_field("metadata", "annotations", RACK),), node=(node_field("metadata", "labels", RACK),))
        self.plugin = Plugin(**{"name": "Rack", "reads": reads, "filter": self._filter, **more})

    def _filter(self, pod: PodInfo, _: None, node: NodeInfo) -> Rejection | None:
        self.calls.append((pod.name, node.name))
        wanted = (pod.pod["metadata"].get("annotations") or {}).get(RACK)
        return None if wanted is None or node.labels.get(RACK) == wanted else WRONG_RACK


def in_rack(name: str, rack: str | None, **more: Any) -> Json:
    return make_pod(name, annotations={RACK: rack} if rack else {}, **more)


def make_rack_node(rack: str, name: str = "n") -> Json:
    return make_node(name, labels={RACK: rack})


def test_an_extra_filter_is_called() -> None:
    rack = Rack()
    cluster = Cluster(make_rack_node("1", "a"), make_rack_node("2", "b"), extra=(rack.plugin,))
    assert cluster.place(PodInfo(in_rack("p", "2"))) == "b"
    assert cluster.refusal(PodInfo(in_rack("q", "3"))) == f"0/2 nodes are available: 2 {WRONG_RACK.reasons[0]}."


def test_a_verdict_is_cached_for_pods_that_are_equal_in_the_fields_it_reads() -> None:
    rack = Rack()
    cluster = Cluster(make_rack_node("1"), extra=(rack.plugin,))
    for name in ("p", "q"):
        assert cluster.refusal(PodInfo(in_rack(name, "2", labels={"app": name}))) == WRONG
    assert rack.calls == [("p", "n")]
    assert cluster.place(PodInfo(in_rack("r", "1"))) == "n"
    assert cluster.place(PodInfo(in_rack("s", None))) == "n"
    assert cluster.place(PodInfo(in_rack("t", "1"))) == "n"
    assert [pod for pod, _ in rack.calls] == ["p", "r", "s"]


def test_a_verdict_is_invalidated_when_the_node_changes() -> None:
    rack = Rack()
    cluster = Cluster(make_rack_node("1"), extra=(rack.plugin,))
    assert cluster.refusal(PodInfo(in_rack("p", "2"))) == WRONG
    cluster.cache.set_node(make_rack_node("2"))
    assert cluster.place(PodInfo(in_rack("p", "2"))) == "n"


def test_a_filter_without_declared_fields_is_always_called_and_every_event_wakes_its_pods() -> None:
    rack = Rack(reads=Plugin(name="default").reads)
    cluster = Cluster(make_rack_node("1"), extra=(rack.plugin,))
    for name in ("p", "q"):
        assert cluster.place(PodInfo(in_rack(name, "1"))) == "n"
    assert [pod for pod, _ in rack.calls] == ["p", "q"]
    assert hints_of(rack.plugin) == dict.fromkeys(ClusterEvent)
    assert node_comparison((rack.plugin,))({"status": {"a": 1}}, {"status": {"a": 2}})


def test_the_rejection_of_an_earlier_filter_wins_over_a_cached_one() -> None:
    def live(pod: PodInfo, _: None, node: NodeInfo) -> Rejection | None:
        return Rejection("Moody", ("node(s) were moody",)) if moody else None

    moody = False
    rack = Rack()
    cluster = Cluster(make_rack_node("1"), extra=(Plugin(name="Moody", filter=live), rack.plugin))
    assert cluster.refusal(PodInfo(in_rack("p", "2"))) == WRONG
    moody = True
    assert cluster.refusal(PodInfo(in_rack("q", "2"))) == "0/1 nodes are available: 1 node(s) were moody."
    moody = False
    assert cluster.refusal(PodInfo(in_rack("r", "2"))) == WRONG
    assert rack.calls == [("p", "n")]


WAKING: list[tuple[str, Event, bool]] = [
    ("a new node", Event(ClusterEvent.NODE_ADD, None, make_rack_node("2", "new")), True),
    ("the label it reads", Event(ClusterEvent.NODE_LABEL, make_rack_node("1"), make_rack_node("2")), True),
    ("another label", Event(ClusterEvent.NODE_LABEL, make_rack_node("1"), make_rack_node("1")), False),
    ("the pod's annotation", Event(ClusterEvent.POD_OTHER, in_rack("p", "2", uid="p"), in_rack("p", "1", uid="p")),
     True),
    ("the pod's other fields", Event(ClusterEvent.POD_OTHER, in_rack("p", "2", uid="p"), in_rack("p", "2", uid="p")),
     False),
    ("another pod", Event(ClusterEvent.POD_OTHER, in_rack("q", "2"), in_rack("q", "1")), False),
    ("a slice", Event(ClusterEvent.SLICE_ADD, None, make_slice("n", 1)), False),
    ("a pod that is gone", Event(ClusterEvent.POD_DELETE, make_pod(nodeName="n"), None), False),
]  # fmt: skip


@pytest.mark.parametrize(("event", "wakes"), [case[1:] for case in WAKING], ids=[case[0] for case in WAKING])
async def test_a_change_of_the_fields_a_filter_reads_wakes_its_pods(event: Event, wakes: bool) -> None:
    plugin = Rack().plugin
    queue = SchedulingQueue(lambda _: None, {plugin.name: hints_of(plugin)})
    queue.add(PodInfo(in_rack("p", "2", uid="p")))
    pod = await queue.pop()
    queue.put_back(pod, (plugin.name,))
    queue.notify(event)
    assert (pod.sub_queue is not SubQueue.UNSCHEDULABLE) == wakes


def test_pods_that_wait_for_new_nodes_are_also_woken_by_taints() -> None:
    assert hints_of(NODE_NAME)[ClusterEvent.NODE_TAINT] is None


async def test_a_hint_that_fails_wakes_the_pod() -> None:
    def broken(_: PodInfo, __: Event) -> bool:
        raise ZeroDivisionError

    queue = SchedulingQueue(lambda _: None, {"Broken": {ClusterEvent.NODE_ADD: broken}})
    queue.add(PodInfo(make_pod("p")))
    pod = await queue.pop()
    queue.put_back(pod, ("Broken",))
    queue.notify(Event(ClusterEvent.NODE_ADD, None, make_node("n")))
    assert pod.sub_queue is SubQueue.BACKOFF


async def test_on_a_server_a_pod_is_bound_once_the_filter_accepts_the_node() -> None:
    kernel = node_field("status", "nodeInfo", "kernelVersion")

    def require_7(_: PodInfo, __: None, node: NodeInfo) -> Rejection | None:
        return None if node.node and kernel.read(node.node) == "7" else WRONG_RACK

    async with World(plugins=(Rack(reads=Reads(node=(kernel,)), filter=require_7).plugin,)) as world:
        await world.add(make_node("n"), make_pod("p"))
        assert WRONG_RACK.reasons[0] in await world.unschedulable("p")
        node = await world.client.get(NODES, "n")
        names = ("machineID", "systemUUID", "bootID", "osImage", "containerRuntimeVersion", "architecture")
        info = dict.fromkeys((*names, "kubeletVersion", "kubeProxyVersion", "operatingSystem"), "")
        status = {**node["status"], "nodeInfo": {**info, "kernelVersion": "7"}}
        await world.client.update_status(NODES, {**node, "status": status})
        assert await world.node_of("p") == "n"


async def test_an_unexpected_error_fails_the_attempt_of_one_pod_only() -> None:
    def broken(pod: PodInfo, _: None, __: NodeInfo) -> Rejection | None:
        if pod.name == "bad":
            raise ZeroDivisionError("rack by zero")
        return None

    async with World(plugins=(Plugin(name="Broken", filter=broken),)) as world:
        await world.add(make_node("n"), make_pod("bad", priority=0))
        assert await world.unschedulable("bad") == "unexpected ZeroDivisionError: rack by zero"
        assert scheduled(await world.pod("bad"))["reason"] == "SchedulerError"
        await world.add(make_pod("good"))
        assert await world.node_of("good") == "n"


class Spy(dict[str, Any]):
    """A JSON object that records the paths that are read."""

    def __init__(self, obj: Json, seen: set[tuple[str, ...]], path: tuple[str, ...] = ()) -> None:
        super().__init__({key: self._wrap(value, seen, (*path, key)) for key, value in obj.items()})
        self._seen, self._path = seen, path

    @classmethod
    def _wrap(cls, value: Any, seen: set[tuple[str, ...]], path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return cls(value, seen, path)
        return [cls._wrap(item, seen, path) for item in value] if isinstance(value, list) else value

    def __getitem__(self, key: str) -> Any:
        self._seen.add((*self._path, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._seen.add((*self._path, key))
        return super().get(key, default)


class SpiedPod(PodInfo):
    """A pod that records the paths that are read."""

    RECORDED = frozenset({"name", "namespace", "key", "uid", "priority"})

    def __init__(self, pod: Json, seen: set[tuple[str, ...]]) -> None:
        super().__init__(Spy(pod, seen))
        seen.clear()
        self.seen = seen

    def __getattribute__(self, name: str) -> Any:
        if name in SpiedPod.RECORDED and "seen" in super().__getattribute__("__dict__"):
            self.seen.add((name,))
        return super().__getattribute__(name)


def rich_pod() -> Json:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n", "o"]}
    terms = [{"matchExpressions": [expression]}]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": terms[0]}],
    }
    return make_pod(
        "p", labels={"app": "x"}, nodeName="n", requests={"cpu": "1", "memory": "1Gi", "example.com/x": "1"},
        tolerations=[{"key": "k", "operator": "Equal", "value": "v"}], nodeSelector={"kubernetes.io/hostname": "n"},
        affinity={"nodeAffinity": affinity}, ports=[{"containerPort": 1, "hostPort": 80}], priority=3,
        claims={"g": "claim"}, hostNetwork=True, hostUsers=False,
    )  # fmt: skip


def rich_cluster() -> Cluster:
    taints = [{"key": "k", "value": "v", "effect": effect} for effect in ("NoSchedule", "PreferNoSchedule")]
    node = make_node("n", taints=taints, extra={"example.com/x": "2"}, images=[{"names": ["image:latest"]}])
    cluster = Cluster({**node, "spec": {**node["spec"], "unschedulable": True}}, make_node("o"))
    cluster.on("n", make_pod(ports=[{"containerPort": 1, "hostPort": 81}]))
    cluster.allocator.inventory.upsert_class(make_device_class())
    cluster.allocator.inventory.upsert_slice(make_slice("n", 1))
    cluster.claims.added(make_claim("claim"))
    return cluster


def reads_of(plugin: Plugin, pod: SpiedPod, nodes: Iterable[NodeInfo]) -> set[tuple[str, ...]]:
    """Return the paths of the pod that a plugin reads in an attempt."""
    state = plugin.pre_filter(pod) if plugin.pre_filter else None
    scoring = plugin.pre_score(pod, state) if plugin.pre_score else None
    assert state is not SKIP, "rich_pod() has nothing that the plugin filters by"
    assert scoring is not SKIP, "rich_pod() has nothing that the plugin scores by"
    for node in nodes:
        if plugin.filter:
            plugin.filter(pod, state, node)
        if plugin.score:
            plugin.score(pod, scoring, node)
    return set(pod.seen)


@pytest.mark.parametrize(
    "plugin",
    [p for p in rich_cluster().evaluator.plugins if p.cacheable and (p.filter or p.has_score) and p.shape is None],
    ids=lambda plugin: plugin.name,
)
def test_cached_verdicts_depend_only_on_declared_fields_of_the_pod(plugin: Plugin) -> None:
    cluster = rich_cluster()
    plugin = next(p for p in cluster.evaluator.plugins if p.name == plugin.name)
    declared: set[tuple[str, ...]] = set()
    for field in plugin.reads.pod:
        pod = SpiedPod(rich_pod(), set())
        field.read(pod)
        declared |= pod.seen
    ends = {path for path in declared if not any(other[: len(path)] == path != other for other in declared)}
    seen = reads_of(plugin, SpiedPod(rich_pod(), set()), cluster.cache.list())
    undeclared = {path for path in seen - declared if not any(path[: len(end)] == end for end in ends)}
    assert not undeclared
    assert seen


def test_some_plugin_declares_each_field_that_is_kept_of_a_node() -> None:
    seen: set[tuple[str, ...]] = set()
    node = Spy(make_node("n", images=[{"names": ["i"]}], taints=[{"key": "k", "effect": "NoSchedule"}]), seen)
    NodeInfo("n").set_node(node)
    differs = node_comparison(Cluster().evaluator.plugins)
    fields = {path[:2] for path in seen if len(path) > 1}
    assert len(fields) >= 5
    for top, field in fields:
        old = make_node("n")
        assert differs(old, {**old, top: {**old[top], field: ["changed"]}}), (top, field)
    assert not differs(old, {**old, "status": {**old["status"], "conditions": [{"type": "Ready"}]}})
