"""What is said of a group of pods that cannot be tried, or whose attempt fails; its members are tried again."""

from __future__ import annotations

import pytest

from controllers.runtime.kinds import NODES, PODS
from controllers.scheduler.framework.framework import Plugin, PluginError
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from tests.scheduler.test_configuration import document, parse, profile
from tests.scheduler.test_gangs import GATES, TOPOLOGY, condition, group, member, nodes
from tests.scheduler.world import World, scheduled
from tests.support.objects import make_node
from tests.support.virtual import passes

ONE_RACK = {"topology": [{"key": "rack"}]}
UNKNOWN = "cannot determine domain for already scheduled pods: "


def fails_for(name: str, error: Exception) -> Plugin:
    """A filter that fails for one pod, once."""
    left = [error]

    def asked(pod: PodInfo, _: None, __: NodeInfo) -> None:
        if pod.name == name and left:
            raise left.pop()

    return Plugin(name="Failing", filter=asked)


async def told(world: World, *names: str) -> dict[str, tuple[str, str]]:
    found = {name: scheduled(await world.pod(name)) for name in names}
    return {name: (said.get("reason", ""), said.get("message", "")) for name, said in found.items()}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PluginError("no paper"), 'running "Failing" filter plugin: no paper'),
        (ZeroDivisionError("by zero"), "unexpected ZeroDivisionError: by zero"),
    ],
)
async def test_an_error_at_one_member_is_the_error_of_all_and_none_stays_on_its_node(
    error: Exception, text: str
) -> None:
    async with World(gates=GATES, plugins=(fails_for("b", error),)) as world:
        await world.add(make_node("n1", cpu="3"), group(count=3), member("a"), member("b"), member("c"))
        await passes(0.5)
        other = f"failed to schedule other pod from a pod group: {text}"
        said = await told(world, "a", "b", "c")
        assert said["b"] == ("SchedulerError", text)
        assert {said["a"], said["c"]} == {("SchedulerError", other)}
        found = await condition(world)
        assert (found["status"], found["reason"], found["message"]) == ("False", "SchedulerError", other)
        assert set((await nodes(world)).values()) == {None}
        await passes(20)
        assert set((await nodes(world)).values()) == {"n1"}
        assert (await condition(world))["status"] == "True"


async def test_all_members_have_to_name_one_scheduler() -> None:
    configuration = parse(document(profile(), profile(None, "second"), profile(None, "third")))
    async with World("scheduler", gates=GATES, configuration=configuration) as world:
        await world.add(
            make_node("n1"), *(member(n, schedulerName=s) for n, s in (("a", "third"), ("b", "second"))), group(count=2)
        )
        await passes(30)
        text = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "second" and "third"'
        assert await told(world, "a", "b") == dict.fromkeys("ab", ("SchedulerError", text))
        assert set((await nodes(world)).values()) == {None}


@pytest.mark.parametrize(
    ("racks", "text"),
    [
        ({}, f"{UNKNOWN}no topology domain found for pod ns/p"),
        ({"n1": "x", "n2": "y"}, f"{UNKNOWN}more than 1 domain found for pod group: x, y"),
        ({"n1": "x", "n2": "x"}, ""),
    ],
)
async def test_a_group_whose_members_are_not_in_one_place_gets_no_more(racks: dict[str, str], text: str) -> None:
    async with World("scheduler", gates=TOPOLOGY) as world:
        await world.add(
            *(make_node(name, labels={"rack": racks[name]} if name in racks else {}) for name in ("n1", "n2")),
            make_node("n3", labels={"rack": "x"}),
        )
        for name, node in (("p", "n1"), ("q", "n2"))[: 2 if racks else 1]:
            await world.add(member(name, nodeName=node))
        await world.add(group(count=1, schedulingConstraints=ONE_RACK), member("new"))
        await passes(5)
        found = await condition(world)
        if text:
            assert (found["reason"], found["message"]) == ("SchedulerError", text)
            assert await told(world, "new") == {"new": ("SchedulerError", text)}
        else:
            assert (await nodes(world))["new"] is not None


async def test_a_group_that_no_node_has_a_place_for_waits_until_one_has() -> None:
    async with World("scheduler", gates=TOPOLOGY) as world:
        await world.add(make_node("n1"), group(count=1, schedulingConstraints=ONE_RACK), member("p"))
        await passes(5)
        found = await condition(world)
        assert (found["reason"], found["message"]) == ("Unschedulable", "no feasible placements found")
        assert (await told(world, "p"))["p"] == ("Unschedulable", "no feasible placements found")
        node = await world.client.get(NODES, "n1")
        labels = {**node["metadata"]["labels"], "rack": "x"}
        await world.client.update(NODES, {**node, "metadata": {**node["metadata"], "labels": labels}})
        assert await world.node_of("p") == "n1"


async def test_a_member_that_is_being_deleted_is_not_tried_with_the_others() -> None:
    async with World("scheduler", gates=GATES) as world:
        for name in ("a", "b"):
            made = member(name)
            await world.add({**made, "metadata": {**made["metadata"], "finalizers": ["example.com/held"]}})
        await world.client.delete(PODS, "a", "ns")
        await world.add(group(count=1), make_node("n1"))
        assert await world.node_of("b") == "n1"
        await passes(30)
        assert (await nodes(world))["a"] is None
