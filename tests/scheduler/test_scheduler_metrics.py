"""What the scheduler counts."""

from __future__ import annotations

import re

from apiserver.api.metrics import text
from controllers.runtime.kinds import PODS, PRIORITY_CLASSES
from tests.scheduler.objects import a_node, a_pod
from tests.scheduler.situations import priority_class
from tests.scheduler.world import World
from tests.support.virtual import passes, run


def shown(world: World, *names: str) -> list[str]:
    """The samples of the metrics of these names; of histograms their counts."""
    lines = (line for line in text(world.manager.metrics()).splitlines() if not line.startswith("#"))
    wanted = re.compile(rf"scheduler_({'|'.join(names)})(_count)?[ {{]")
    return sorted(line.removeprefix("scheduler_") for line in lines if wanted.match(line))


def test_attempts_are_counted_by_how_they_ended_and_waiting_pods_by_where_and_for_whom() -> None:
    async def scenario() -> None:
        async with World("scheduler") as world:
            await world.add_nodes(a_node("n1", cpu="1"))
            await world.create(
                PODS,
                a_pod("bound"),
                a_pod("large", requests={"cpu": "2"}),
                a_pod("gated", schedulingGates=[{"name": "wait"}]),
            )
            await world.bound("bound")
            await world.unschedulable("large")
            await passes()
            assert shown(world, "pending_pods", "schedule_attempts_total", "unschedulable_pods", "cache_size") == [
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

    run(scenario)


def test_a_pod_that_waits_is_counted_wherever_it_comes_to_and_its_time_from_when_it_was_let_in() -> None:
    async def scenario() -> None:
        async with World("scheduler") as world:
            await world.add_nodes(a_node("small", cpu="1"))
            await world.create(PODS, a_pod("gated", schedulingGates=[{"name": "wait"}]))
            await world.create(PODS, a_pod("large", requests={"cpu": "2"}))
            await world.unschedulable("large")
            await passes(100)
            await world.add_nodes(a_node("big", cpu="4"))
            await world.bound("large")
            await world.client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, "ns")
            await world.bound("gated")
            await passes()
            of = "queue_incoming_pods_total"
            incoming = shown(world, of)
            for queue, event, count in (
                ("active", "UnschedulablePodAdd", 1),
                ("unschedulable", "UnschedulablePodAdd", 1),
                ("active", "UnschedulablePodUpdatePodSchedulingGatesEliminated", 1),
                # A node comes, on which it is not let in before it is ready.
                ("unschedulable", "ScheduleAttemptFailure", 2),
                ("active", "NodeAdd", 1),
                ("backoff", "NodeUpdateNodeTaint", 1),
                ("active", "PopFromBackoffQ", 1),
            ):
                assert f'{of}{{queue="{queue}",event="{event}"}} {count}' in incoming
            [whole] = [family for family in world.manager.metrics() if family.name.endswith("sli_duration_seconds")]
            waited = {line.split()[0]: float(line.split()[1]) for line in whole.lines() if "_sum" in line}
            assert waited.pop('scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="3"}') >= 100
            # The gated one was let in when it had no gates left: it waited no time.
            assert sum(waited.values()) < 50

    run(scenario)


def test_preemption_and_the_points_of_attempts_are_counted() -> None:
    async def scenario() -> None:
        async with World("scheduler") as world:
            await world.add_nodes(a_node("n1", cpu="1"))
            await world.create(PRIORITY_CLASSES, priority_class("high", 100))
            await world.create(PODS, a_pod("low", requests={"cpu": "1"}, terminationGracePeriodSeconds=0))
            await world.bound("low")
            await world.create(PODS, a_pod("high", requests={"cpu": "1"}, priorityClassName="high"))
            await world.bound("high")
            await passes()
            assert shown(world, "preemption_attempts_total", "preemption_victims") == [
                "preemption_attempts_total 1",
                "preemption_victims_count 1",
            ]
            counted = dict(line.rsplit(" ", 1) for line in shown(world, "framework_extension_point_duration_seconds"))
            of = 'framework_extension_point_duration_seconds_count{{extension_point="{}",status="{}",profile="default-scheduler"}}'
            expected = [("PreFilter", 3), ("Filter", 3), ("Reserve", 2), ("PreBind", 2), ("Bind", 2), ("PostFilter", 1)]
            assert {point: int(counted.get(of.format(point, "Success"), 0)) for point, _ in expected} == dict(expected)

    run(scenario)


def test_the_time_of_each_plugin_is_taken_in_one_of_ten_attempts() -> None:
    async def scenario() -> None:
        async with World("scheduler") as world:
            await world.add_nodes(a_node("n1", cpu="16"))
            for number in range(19):
                await world.create(PODS, a_pod(f"p{number}", requests={"cpu": "100m"}))
                await world.bound(f"p{number}")
            lines = shown(world, "plugin_execution_duration_seconds")
            fit = 'plugin="NodeResourcesFit",extension_point="Filter",status="Success"'
            assert f"plugin_execution_duration_seconds_count{{{fit}}} 1" in lines

    run(scenario)
