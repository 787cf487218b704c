"""Preemption for a group of pods as a whole (gate WorkloadAwarePreemption)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import PODS
from tests.scheduler.situations import budget, priority_class
from tests.scheduler.test_gangs import condition, member, nodes, verdict
from tests.scheduler.world import World, scheduled
from tests.support.objects import make_node, make_pod, make_pod_group
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

GATES = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
NOT_ALONE = "preemption: not eligible due to workload aware preemption enabled"


def low(name: str, cpu: str = "2", **spec: Any) -> Json:
    """Build a pod of low priority that ends immediately."""
    more = {"priorityClassName": "low", "terminationGracePeriodSeconds": 0, **spec}
    return make_pod(name, requests={"cpu": cpu}, **more)


@asynccontextmanager
async def two_nodes(gates: str = GATES) -> AsyncIterator[World]:
    """Run a cluster of two nodes with four cores each."""
    async with World("scheduler", gates=gates) as world:
        await world.add(priority_class("low", 5), priority_class("high", 100), make_node("n1"), make_node("n2"))
        yield world


async def place(world: World, *pods: Json) -> None:
    await world.add(*pods)
    for pod in pods:
        await world.bound(pod["metadata"]["name"])


async def add_gang(world: World, cpu: str, count: int = 2, **spec: Any) -> None:
    """Create a gang of high priority."""
    await world.add(
        make_pod_group(count=count, priorityClassName="high", **spec.pop("group", {})),
        *(member(f"m{n}", cpu, priorityClassName="high", **spec) for n in range(count)),
    )


async def left(world: World) -> list[str]:
    return sorted(name for name in await nodes(world) if not name.startswith("m"))


async def test_the_group_evicts_as_few_pods_as_it_needs_and_is_bound_as_a_whole() -> None:
    async with two_nodes() as world:
        await place(world, low("a"), low("b"), low("c"), low("d", cpu="1"))
        await add_gang(world, "3")
        await passes(1)
        assert await verdict(world) == ("False", "Unschedulable", "pod group is unschedulable")
        waiting = [scheduled(await world.pod(f"m{n}"))["message"] for n in range(2)]
        why = f"2 Insufficient cpu. no new claims to deallocate, {NOT_ALONE}"
        assert all(text.endswith(why) for text in waiting)
        await world.bound("m0", "m1")
        # Three cores of four on each node: beside a member one core is left, which is what the smallest asks for.
        assert await left(world) == ["d"]
        assert (await condition(world))["status"] == "True"


async def test_a_group_that_would_not_fit_even_then_evicts_no_pods() -> None:
    async with two_nodes() as world:
        await place(world, low("a"), low("b"))
        await add_gang(world, "3", count=3)
        await passes(1)
        twice = "pod group is unschedulable, pod group is unschedulable"
        assert (await condition(world))["message"] == twice
        assert await left(world) == ["a", "b"]


async def test_a_group_with_disruption_mode_pod_group_is_evicted_as_a_whole() -> None:
    async with two_nodes() as world:
        whole = make_pod_group("victims", priorityClassName="low", disruptionMode="PodGroup")
        single = make_pod_group("singles", priorityClassName="low", disruptionMode="Pod")
        await world.add(whole, single)
        victims = [low(f"v{n}", "2", schedulingGroup={"podGroupName": "victims"}) for n in range(2)]
        singles = [low(f"s{n}", "2", schedulingGroup={"podGroupName": "singles"}) for n in range(2)]
        await place(world, *victims, *singles)
        await add_gang(world, "2", count=1)
        await world.bound("m0")
        # One pod has to go. A group is more important than less of one: of the singles one goes.
        remaining = await left(world)
        assert remaining[1:] == ["v0", "v1"]
        assert remaining[0] in ("s0", "s1")
        await world.client.delete(PODS, "m0", "ns", grace_period=0)
        await world.client.delete(PODS, remaining[0], "ns", grace_period=0)
        await world.add(
            make_pod_group("next", 3, priorityClassName="high"),
            *(member(f"mn{n}", of="next", cpu="2", priorityClassName="high") for n in range(3)),
        )
        for number in range(3):
            await world.bound(f"mn{number}")
        assert await left(world) == []


async def test_a_pod_of_a_group_is_more_important_than_a_single_pod() -> None:
    async with two_nodes() as world:
        await world.add(make_pod_group("others", priorityClassName="low"))
        await place(world, low("alone", "4"), low("grouped", "4", schedulingGroup={"podGroupName": "others"}))
        await add_gang(world, "4", count=1)
        await world.bound("m0")
        assert await left(world) == ["grouped"]


async def test_pods_protected_by_a_budget_are_evicted_last() -> None:
    async with two_nodes() as world:
        await world.add(priority_class("more", 6))
        kept = low("kept", "4", labels={"app": "kept"})
        await place(world, kept, low("other", "4", priorityClassName="more"))
        await world.add(budget("b", "kept", 0))
        await add_gang(world, "2")
        await world.bound("m0", "m1")
        assert await left(world) == ["kept"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"preemptionPolicy": "Never"}, "not eligible due to preemptionPolicy=Never."),
        ({"group": {"priorityClassName": "low"}}, "No preemption victims found for incoming preemptor"),
    ],
)
async def test_the_condition_of_the_group_says_why_it_evicts_no_pods(spec: Json, why: str) -> None:
    async with two_nodes() as world:
        await world.add({**priority_class("never", 100), "preemptionPolicy": "Never"})
        await place(world, low("a", "4"), low("b", "4"))
        given = dict(spec)
        class_name = "never" if given.pop("preemptionPolicy", "") else "high"
        of_group = given.pop("group", {"priorityClassName": class_name})
        await world.add(make_pod_group(count=1, **of_group), member("m0", priorityClassName=class_name))
        await passes(1)
        assert (await condition(world))["message"] == f"pod group is unschedulable, {why}"
        assert await left(world) == ["a", "b"]


async def test_without_the_gate_each_member_preempts_for_itself() -> None:
    async with two_nodes("GenericWorkload=true,GangScheduling=true") as world:
        await place(world, low("a", "4"), low("b", "4"))
        await world.add(make_pod_group(count=1), member("m0", priorityClassName="high"))
        await world.bound("m0")
        assert len(await left(world)) == 1
