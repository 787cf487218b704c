"""Metrics of the scheduler."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest

from apiserver.runtime.clock import now
from apiserver.runtime.metrics import text
from controllers.runtime.kinds import PODS
from controllers.scheduler.cycle.metrics import SchedulerMetrics
from controllers.scheduler.framework.attempt_metrics import AttemptMetrics, Points
from controllers.scheduler.framework.events import ClusterEvent, Event, label_of
from controllers.scheduler.framework.status import Diagnosis, FitError, SchedulingError
from controllers.scheduler.queue.queue import SchedulingQueue
from controllers.scheduler.queue.queued_pod import QueuedPod, SubQueue
from controllers.scheduler.state.nodes import Cache
from tests.scheduler.situations import priority_class
from tests.scheduler.test_extended_resources import asking, gpu_node
from tests.scheduler.test_gangs import GATES, member
from tests.scheduler.test_generated_claims import forbid_claims
from tests.scheduler.world import World, scheduler_world
from tests.support.objects import info, make_node, make_pod, make_pod_group
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


def samples(world: World, *names: str) -> list[str]:
    """Return the samples of metrics, for histograms their counts."""
    lines = (line for line in text(world.manager.metrics()).splitlines() if not line.startswith("#"))
    wanted = re.compile(rf"scheduler_({'|'.join(names)})(_count)?[ {{]")
    return sorted(line.removeprefix("scheduler_") for line in lines if wanted.match(line))


async def test_attempts_are_counted_by_result_and_waiting_pods_by_queue_and_plugin() -> None:
    async with World("scheduler") as world:
        await world.add(make_node("n1", cpu="1"), make_pod("bound"), make_pod("large", requests={"cpu": "2"}))
        await world.add(make_pod("gated", schedulingGates=[{"name": "wait"}]))
        await world.bound("bound")
        await world.unschedulable("large")
        await passes()
        assert samples(world, "pending_pods", "schedule_attempts_total", "unschedulable_pods", "cache_size") == [
            'cache_size{type="assumed_pods"} 0',
            'cache_size{type="nodes"} 1',
            'cache_size{type="pods"} 1',
            'pending_pods{queue="active"} 0',
            'pending_pods{queue="backoff"} 0',
            'pending_pods{queue="gated"} 1',
            'pending_pods{queue="unschedulable"} 1',
            'schedule_attempts_total{result="scheduled",profile="default-scheduler"} 1',
            'schedule_attempts_total{result="unschedulable",profile="default-scheduler"} 1',
            'unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1',
            'unschedulable_pods{plugin="SchedulingGates",profile="default-scheduler"} 1',
        ]


async def test_a_pod_is_counted_in_every_queue_it_enters_and_its_time_starts_without_gates() -> None:
    async with World("scheduler") as world:
        await world.add(make_node("small", cpu="1"), make_pod("gated", schedulingGates=[{"name": "wait"}]))
        await world.add(make_pod("large", requests={"cpu": "2"}))
        await world.unschedulable("large")
        await passes(100)
        await world.add(make_node("big", cpu="4"))
        await world.bound("large")
        await world.client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, "ns")
        await world.bound("gated")
        await passes()
        of = "queue_incoming_pods_total"
        incoming = samples(world, of)
        for queue, event, count in (
            ("active", "UnschedulablePodAdd", 1),
            ("unschedulable", "UnschedulablePodAdd", 1),
            ("active", "UnschedulablePodUpdatePodSchedulingGatesEliminated", 1),
            # The pod does not fit the new node before that is ready.
            ("unschedulable", "ScheduleAttemptFailure", 2),
            ("active", "NodeAdd", 1),
            ("backoff", "NodeUpdateNodeTaint", 1),
            ("active", "PopFromBackoffQ", 1),
        ):
            assert f'{of}{{queue="{queue}",event="{event}"}} {count}' in incoming
        [whole] = [family for family in world.manager.metrics() if family.name.endswith("sli_duration_seconds")]
        waited = {line.split()[0]: float(line.split()[1]) for line in whole.lines() if "_sum" in line}
        assert waited.pop('scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="3"}') >= 100
        # The time of the gated pod begins when its last gate is removed.
        assert sum(waited.values()) < 50


async def test_preemption_and_the_points_of_attempts_are_counted() -> None:
    async with scheduler_world(make_node("n1", cpu="1"), priority_class("high", 100)) as world:
        await world.add(make_pod("low", requests={"cpu": "1"}, terminationGracePeriodSeconds=0))
        await world.bound("low")
        await world.add(make_pod("high", requests={"cpu": "1"}, priorityClassName="high"))
        await world.bound("high")
        await passes()
        assert samples(world, "preemption_attempts_total", "preemption_victims") == [
            "preemption_attempts_total 1",
            "preemption_victims_count 1",
        ]
        counted = dict(line.rsplit(" ", 1) for line in samples(world, "framework_extension_point_duration_seconds"))
        of = 'framework_extension_point_duration_seconds_count{{extension_point="{}",status="{}",profile="default-scheduler"}}'
        expected = [("PreFilter", 3), ("Filter", 3), ("Reserve", 2), ("PreBind", 2), ("Bind", 2), ("PostFilter", 1)]
        assert {point: int(counted.get(of.format(point, "Success"), 0)) for point, _ in expected} == dict(expected)


async def test_the_time_of_plugins_is_measured_in_one_of_ten_attempts() -> None:
    async with scheduler_world(make_node("n1", cpu="16")) as world:
        for number in range(19):
            await world.add(make_pod(f"p{number}", requests={"cpu": "100m"}))
            await world.bound(f"p{number}")
        lines = samples(world, "plugin_execution_duration_seconds")
        fit = 'plugin="NodeResourcesFit",extension_point="Filter",status="Success"'
        assert f"plugin_execution_duration_seconds_count{{{fit}}} 1" in lines


async def test_a_prefilter_that_rejects_a_pod_is_counted_by_its_status() -> None:
    async with scheduler_world(make_node("n1"), make_pod("plain")) as world:
        await world.bound("plain")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
        await world.add(make_pod("claiming", volumes=[volume]))
        await world.unschedulable("claiming")
        of = 'framework_extension_point_duration_seconds_count{{extension_point="{}",status="{}",profile="default-scheduler"}} 1'
        counted = samples(world, "framework_extension_point_duration_seconds", "scheduling_algorithm_duration_seconds")
        assert of.format("PreFilter", "Success") in counted
        assert of.format("PreFilter", "UnschedulableAndUnresolvable") in counted
        assert "scheduling_algorithm_duration_seconds_count 2" in counted


async def test_a_retry_after_the_timeout_is_counted_as_such() -> None:
    async with scheduler_world(make_node("small", cpu="1"), make_pod("large", requests={"cpu": "2"})) as world:
        await world.unschedulable("large")
        await passes(400)
        timeout = 'queue_incoming_pods_total{queue="active",event="UnschedulableTimeout"} 1'
        assert timeout in samples(world, "queue_incoming_pods_total")


async def test_a_pod_that_stays_gated_enters_no_further_queue() -> None:
    queue = SchedulingQueue(lambda pod: "SchedulingGates", {"SchedulingGates": {ClusterEvent.NODE_ADD: None}})
    queue.add(info("gated"))
    queue.notify(Event(ClusterEvent.NODE_ADD, None, make_node("n")))
    assert [pod.sub_queue for pod in queue.pods.values()] == [SubQueue.GATED]
    assert [line for line in queue.incoming.lines() if not line.startswith("#")] == [
        'scheduler_queue_incoming_pods_total{queue="unschedulable",event="UnschedulablePodAdd"} 1'
    ]


def test_pods_with_15_or_more_attempts_share_a_label() -> None:
    queue, cache = SchedulingQueue(lambda _: None, {}), Cache()
    metrics = SchedulerMetrics(queue, cache, (), AttemptMetrics(), lambda _: "p")
    for attempts in (14, 15, 40):
        queued = QueuedPod(info(f"p{attempts}"), now())
        queued.attempts, queued.entered = attempts, now()
        metrics.count_attempt(queued, "scheduled")
    [whole] = [family for family in metrics.families if family.name.endswith("sli_duration_seconds")]
    counts = [line.partition("_count")[2] for line in whole.lines() if "_count{" in line]
    assert sorted(counts) == ['{attempts="14"} 1', '{attempts="15+"} 2']


def test_assumed_pods_are_counted_separately() -> None:
    cache = Cache()
    cache.set_node(make_node("n"))
    cache.assume(info("coming"), "n")
    cache.set_pod(info("there"), "n")
    assert cache.counts == (2, 1)


async def test_attempts_of_groups_are_counted_by_result() -> None:
    async with World("scheduler", gates=GATES) as world:
        await world.add(make_node("n1", cpu="2"), make_pod_group(count=3), *(member(name) for name in "abc"))
        await passes(1)
        waits = 'podgroup_schedule_attempts_total{result="unschedulable",profile="default-scheduler"} 1'
        assert samples(world, "podgroup_schedule_attempts_total") == [waits]
        await world.add(make_node("n2", cpu="2"))
        await world.bound("a")
        await passes(1)
        fits = waits.replace("unschedulable", "scheduled")
        assert set(samples(world, "podgroup_schedule_attempts_total")) == {waits, fits}


async def test_claims_for_extended_resources_are_counted() -> None:
    async with scheduler_world(*gpu_node(), asking(name="p")) as world:
        await world.bound("p")
        assert samples(world, "resourceclaim_creates_total") == ['resourceclaim_creates_total{status="success"} 1']


async def test_a_failed_creation_of_a_claim_is_counted() -> None:
    async with scheduler_world(*gpu_node()) as world:
        await forbid_claims(world)
        await world.add(asking(name="p"))
        assert "create claim for extended resources ns/: " in await world.unschedulable("p")
        assert samples(world, "resourceclaim_creates_total") == ['resourceclaim_creates_total{status="failure"} 1']


@pytest.mark.parametrize(
    ("raised", "status"),
    [(None, "Success"), (FitError(Diagnosis(1)), "Unschedulable"), (SchedulingError("x"), "Error")],
)
def test_an_extension_point_is_counted_by_its_status(raised: Exception | None, status: str) -> None:
    attempt_metrics = AttemptMetrics()
    points = Points(attempt_metrics, "p")
    # The counter of successes is cached the first time.
    for _ in range(2):
        with suppress(FitError, SchedulingError), points.at("Reserve"):
            if raised is not None:
                raise raised
    [count] = [line for line in attempt_metrics.points.lines() if "_count" in line]
    assert count.partition("{")[2] == f'extension_point="Reserve",status="{status}",profile="p"}} 2'


def test_every_event_has_a_label_of_its_own() -> None:
    names = {kind: label_of(Event(kind, None, make_pod("p"))) for kind in ClusterEvent}
    assert len(set(names.values())) == len(names)
    bound = Event(ClusterEvent.POD_LABEL, None, make_pod("p", nodeName="n"))
    assert label_of(bound) == "AssignedPodUpdatePodLabel"
