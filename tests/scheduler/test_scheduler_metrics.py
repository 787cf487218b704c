"""What the scheduler counts."""

from __future__ import annotations

from apiserver.api.metrics import text
from controllers.runtime.kinds import PODS
from tests.scheduler.objects import a_node, a_pod
from tests.scheduler.world import World
from tests.support.virtual import passes, run


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
            shown = [line for line in text(world.manager.metrics()).splitlines() if line.startswith("scheduler_")]
            assert sorted(shown) == [
                'scheduler_pending_pods{queue="active"} 0',
                'scheduler_pending_pods{queue="backoff"} 0',
                'scheduler_pending_pods{queue="gated"} 1',
                'scheduler_pending_pods{queue="unschedulable"} 1',
                'scheduler_schedule_attempts_total{result="scheduled",profile="default-scheduler"} 1',
                'scheduler_schedule_attempts_total{result="unschedulable",profile="default-scheduler"} 1',
                'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1',
                'scheduler_unschedulable_pods{plugin="SchedulingGates",profile="default-scheduler"} 1',
            ]

    run(scenario)
