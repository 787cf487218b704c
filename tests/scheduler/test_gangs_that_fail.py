"""Conditions of a pod group that cannot be tried or whose attempt fails; its members are retried."""

from __future__ import annotations

import pytest

from controllers.runtime.kinds import NODES, PODS
from controllers.scheduler.config.configuration import parse
from controllers.scheduler.framework.framework import Plugin, PluginError
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from tests.scheduler.test_configuration import document, profile
from tests.scheduler.test_gangs import BY_RACK, GATES, TOPOLOGY, condition, member, nodes, verdict
from tests.scheduler.world import World, scheduled, scheduler_world
from tests.support.objects import make_node, make_pod_group
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

UNKNOWN = "cannot determine domain for already scheduled pods: "


def fails_for(name: str, error: Exception) -> Plugin:
    """Build a plugin whose filter fails once, for one pod."""
    left = [error]

    def fail_once(pod: PodInfo, _: None, __: NodeInfo) -> None:
        if pod.name == name and left:
            raise left.pop()

    return Plugin(name="Failing", filter=fail_once)


async def reasons(world: World, *names: str) -> dict[str, tuple[str, str]]:
    found = {name: scheduled(await world.pod(name)) for name in names}
    return {name: (each.get("reason", ""), each.get("message", "")) for name, each in found.items()}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PluginError("no paper"), 'running "Failing" filter plugin: no paper'),
        (ZeroDivisionError("by zero"), "unexpected ZeroDivisionError: by zero"),
    ],
)
async def test_an_error_of_one_member_fails_all_and_unreserves_their_nodes(error: Exception, text: str) -> None:
    async with World(gates=GATES, plugins=(fails_for("b", error),)) as world:
        await world.add(make_node("n1", cpu="3"), make_pod_group(count=3), member("a"), member("b"), member("c"))
        await passes(0.5)
        other = f"failed to schedule other pod from a pod group: {text}"
        error_of_all = ("SchedulerError", other)
        assert await reasons(world, "a", "b", "c") == {
            "a": error_of_all,
            "b": ("SchedulerError", text),
            "c": error_of_all,
        }
        assert await verdict(world) == ("False", "SchedulerError", other)
        assert set((await nodes(world)).values()) == {None}
        await passes(20)
        assert set((await nodes(world)).values()) == {"n1"}
        assert (await condition(world))["status"] == "True"


async def test_all_members_have_to_name_one_scheduler() -> None:
    configuration = parse(document(profile(), profile(None, "second"), profile(None, "third")))
    async with World("scheduler", gates=GATES, configuration=configuration) as world:
        await world.add(make_node("n1"), member("a", schedulerName="third"), member("b", schedulerName="second"))
        await world.add(make_pod_group(count=2))
        await passes(30)
        text = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "second" and "third"'
        assert await reasons(world, "a", "b") == dict.fromkeys("ab", ("SchedulerError", text))
        assert set((await nodes(world)).values()) == {None}


@pytest.mark.parametrize(
    ("racks", "text"),
    [
        ({}, f"{UNKNOWN}no topology domain found for pod ns/p"),
        ({"n1": "x", "n2": "y"}, f"{UNKNOWN}more than 1 domain found for pod group: x, y"),
        ({"n1": "x", "n2": "x"}, ""),
    ],
)
async def test_a_group_with_bound_members_outside_one_domain_gets_no_more_nodes(
    racks: dict[str, str], text: str
) -> None:
    async with World("scheduler", gates=TOPOLOGY) as world:
        await world.add(
            *(make_node(name, labels={"rack": racks[name]} if name in racks else {}) for name in ("n1", "n2")),
            make_node("n3", labels={"rack": "x"}),
        )
        for name, node in (("p", "n1"), ("q", "n2"))[: 2 if racks else 1]:
            await world.add(member(name, nodeName=node))
        await world.add(make_pod_group(count=1, schedulingConstraints=BY_RACK), member("new"))
        await passes(5)
        if text:
            assert (await verdict(world))[1:] == ("SchedulerError", text)
            assert await reasons(world, "new") == {"new": ("SchedulerError", text)}
        else:
            assert (await nodes(world))["new"] is not None


async def test_a_group_without_feasible_placements_waits_for_a_node_label() -> None:
    async with World("scheduler", gates=TOPOLOGY) as world:
        await world.add(make_node("n1"), make_pod_group(count=1, schedulingConstraints=BY_RACK), member("p"))
        await passes(5)
        no_places = ("Unschedulable", "no feasible placements found")
        assert (await verdict(world))[1:] == no_places
        assert await reasons(world, "p") == {"p": no_places}
        await world.client.patch(NODES, "n1", {"metadata": {"labels": {"rack": "x"}}})
        assert await world.node_of("p") == "n1"


async def test_a_member_that_is_being_deleted_is_not_tried_with_the_others() -> None:
    async with scheduler_world(*(member(name, finalizers=["example.com/held"]) for name in "ab"), gates=GATES) as world:
        await world.client.delete(PODS, "a", "ns")
        await world.add(make_pod_group(count=1), make_node("n1"))
        assert await world.node_of("b") == "n1"
        await passes(30)
        assert (await nodes(world))["a"] is None
