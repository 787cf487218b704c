"""Placement of pod groups (gates GenericWorkload, GangScheduling, TopologyAwareWorkloadScheduling)."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import NODES, POD_GROUPS, PODS
from tests.scheduler.world import World, scheduled, scheduler_world
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_pod_group, make_slice
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

GATES = "GenericWorkload=true,GangScheduling=true"
TOPOLOGY = f"{GATES},TopologyAwareWorkloadScheduling=true"
BY_RACK = {"topology": [{"key": "rack"}]}
TOO_FEW = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to "
    "wait and no plugin rejected pod"
)


def member(name: str, cpu: str = "1", of: str = "g", **spec: Any) -> Json:
    return make_pod(name, requests={"cpu": cpu}, schedulingGroup={"podGroupName": of}, **spec)


async def condition(world: World, name: str = "g") -> Json:
    found = (await world.client.get(POD_GROUPS, name, "ns")).get("status", {}).get("conditions") or ()
    return next((each for each in found if each["type"] == "PodGroupScheduled"), {})


async def verdict(world: World) -> tuple[str, str, str]:
    """Return status, reason and message of the group's condition."""
    found = await condition(world)
    return found["status"], found["reason"], found["message"]


async def nodes(world: World) -> dict[str, str | None]:
    """Return the node of each pod by name."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in await world.items(PODS)}


async def test_no_pod_of_a_gang_is_bound_until_all_fit() -> None:
    async with World("scheduler", gates=GATES) as world:
        await world.add(make_node("n1", cpu="2"), make_pod_group(count=3), member("a"), member("b"), member("c"))
        await passes(30)
        assert set((await nodes(world)).values()) == {None}
        messages = {name: scheduled(await world.pod(name))["message"] for name in "abc"}
        assert sorted(messages.values())[1:] == [TOO_FEW, TOO_FEW]
        assert min(messages.values()).startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert await verdict(world) == ("False", "Unschedulable", "pod group is unschedulable")
        # The failed attempt keeps no other pod off the node.
        await world.add(make_pod("other", requests={"cpu": "2"}))
        await world.bound("other")
        await world.client.delete(PODS, "other", "ns", grace_period=0)
        await world.add(make_node("n2", cpu="1"))
        await world.bound(*"abc")
        assert (await condition(world))["status"] == "True"


async def test_without_the_gate_pods_of_a_gang_are_bound_one_by_one() -> None:
    async with World("scheduler", gates=GATES, component_gates={"GangScheduling": False}) as world:
        await world.add(make_node("n1", cpu="2"), make_pod_group(count=3), member("a"))
        await world.bound("a")
        await world.add(member("b"), member("c"))
        await passes(30)
        assert sorted(filter(None, (await nodes(world)).values())) == ["n1", "n1"]
        assert (await condition(world))["status"] == "True"


async def test_pods_of_a_gang_wait_for_their_group_and_for_each_other() -> None:
    async with scheduler_world(make_node("n1"), member("a"), gates=GATES) as world:
        await passes(30)
        await world.add(make_pod_group(count=2))
        await passes(30)
        assert scheduled(await world.pod("a")) == {}
        await world.add(member("b"))
        await passes(1)
        assert await nodes(world) == {"a": "n1", "b": "n1"}
        # A later pod finds as many placed as the gang needs.
        await world.add(member("c"))
        await world.bound("c")


async def test_pods_of_a_group_with_the_basic_policy_are_bound_one_by_one() -> None:
    async with World("scheduler", gates=GATES) as world:
        await world.add(make_node("n1", cpu="2"), make_pod_group(), member("a"), member("large", cpu="9"))
        await world.bound("a")
        assert "Insufficient cpu" in await world.unschedulable("large")
        await passes(1)
        assert (await condition(world))["status"] == "True"


async def test_members_share_a_claim_that_their_placement_allocates() -> None:
    async with World("scheduler", "resourceclaim-controller", gates=GATES) as world:
        await world.add(make_device_class(), make_node("n1"), make_node("n2"), make_slice("n2", 1), make_claim("c"))
        await world.add(make_pod_group(count=2), *(member(name, claims={"shared": "c"}) for name in "ab"))
        await passes(0.5)
        assert await nodes(world) == {"a": "n2", "b": "n2"}
        claim = await world.claim("c")
        assert sorted(user["name"] for user in claim["status"]["reservedFor"]) == ["a", "b"]


async def test_a_failed_attempt_of_a_gang_leaves_its_devices_to_other_pods() -> None:
    async with scheduler_world(make_device_class(), make_node("n1"), make_slice("n1", 1), gates=GATES) as world:
        await world.add(make_claim("a"), make_claim("b"), make_claim("other"))
        await world.add(make_pod_group(count=2), *(member(name, claims={"d": name}) for name in "ab"))
        await passes(20)
        assert (await world.claim("a")).get("status", {}).get("allocation") is None
        await world.add(make_pod("other", claims={"d": "other"}))
        await world.bound("other")


async def test_a_group_goes_to_the_domain_that_takes_most_of_its_pods_and_stays_there() -> None:
    async with World("scheduler", gates=TOPOLOGY) as world:
        await world.add(
            make_node("a1", cpu="9"), make_node("b1", cpu="2", labels={"rack": "b"}),
            make_node("c1", cpu="2", labels={"rack": "c"}), make_node("c2", cpu="1", labels={"rack": "c"}),
        )  # fmt: skip
        await world.add(*(member(name) for name in "pqr"), make_pod_group(count=2, schedulingConstraints=BY_RACK))
        await passes(1)
        assert set((await nodes(world)).values()) == {"c1", "c2"}
        await world.add(member("s"))
        text = await world.unschedulable("s")
        assert text.startswith("0/2 nodes are available: 2 Insufficient cpu.")
        node = await world.client.get(NODES, "c2")
        more = {name: {**node["status"][name], "cpu": "2"} for name in ("allocatable", "capacity")}
        await world.client.update_status(NODES, {**node, "status": {**node["status"], **more}})
        assert await world.node_of("s") == "c2"


async def test_a_group_that_fits_in_no_domain_says_how_many_were_tried() -> None:
    async with World("scheduler", gates=TOPOLOGY) as world:
        await world.add(*(make_node(name, cpu="1", labels={"rack": name}) for name in "ab"))
        await world.add(make_pod_group(count=2, schedulingConstraints=BY_RACK), member("p"), member("q"))
        await passes(10)
        text = "0/2 placements are available, first placement status: pod group is unschedulable"
        assert (await condition(world))["message"] == text
        assert set((await nodes(world)).values()) == {None}
