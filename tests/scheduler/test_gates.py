"""Feature gates of the scheduler: a disabled gate removes its feature and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from apiserver.api.helpers.tolerations import COMPARISON_GATE
from apiserver.api.objects import Json
from controllers.kubelet.pods.admission import NodeAdmission
from controllers.runtime.kinds import DEVICE_TAINT_RULES, PODS
from controllers.scheduler.framework.events import ClusterEvent, Event
from controllers.scheduler.framework.framework import hints_of
from controllers.scheduler.plugins.resources import node_resources_fit
from controllers.scheduler.queue.queue import SchedulingQueue
from controllers.scheduler.queue.queued_pod import SubQueue
from controllers.scheduler.state.pod_info import PodInfo
from controllers.workloads.daemonset.nodes import Eligibility
from tests.scheduler.cluster import Cluster
from tests.scheduler.situations import priority_class
from tests.scheduler.world import World, scheduler_world
from tests.support.objects import info, make_claim, make_device_class, make_node, make_pod, make_request, make_slice
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

PLUGIN = node_resources_fit()
CLAIMING: Json = {"claims": {"g": "nowhere"}}


async def test_without_dynamic_resource_allocation_a_pod_with_claims_is_scheduled_as_if_it_had_none() -> None:
    names = ("DynamicResourceAllocation", "DRAAdminAccess", "DRAPrioritizedList", "DRASchedulerFilterTimeout")
    gates = dict.fromkeys(names, False)
    async with World("scheduler", release="1.34", component_gates=gates) as world:
        await world.add(make_node("n"), make_pod("p", **CLAIMING))
        assert await world.node_of("p") == "n"
        await world.add(make_pod("big", requests={"cpu": "99"}, **CLAIMING))
        assert await world.unschedulable("big") == (
            "0/1 nodes are available: 1 Insufficient cpu. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )


def test_with_dynamic_resource_allocation_a_pod_waits_for_its_claim() -> None:
    text = '0/1 nodes are available: could not find ResourceClaim "ns/nowhere".'
    assert Cluster(make_node("n")).refusal(info("p", **CLAIMING)) == text
    assert Cluster(make_node("n"), gates={"DynamicResourceAllocation": False}).place(info(**CLAIMING)) == "n"


@pytest.mark.parametrize("on", [True, False])
async def test_rules_that_taint_devices_are_followed_only_if_the_gate_is_on(on: bool) -> None:
    async with World(
        "scheduler", gates="DRADeviceTaintRules=true", component_gates={"DRADeviceTaintRules": on}
    ) as world:
        await world.add(make_node("n"))
        spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}}
        await world.create(DEVICE_TAINT_RULES, {"metadata": {"name": "r"}, "spec": spec})
        await world.add(make_device_class(), make_slice("n", 1), make_claim("c"), make_pod("p", claims={"g": "c"}))
        if on:
            assert "cannot allocate all claims" in await world.unschedulable("p")
        else:
            assert await world.node_of("p") == "n"


def test_a_node_must_declare_the_features_that_a_pod_needs_if_the_gate_is_on() -> None:
    pod = info(hostNetwork=True, hostUsers=False)
    node = make_node("n")
    refused = "0/1 nodes are available: 1 node(s) didn't match Pod's required features."
    assert Cluster(node).refusal(pod) == refused
    assert Cluster(node, gates={"NodeDeclaredFeatures": False}).place(pod) == "n"
    able = {**node, "status": {**node["status"], "declaredFeatures": ["UserNamespacesHostNetworkSupport"]}}
    assert Cluster(able).place(pod) == "n"
    restarting = make_pod()
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    restarting["spec"]["containers"][0]["restartPolicyRules"] = [rule]
    assert Cluster(able).refusal(PodInfo(restarting)) == refused


@pytest.mark.parametrize("on", [True, False])
async def test_pod_level_requests_count_if_the_gate_is_on(on: bool) -> None:
    gates = {"PodLevelResources": on, "InPlacePodLevelResourcesVerticalScaling": on}
    async with scheduler_world(make_node("n", cpu="2"), component_gates=gates) as world:
        await world.add(make_pod("p", requests={"cpu": "1"}, resources={"requests": {"cpu": "2"}}))
        await world.bound("p")
        await world.add(make_pod("q", requests={"cpu": "500m"}, resources={"requests": {"cpu": "3"}}))
        if on:
            assert "Insufficient cpu" in await world.unschedulable("q")
        else:
            await world.bound("q")


async def test_an_error_for_a_disabled_gate_is_reported_by_preemption() -> None:
    async with World("scheduler", component_gates={"DRAConsumableCapacity": False}) as world:
        await world.add(make_node("n", cpu="1"), priority_class("low", 1), priority_class("high", 2))
        await world.add(make_pod("p", requests={"cpu": "1"}, priorityClassName="low"))
        await world.bound("p")
        request = make_request(capacity={"requests": {"memory": "1"}})
        await world.add(make_device_class(), make_slice("n", 1), make_claim("c", requests=[request]))
        await world.add(make_pod("q", requests={"cpu": "1"}, priorityClassName="high", claims={"g": "c"}))
        assert await world.unschedulable("q") == (
            '0/1 nodes are available: 1 Insufficient cpu. preemption: running "DynamicResources" filter plugin: claim'
            " ns/c, request r: has capacity requests, but the DRAConsumableCapacity feature is disabled"
        )


def prefer_big(cluster: Cluster) -> PodInfo:
    """Build a pod that prefers a big device. Only n1 has one."""
    cluster.allocator.inventory.upsert_class(make_device_class())
    for name, size in (("n0", "small"), ("n1", "big")):
        cluster.publish(make_slice(name, 1, attributes={"size": {"string": size}}))

    def alternative(size: str) -> Json:
        selector = {"cel": {"expression": f"device.attributes['gpu.example.com'].size == '{size}'"}}
        return {"name": size, **make_request(selectors=[selector])["exactly"]}

    request = {"name": "r", "firstAvailable": [alternative("big"), alternative("small")]}
    cluster.claims.added(make_claim("claim", requests=[request]))
    return info(claims={"g": "claim"})


def test_earlier_alternatives_are_preferred_if_the_gate_is_on() -> None:
    nodes = (make_node("n0"), make_node("n1"))
    with_gate, without = Cluster(*nodes), Cluster(*nodes, gates={"DRAPrioritizedList": False})
    totals = with_gate.totals(prefer_big(with_gate))
    assert totals["n1"] - totals["n0"] == 2 * (100 - 700 // 8)
    totals = without.totals(prefer_big(without))
    assert totals["n1"] == totals["n0"]


def test_without_queueing_hints_every_event_that_a_plugin_registered_wakes_its_pods() -> None:
    assert hints_of(PLUGIN, uses_queueing_hints=False) == dict.fromkeys(hints_of(PLUGIN))


@pytest.mark.parametrize("early", [True, False])
async def test_without_popping_from_the_backoff_rejected_pods_wait_until_it_is_over(early: bool) -> None:
    queue = SchedulingQueue(lambda _: None, {PLUGIN.name: hints_of(PLUGIN)}, pop_from_backoff=early)
    queue.add(info("p", requests={"cpu": "2"}))
    pod = await queue.pop()
    queue.put_back(pod, (PLUGIN.name,))
    queue.notify(Event(ClusterEvent.NODE_ADD, None, make_node("n")))
    assert pod.sub_queue is SubQueue.BACKOFF
    waiting = asyncio.create_task(queue.pop())
    await asyncio.sleep(0)
    assert waiting.done() is early
    assert (await waiting) is pod


@pytest.mark.parametrize("on", [True, False])
def test_tolerations_compare_numbers_if_the_gate_is_on(on: bool) -> None:
    """The gate affects placement, wake-ups, spreading, scoring, DaemonSets, and the admission of the node."""
    slow = {"key": "latency", "value": "20"}
    wanted = [{"key": "latency", "operator": "Lt", "value": "30"}]
    tainted = make_node("n", labels={"zone": "1"}, taints=[{**slow, "effect": "NoSchedule"}])
    cluster = Cluster(tainted, gates={COMPARISON_GATE: on})
    if on:
        assert cluster.place(info(tolerations=wanted)) == "n"
    else:
        assert "untolerated taint" in cluster.refusal(info(tolerations=wanted))
    hints = next(plugin for plugin in cluster.evaluator.plugins if plugin.name == "TaintToleration").hints
    assert hints is not None
    hint = hints[ClusterEvent.NODE_ADD]
    assert hint is not None
    assert hint(info(tolerations=wanted), Event(ClusterEvent.NODE_ADD, None, tainted)) is on

    # The tainted zone has no room. If it counts, the other zone has too many pods.
    of_app = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone", "maxSkew": 1}
    constraint = {**of_app, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}
    full = make_node("n", labels={"zone": "1"}, pods="0", taints=tainted["spec"]["taints"])
    both = Cluster(full, make_node("m", labels={"zone": "2"}), gates={COMPARISON_GATE: on})
    both.on("m", make_pod(labels={"app": "x"}), make_pod(labels={"app": "x"}))
    spread: Json = {"labels": {"app": "x"}, "topologySpreadConstraints": [constraint]}
    if on:
        assert "topology spread constraints" in both.refusal(info(tolerations=wanted, **spread))
    else:
        assert both.place(info(tolerations=wanted, **spread)) == "m"

    disliked = make_node("n", taints=[{**slow, "effect": "PreferNoSchedule"}])
    scores = Cluster(disliked, make_node("m"), gates={COMPARISON_GATE: on}).totals(info(tolerations=wanted))
    assert (scores["n"] == scores["m"]) is on

    evicting = make_node("n", taints=[{**slow, "effect": "NoExecute"}])
    owner = {"spec": {"template": {"metadata": {}, "spec": {"tolerations": wanted}}}}
    assert Eligibility(owner, on).of(evicting) == (on, on)
    closed = make_node("n", taints=[*evicting["spec"]["taints"], {"key": "closed", "effect": "NoSchedule"}])
    assert Eligibility(owner, on).of(closed) == (False, on)
    assert (NodeAdmission(comparing=on).admit(make_pod(tolerations=wanted), evicting) is None) is on


@pytest.mark.parametrize("on", [True, False])
async def test_a_compared_number_keeps_a_pod_on_its_node_if_the_gate_is_on(on: bool) -> None:
    gates, component_gates = f"{COMPARISON_GATE}=true", {COMPARISON_GATE: on}
    async with World("taint-eviction-controller", gates=gates, component_gates=component_gates) as world:
        await world.add(make_node("n", taints=[{"key": "latency", "value": "20", "effect": "NoExecute"}]))
        below = {"key": "latency", "operator": "Lt", "value": "30"}
        await world.add(make_pod("p", nodeName="n", tolerations=[below]))
        await passes(5)
        pods = await world.items(PODS)
        assert any("deletionTimestamp" in pod["metadata"] for pod in pods) is not on
