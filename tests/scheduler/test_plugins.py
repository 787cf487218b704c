"""A plugin is a value: what it reads decides what is remembered of it and what wakes its pods."""

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
    """A filter: pods with a rack go to nodes of that rack. `asked` lists what it was asked."""

    def __init__(self, **more: Any) -> None:
        self.asked: list[tuple[str, str]] = []
        reads = Reads(pod=(pod_field("metadata", "annotations", RACK),), node=(node_field("metadata", "labels", RACK),))
        self.plugin = Plugin(**{"name": "Rack", "reads": reads, "filter": self._filter, **more})

    def _filter(self, pod: PodInfo, _: None, node: NodeInfo) -> Rejection | None:
        self.asked.append((pod.name, node.name))
        wanted = (pod.pod["metadata"].get("annotations") or {}).get(RACK)
        return None if wanted is None or node.labels.get(RACK) == wanted else WRONG_RACK


def in_rack(name: str, rack: str | None, **more: Any) -> Json:
    pod = make_pod(name, **more)
    return {**pod, "metadata": {**pod["metadata"], "annotations": {RACK: rack} if rack else {}}}


def of_rack(name: str, rack: str) -> Json:
    return make_node(name, labels={RACK: rack})


def test_a_filter_that_is_only_in_the_list_is_asked() -> None:
    rack = Rack()
    cluster = Cluster(of_rack("a", "1"), of_rack("b", "2"), extra=(rack.plugin,))
    assert cluster.place(PodInfo(in_rack("p", "2"))) == "b"
    assert cluster.refusal(PodInfo(in_rack("q", "3"))) == f"0/2 nodes are available: 2 {WRONG_RACK.reasons[0]}."


def test_its_verdict_is_remembered_for_pods_that_are_alike_in_what_it_reads() -> None:
    rack = Rack()
    cluster = Cluster(of_rack("n", "1"), extra=(rack.plugin,))
    for name in ("p", "q"):
        assert cluster.refusal(PodInfo(in_rack(name, "2", labels={"app": name}))) == WRONG
    assert rack.asked == [("p", "n")]
    assert cluster.place(PodInfo(in_rack("r", "1"))) == "n"
    assert cluster.place(PodInfo(in_rack("s", None))) == "n"
    assert cluster.place(PodInfo(in_rack("t", "1"))) == "n"
    assert [pod for pod, _ in rack.asked] == ["p", "r", "s"]


def test_its_verdict_is_forgotten_when_the_node_changes() -> None:
    rack = Rack()
    cluster = Cluster(of_rack("n", "1"), extra=(rack.plugin,))
    assert cluster.refusal(PodInfo(in_rack("p", "2"))) == WRONG
    cluster.cache.set_node(of_rack("n", "2"))
    assert cluster.place(PodInfo(in_rack("p", "2"))) == "n"


def test_a_filter_that_declares_nothing_is_asked_every_time_and_its_pods_are_woken_by_everything() -> None:
    rack = Rack(reads=Plugin(name="default").reads)
    cluster = Cluster(of_rack("n", "1"), extra=(rack.plugin,))
    for name in ("p", "q"):
        assert cluster.place(PodInfo(in_rack(name, "1"))) == "n"
    assert [pod for pod, _ in rack.asked] == ["p", "q"]
    assert hints_of(rack.plugin) == dict.fromkeys(ClusterEvent)
    assert node_comparison((rack.plugin,))({"status": {"a": 1}}, {"status": {"a": 2}})


def test_a_remembered_no_gives_way_to_the_no_of_an_earlier_filter() -> None:
    def live(pod: PodInfo, _: None, node: NodeInfo) -> Rejection | None:
        return Rejection("Moody", ("node(s) were moody",)) if moody else None

    moody = False
    rack = Rack()
    cluster = Cluster(of_rack("n", "1"), extra=(Plugin(name="Moody", filter=live), rack.plugin))
    assert cluster.refusal(PodInfo(in_rack("p", "2"))) == WRONG
    moody = True
    assert cluster.refusal(PodInfo(in_rack("q", "2"))) == "0/1 nodes are available: 1 node(s) were moody."
    moody = False
    assert cluster.refusal(PodInfo(in_rack("r", "2"))) == WRONG
    assert rack.asked == [("p", "n")]


WAKING: list[tuple[str, Event, bool]] = [
    ("a new node", Event(ClusterEvent.NODE_ADD, None, of_rack("new", "2")), True),
    ("the label it reads", Event(ClusterEvent.NODE_LABEL, of_rack("n", "1"), of_rack("n", "2")), True),
    ("another label", Event(ClusterEvent.NODE_LABEL, of_rack("n", "1"), of_rack("n", "1")), False),
    ("the pod's annotation", Event(ClusterEvent.POD_OTHER, in_rack("p", "2", uid="p"), in_rack("p", "1", uid="p")),
     True),
    ("the pod's other fields", Event(ClusterEvent.POD_OTHER, in_rack("p", "2", uid="p"), in_rack("p", "2", uid="p")),
     False),
    ("another pod", Event(ClusterEvent.POD_OTHER, in_rack("q", "2"), in_rack("q", "1")), False),
    ("a slice", Event(ClusterEvent.SLICE_ADD, None, make_slice("n", 1)), False),
    ("a pod that is gone", Event(ClusterEvent.POD_DELETE, make_pod(nodeName="n"), None), False),
]  # fmt: skip


@pytest.mark.real_time
@pytest.mark.parametrize(("event", "wakes"), [case[1:] for case in WAKING], ids=[case[0] for case in WAKING])
async def test_what_it_reads_wakes_its_pods(event: Event, wakes: bool) -> None:
    plugin = Rack().plugin
    queue = SchedulingQueue(lambda _: None, {plugin.name: hints_of(plugin)})
    queue.add(PodInfo(in_rack("p", "2", uid="p")))
    pod = await queue.pop()
    queue.put_back(pod, (plugin.name,))
    queue.notify(event)
    assert (pod.sub_queue is not SubQueue.UNSCHEDULABLE) == wakes


def test_who_waits_for_new_nodes_also_hears_of_changed_taints() -> None:
    assert hints_of(NODE_NAME)[ClusterEvent.NODE_TAINT] is None


@pytest.mark.real_time
async def test_a_hint_that_fails_wakes_the_pod() -> None:
    def broken(_: PodInfo, __: Event) -> bool:
        raise ZeroDivisionError

    queue = SchedulingQueue(lambda _: None, {"Broken": {ClusterEvent.NODE_ADD: broken}})
    queue.add(PodInfo(make_pod("p")))
    pod = await queue.pop()
    queue.put_back(pod, ("Broken",))
    queue.notify(Event(ClusterEvent.NODE_ADD, None, make_node("n")))
    assert pod.sub_queue is SubQueue.BACKOFF


async def test_on_a_server_a_pod_is_bound_once_the_node_has_what_the_filter_wants() -> None:
    kernel = node_field("status", "nodeInfo", "kernelVersion")
    rack = Rack(reads=Reads(node=(kernel,)), filter=lambda _, __, node: None if kernel.read(node.node) == "7" else
                WRONG_RACK)  # fmt: skip
    async with World(plugins=(rack.plugin,)) as world:
        await world.add(make_node("n"), make_pod("p"))
        assert WRONG_RACK.reasons[0] in await world.unschedulable("p")
        node = await world.client.get(NODES, "n")
        names = ("machineID", "systemUUID", "bootID", "osImage", "containerRuntimeVersion", "architecture")
        info = dict.fromkeys((*names, "kubeletVersion", "kubeProxyVersion", "operatingSystem"), "")
        status = {**node["status"], "nodeInfo": {**info, "kernelVersion": "7"}}
        await world.client.update_status(NODES, {**node, "status": status})
        assert await world.node_of("p") == "n"


async def test_an_unexpected_error_fails_the_attempt_of_one_pod_and_the_others_go_on() -> None:
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


# What the plugins that are built declare


class Spy(dict[str, Any]):
    """A JSON object that notes the paths that are read."""

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
    """A pod that notes what is read of it."""

    NOTED = frozenset({"name", "namespace", "key", "uid", "priority"})

    def __init__(self, pod: Json, seen: set[tuple[str, ...]]) -> None:
        super().__init__(Spy(pod, seen))
        seen.clear()
        self.seen = seen

    def __getattribute__(self, name: str) -> Any:
        if name in SpiedPod.NOTED and "seen" in super().__getattribute__("__dict__"):
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
    """What is read of the pod at all points of an attempt."""
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
def test_verdicts_that_are_remembered_depend_on_declared_fields_of_the_pod_alone(plugin: Plugin) -> None:
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


def test_all_that_is_kept_of_a_node_is_declared_by_some_plugin() -> None:
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
