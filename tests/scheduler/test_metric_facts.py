"""The scheduler's metrics beside those of kube-scheduler 1.36: names, types, labels, stability and buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import pytest

from apiserver.runtime.metrics import Family, exponential
from controllers.runtime.kinds import PODS
from tests.scheduler.test_gangs import GATES
from tests.scheduler.world import World, scheduler_world
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice
from tests.support.virtual import passes

#: Facts: pkg/scheduler/metrics of 1.36. Name without `scheduler_`, type, stability, labels, buckets (start, factor,
#: number), and the gate without which it is not there.
FACTS: Final = """
schedule_attempts_total                      counter    STABLE  result,profile
event_handling_duration_seconds              histogram  ALPHA   event                           0.0001,2,12
scheduling_attempt_duration_seconds          histogram  STABLE  result,profile                  0.001,2,15
scheduling_algorithm_duration_seconds        histogram  ALPHA   -                               0.001,2,15
preemption_victims                           histogram  STABLE  -                               1,2,7
preemption_attempts_total                    counter    STABLE  -
pending_pods                                 gauge      STABLE  queue
inflight_events                              gauge      ALPHA   event                           -            SchedulerQueueingHints
goroutines                                   gauge      BETA    operation
batch_attempts_total                         counter    ALPHA   profile,result
batch_cache_flushed_total                    counter    ALPHA   profile,reason
pod_scheduling_sli_duration_seconds          histogram  BETA    attempts                        0.01,2,20
pod_scheduling_attempts                      histogram  STABLE  -                               1,2,5
pod_scheduled_after_flush_total              counter    ALPHA   -
framework_extension_point_duration_seconds   histogram  STABLE  extension_point,status,profile  0.0001,2,12
plugin_execution_duration_seconds            histogram  ALPHA   plugin,extension_point,status   0.00001,1.5,20
queueing_hint_execution_duration_seconds     histogram  ALPHA   plugin,event,hint               0.00001,1.5,20  SchedulerQueueingHints
queue_incoming_pods_total                    counter    STABLE  queue,event
permit_wait_duration_seconds                 histogram  BETA    result                          0.001,2,15
cache_size                                   gauge      ALPHA   type
unschedulable_pods                           gauge      BETA    plugin,profile
plugin_evaluation_total                      counter    BETA    plugin,extension_point,profile
preemption_goroutines_duration_seconds       histogram  ALPHA   result                          0.01,2,20
preemption_goroutines_execution_total        counter    ALPHA   result
async_api_call_execution_total               counter    ALPHA   call_type,result                -            SchedulerAsyncAPICalls
async_api_call_execution_duration_seconds    histogram  ALPHA   call_type,result                0.001,2,15   SchedulerAsyncAPICalls
pending_async_api_calls                      gauge      ALPHA   call_type                       -            SchedulerAsyncAPICalls
resourceclaim_creates_total                  counter    ALPHA   status                          -            DRAExtendedResource
dra_bindingconditions_allocations_total      counter    ALPHA   profile,driver,status           -            DRADeviceBindingConditions
dra_bindingconditions_wait_duration_seconds  histogram  ALPHA   profile,driver,status           0.1,2,14     DRADeviceBindingConditions
get_node_hint_duration_seconds               histogram  ALPHA   hinted,profile                  0.00001,2,12
store_schedule_results_duration_seconds      histogram  ALPHA   profile                         0.00001,2,12
podgroup_schedule_attempts_total             counter    ALPHA   result,profile                  -            GenericWorkload
podgroup_scheduling_attempt_duration_seconds histogram  ALPHA   result,profile                  0.001,2,15   GenericWorkload
podgroup_scheduling_algorithm_duration_seconds histogram ALPHA  -                               0.001,2,15   GenericWorkload
volume_binder_cache_requests_total           counter    ALPHA   operation
volume_scheduling_stage_error_total          counter    ALPHA   operation
"""
#: Missing on purpose; the reasons are in docs/data/fidelity/missing.md.
MISSING: Final = frozenset(
    {
        "permit_wait_duration_seconds",
        "store_schedule_results_duration_seconds",
        "async_api_call_execution_total",
        "async_api_call_execution_duration_seconds",
        "pending_async_api_calls",
        "volume_binder_cache_requests_total",
        "volume_scheduling_stage_error_total",
    }
)
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/data/fidelity/missing.md"


class Fact(NamedTuple):
    """One metric of kube-scheduler."""

    name: str
    kind: str
    stability: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...]
    gate: str


def read_facts() -> list[Fact]:
    def read(name: str, kind: str, stability: str, labels: str, buckets: str = "-", gate: str = "") -> Fact:
        start, factor, count = buckets.split(",") if buckets != "-" else ("0", "0", "0")
        bounds = exponential(float(start), float(factor), int(count))
        return Fact(name, kind, stability, tuple(labels.split(",")) if labels != "-" else (), bounds, gate)

    return [read(*line.split()) for line in FACTS.strip().splitlines()]


def families(world: World) -> dict[str, Family]:
    return {
        family.name.removeprefix("scheduler_"): family
        for family in world.manager.metrics()
        if family.name.startswith("scheduler_")
    }


def described(family: Family) -> tuple[str, str, tuple[str, ...], tuple[float, ...]]:
    stability = family.help.partition("]")[0].removeprefix("[")
    return family.kind, stability, family._labels, getattr(family, "_bounds", ())  # type: ignore[attr-defined]


async def test_each_metric_of_kube_scheduler_is_there_or_missing_on_purpose() -> None:
    facts = {fact.name: fact for fact in read_facts()}
    async with World("scheduler", gates=GATES) as world:
        found = families(world)
    assert set(facts) - MISSING == set(found)
    for name, family in found.items():
        _, kind, stability, labels, buckets, _ = facts[name]
        assert described(family) == (kind, stability, labels, buckets), name


@pytest.mark.parametrize("gates", ["", GATES, "DRAExtendedResource=false", "DRADeviceBindingConditions=false"])
async def test_metrics_of_a_gate_are_there_only_with_it(gates: str) -> None:
    async with World("scheduler", gates=gates) as world:
        enabled = world._settings.features.enabled
        expected = {fact.name for fact in read_facts() if not fact.gate or enabled(fact.gate)}
        assert set(families(world)) == expected - MISSING


def test_the_documentation_names_each_missing_metric() -> None:
    page = PAGE.read_text()
    assert [name for name in sorted(MISSING) if f"`scheduler_{name}`" not in page] == []


def read(world: World, name: str) -> dict[str, float]:
    """Return the samples of a metric by labels; of a histogram, the numbers of observations."""
    start = f"scheduler_{name}"
    lines = [
        line.rsplit(" ", 1) for line in families(world)[name].lines() if "_bucket" not in line and "_sum" not in line
    ]
    return {labels.removeprefix(start).removeprefix("_count"): float(value) for labels, value in lines}


async def test_a_call_of_a_plugin_is_an_evaluation_and_a_reused_result_is_none() -> None:
    async with scheduler_world(make_node("n1"), make_node("n2")) as world:

        def evaluations(plugin: str, point: str) -> float:
            labels = f'{{plugin="{plugin}",extension_point="{point}",profile="default-scheduler"}}'
            return read(world, "plugin_evaluation_total")[labels]

        port = {"containerPort": 80, "hostPort": 80}
        containers = [{"name": "c", "image": "i", "ports": [port]}]
        assert evaluations("NodeResourcesFit", "Filter") == 0, "each plugin has a sample from the start"
        await world.add(make_pod("a", containers=containers))
        await world.bound("a")
        assert evaluations("NodePorts", "PreFilter") == 1
        assert evaluations("NodePorts", "Filter") == 2
        assert evaluations("NodeResourcesFit", "Score") == 2
        await world.add(make_pod("b", containers=containers))
        await world.bound("b")
        assert evaluations("NodePorts", "PreFilter") == 2
        assert evaluations("NodePorts", "Filter") == 3, "only the changed node is filtered again"
        assert evaluations("DynamicResources", "PreFilter") == 0, "a plugin that skips a pod is not counted"
        points = {labels.split('"')[3] for labels in read(world, "plugin_evaluation_total")}
        assert points == {"PreFilter", "Filter", "PreScore", "Score"}


async def test_a_node_whose_result_is_known_from_an_alike_pod_is_a_hint() -> None:
    async with scheduler_world(make_node("n1"), make_node("n2")) as world:
        await world.add(make_pod("a"))
        await world.bound("a")
        await world.add(make_pod("b"))
        await world.bound("b")
        attempts = read(world, "batch_attempts_total")
        assert attempts == {
            '{profile="default-scheduler",result="no_hint"}': 1,
            '{profile="default-scheduler",result="hint_used"}': 1,
        }
        hints = read(world, "get_node_hint_duration_seconds")
        assert hints == {
            '{hinted="no_hint",profile="default-scheduler"}': 1,
            '{hinted="hint",profile="default-scheduler"}': 1,
        }


async def test_a_chosen_node_that_was_filtered_again_is_no_used_hint() -> None:
    async with scheduler_world(make_node("n1"), make_node("cordoned", unschedulable=True)) as world:
        for name in "ab":
            await world.add(make_pod(name))
            await world.bound(name)
        assert read(world, "batch_attempts_total") == {
            '{profile="default-scheduler",result="no_hint"}': 1,
            '{profile="default-scheduler",result="hint_not_used"}': 1,
        }


async def test_hints_and_events_are_timed_by_upstreams_labels() -> None:
    async with scheduler_world(make_node("small", cpu="1"), make_pod("large", requests={"cpu": "2"})) as world:
        await world.unschedulable("large")
        await passes(2)
        before = read(world, "queueing_hint_execution_duration_seconds")
        await world.add(make_node("big", cpu="4"))
        await world.bound("large")
        await passes()
        after = read(world, "queueing_hint_execution_duration_seconds")
        added = '{plugin="NodeResourcesFit",event="NodeAdd",hint="Queue"}'
        assert (before.get(added, 0), after[added]) == (0, 1)
        events = read(world, "event_handling_duration_seconds")
        assert events['{event="NodeAdd"}'] == 2
        assert events['{event="UnschedulablePodAdd"}'] == 1
        assert events['{event="AssignedPodAdd"}'] == 1
        await world.client.delete(PODS, "large", "ns", grace_period=0)
        await passes()
        assert read(world, "event_handling_duration_seconds")['{event="AssignedPodDelete"}'] == 1


async def test_a_pod_that_only_the_time_limit_retried_is_counted_once_bound() -> None:
    world_of = scheduler_world(make_node("n", cpu="1"), make_pod("large", requests={"cpu": "2"}))
    async with world_of as world:
        await world.unschedulable("large")
        queue = world.manager.components[0].queue  # type: ignore[attr-defined]
        # A defect of a hint: the node that fits is not reported.
        queue._hints, queue._calls._hints = {}, {}
        await world.add(make_node("big", cpu="4"))
        await passes(100)
        assert read(world, "pod_scheduled_after_flush_total") == {"": 0}
        await passes(400)
        await world.bound("large")
        await passes()
        assert read(world, "pod_scheduled_after_flush_total") == {"": 1}


async def test_events_since_the_start_of_the_oldest_attempt_are_in_flight() -> None:
    from controllers.scheduler.framework.events import ClusterEvent, Event
    from controllers.scheduler.queue.queue import SchedulingQueue
    from tests.support.objects import info

    queue = SchedulingQueue(lambda _: None, {"P": {ClusterEvent.NODE_ADD: None}})
    assert queue.count_in_flight() == {("PodPopped",): 0}
    for name in "ab":
        queue.add(info(name))
    first = await queue.pop()
    queue.notify(Event(ClusterEvent.NODE_ADD, None, make_node("n")))
    second = await queue.pop()
    queue.notify(Event(ClusterEvent.NODE_DELETE, make_node("n"), None))
    assert queue.count_in_flight() == {("NodeAdd",): 1, ("NodeDelete",): 1, ("PodPopped",): 2}
    queue.done(first.info.uid)
    assert queue.count_in_flight() == {("NodeDelete",): 1, ("PodPopped",): 1}
    queue.done(second.info.uid)
    assert queue.count_in_flight() == {("PodPopped",): 0}


async def test_waits_for_binding_conditions_are_counted_by_driver_and_end() -> None:
    device = {"bindingConditions": ["example.com/ready"], "bindingFailureConditions": ["example.com/broken"]}
    async with World("scheduler", "resourceclaim-controller") as world:
        found = make_slice("n1", 1)
        found["spec"]["devices"][0] |= device
        claim = make_claim("c")
        await world.add(make_device_class(), make_node("n1"), found, claim)
        await world.add(make_pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "c"}]))
        await passes(700)
        timeouts = [
            value
            for labels, value in read(world, "dra_bindingconditions_allocations_total").items()
            if 'status="timeout"' in labels
        ]
        assert timeouts
        assert read(world, "dra_bindingconditions_wait_duration_seconds")


async def test_evictions_of_a_preemption_are_counted_by_their_end() -> None:
    from tests.scheduler.situations import priority_class

    async with scheduler_world(make_node("n1", cpu="1"), priority_class("high", 100)) as world:
        await world.add(make_pod("low", requests={"cpu": "1"}, terminationGracePeriodSeconds=0))
        await world.bound("low")
        await world.add(make_pod("high", requests={"cpu": "1"}, priorityClassName="high"))
        await world.bound("high")
        assert read(world, "preemption_goroutines_execution_total") == {'{result="success"}': 1}
        assert read(world, "preemption_goroutines_duration_seconds") == {'{result="success"}': 1}
