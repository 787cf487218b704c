"""Groups of pods are placed together (gates GenericWorkload, GangScheduling, TopologyAwareWorkloadScheduling)."""

from __future__ import annotations

from typing import Any

from apiserver.api.objects import Json
from controllers.runtime.kinds import NODES, POD_GROUPS, PODS
from tests.scheduler.world import World, scheduled
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice
from tests.support.virtual import passes

GATES = "GenericWorkload=true,GangScheduling=true"
TOPOLOGY = f"{GATES},TopologyAwareWorkloadScheduling=true"
TOO_FEW = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to "
    "wait and no plugin rejected pod"
)


def group(name: str = "g", count: int = 0, **spec: Any) -> Json:
    """A gang of at least `count` pods; 0: pods that need not be placed together."""
    policy = {"gang": {"minCount": count}} if count else {"basic": {}}
    metadata = {"name": name, "namespace": "ns"}
    spec = {"schedulingPolicy": policy, **spec}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def member(name: str, cpu: str = "1", of: str = "g", **spec: Any) -> Json:
    return make_pod(name, requests={"cpu": cpu}, schedulingGroup={"podGroupName": of}, **spec)


async def condition(world: World, name: str = "g") -> Json:
    found = (await world.client.get(POD_GROUPS, name, "ns")).get("status", {}).get("conditions") or ()
    return next((each for each in found if each["type"] == "PodGroupScheduled"), {})


async def nodes(world: World) -> dict[str, str | None]:
    """Where the pods are."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in await world.items(PODS)}


async def test_of_a_gang_that_does_not_fit_no_pod_is_bound_until_all_can_be() -> None:
    async with World("scheduler", gates=GATES) as world:
        await world.add(make_node("n1", cpu="2"), group(count=3), member("a"), member("b"), member("c"))
        await passes(30)
        assert set((await nodes(world)).values()) == {None}
        said = {name: scheduled(await world.pod(name))["message"] for name in "abc"}
        assert sorted(said.values())[1:] == [TOO_FEW, TOO_FEW]
        assert min(said.values()).startswith("0/1 nodes are available: 1 Insufficient cpu.")
        found = await condition(world)
        told = found["status"], found["reason"], found["message"]
        assert told == ("False", "Unschedulable", "pod group is unschedulable")
        # What was tried keeps nobody else from the node.
        await world.add(make_pod("other", requests={"cpu": "2"}))
        await world.bound("other")
        await world.client.delete(PODS, "other", "ns", grace_period=0)
        await world.add(make_node("n2", cpu="1"))
        for name in "abc":
            await world.bound(name)
        assert (await condition(world))["status"] == "True"


async def test_without_their_gate_gangs_start_one_by_one() -> None:
    async with World("scheduler", gates=GATES, component_gates={"GangScheduling": False}) as world:
        await world.add(make_node("n1", cpu="2"), group(count=3), member("a"))
        await world.bound("a")
        await world.add(member("b"), member("c"))
        await passes(30)
        assert sorted(filter(None, (await nodes(world)).values())) == ["n1", "n1"]
        assert (await condition(world))["status"] == "True"


async def test_pods_of_a_gang_wait_for_their_group_and_for_each_other() -> None:
    async with World("scheduler", gates=GATES) as world:
        await world.add(make_node("n1"), member("a"))
        await passes(30)
        await world.add(group(count=2))
        await passes(30)
        assert scheduled(await world.pod("a")) == {}
        await world.add(member("b"))
        await passes(1)
        assert await nodes(world) == {"a": "n1", "b": "n1"}
        # One that comes later finds as many placed as the gang needs.
        await world.add(member("c"))
        await world.bound("c")


async def test_without_the_policy_of_a_gang_each_pod_goes_where_it_fits() -> None:
    async with World("scheduler", gates=GATES) as world:
        await world.add(make_node("n1", cpu="2"), group(), member("a"), member("large", cpu="9"))
        await world.bound("a")
        assert "Insufficient cpu" in await world.unschedulable("large")
        await passes(1)
        assert (await condition(world))["status"] == "True"


async def test_members_share_a_claim_that_is_allocated_while_they_are_placed() -> None:
    async with World("scheduler", "resourceclaim-controller", gates=GATES) as world:
        await world.add(
            make_device_class(), make_node("n1"), make_node("n2"), make_slice("n2", 1), make_claim("c"), group(count=2)
        )
        entry = {"name": "shared", "resourceClaimName": "c"}
        await world.add(*(member(name, resourceClaims=[entry]) for name in "ab"))
        await passes(0.5)
        assert await nodes(world) == {"a": "n2", "b": "n2"}
        claim = await world.claim("c")
        assert sorted(user["name"] for user in claim["status"]["reservedFor"]) == ["a", "b"]


async def test_devices_that_a_gang_tried_in_vain_are_free_for_others() -> None:
    async with World("scheduler", gates=GATES) as world:
        await world.add(
            make_device_class(),
            make_node("n1"),
            make_slice("n1", 1),
            make_claim("a"),
            make_claim("b"),
            make_claim("other"),
            group(count=2),
        )
        for name in "ab":
            await world.add(member(name, resourceClaims=[{"name": "d", "resourceClaimName": name}]))
        await passes(20)
        assert (await world.claim("a")).get("status", {}).get("allocation") is None
        await world.add(make_pod("other", resourceClaims=[{"name": "d", "resourceClaimName": "other"}]))
        await world.bound("other")


async def test_a_group_goes_to_the_part_of_the_cluster_that_takes_most_of_it_and_stays_there() -> None:
    async with World("scheduler", gates=TOPOLOGY) as world:
        await world.add(
            make_node("a1", cpu="9"), make_node("b1", cpu="2", labels={"rack": "b"}),
            make_node("c1", cpu="2", labels={"rack": "c"}), make_node("c2", cpu="1", labels={"rack": "c"}),
        )  # fmt: skip
        await world.add(*(member(name) for name in "pqr"))
        await world.add(group(count=2, schedulingConstraints={"topology": [{"key": "rack"}]}))
        await passes(1)
        assert set((await nodes(world)).values()) == {"c1", "c2"}
        await world.add(member("s"))
        text = await world.unschedulable("s")
        assert text.startswith("0/2 nodes are available: 2 Insufficient cpu.")
        node = await world.client.get(NODES, "c2")
        more = {name: {**node["status"][name], "cpu": "2"} for name in ("allocatable", "capacity")}
        await world.client.update_status(NODES, {**node, "status": {**node["status"], **more}})
        assert await world.node_of("s") == "c2"


async def test_a_group_that_fits_in_no_part_says_in_how_many_it_was_tried() -> None:
    async with World("scheduler", gates=TOPOLOGY) as world:
        await world.add(
            *(make_node(name, cpu="1", labels={"rack": name}) for name in "ab"),
            group(count=2, schedulingConstraints={"topology": [{"key": "rack"}]}),
            member("p"),
            member("q"),
        )
        await passes(10)
        text = "0/2 placements are available, first placement status: pod group is unschedulable"
        assert (await condition(world))["message"] == text
        assert set((await nodes(world)).values()) == {None}
