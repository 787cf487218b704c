"""Default spreading of the pods of one owner, and preemption on a server."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.preemption.default import Candidate, best_candidate
from tests.scheduler.situations import make_controller, priority_class, service
from tests.scheduler.world import World, scheduler_world
from tests.support.objects import info, make_node, make_pod

pytestmark = pytest.mark.integration

KINDS = ("ReplicaSet", "StatefulSet", "ReplicationController", "Service")


@pytest.mark.parametrize("kind", KINDS)
async def test_pods_of_one_owner_or_service_are_spread_over_zones(kind: str) -> None:
    async with World("scheduler") as world:
        # Without spreading the bigger node would get every pod.
        for name, zone, cpu in (("big", "a", "64"), ("small", "b", "4")):
            await world.add(make_node(name, cpu=cpu, labels={"topology.kubernetes.io/zone": zone}))
        owner = None
        if kind == "Service":
            await world.add(service("s", "x"))
        else:
            owner = await world.add(make_controller(kind, "o", "x"))
        nodes = []
        for number in range(2):
            await world.add(make_pod(f"p{number}", labels={"app": "x"}, owner=owner))
            nodes.append(await world.node_of(f"p{number}"))
        assert nodes == ["big", "small"]
        await world.add(make_pod("alone", labels={"app": "y"}))
        assert await world.node_of("alone") == "big"


def test_a_candidate_without_violations_of_budgets_is_better_than_one_with_less_important_victims() -> None:
    candidates = [Candidate("x", (info(priority=1),), 1), Candidate("y", (info(priority=2),))]
    assert best_candidate(candidates).node == "y"


async def test_a_preemptor_counts_once_and_leaves_the_rest_of_the_room_to_others() -> None:
    async with scheduler_world(priority_class("low", 1), priority_class("high", 2), make_node("n", cpu="2")) as world:
        sizes = {"victim": ("low", "1250m"), "other": ("high", "750m"), "waiting": ("low", "750m"),
                 "preemptor": ("high", "500m")}  # fmt: skip
        for name, (priority, cpu) in sizes.items():
            spec: Json = {"priorityClassName": priority, "terminationGracePeriodSeconds": 0}
            await world.add(make_pod(name, requests={"cpu": cpu}, **spec))
            if name == "waiting":
                await world.unschedulable(name)
            else:
                await world.bound(name)
        await world.bound("waiting")
