"""Claims of pod groups (gate DRAWorkloadResourceClaims)."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.runtime.kinds import RESOURCE_CLAIMS
from tests.scheduler.world import scheduler_world
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_pod_group, make_slice

GATES = "GenericWorkload=true,DRAWorkloadResourceClaims=true"
ENTRY = {"name": "shared", "resourceClaimName": "c"}
NOWHERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}


def make_claiming_group() -> Json:
    return make_pod_group(resourceClaims=[ENTRY])


def make_member(name: str) -> Json:
    return make_pod(name, schedulingGroup={"podGroupName": "g"}, resourceClaims=[ENTRY])


def one_device() -> tuple[Json, ...]:
    return make_device_class(), make_node("n1"), make_slice("n1", 1), make_claim("c")


def users(claim: Json) -> list[tuple[str, str]]:
    return [(user["resource"], user["name"]) for user in claim["status"].get("reservedFor") or ()]


async def test_a_claim_of_a_group_is_reserved_for_the_group_and_for_each_other_pod() -> None:
    async with scheduler_world(*one_device(), gates=GATES) as world:
        await world.add(
            make_claiming_group(), make_member("a"), make_member("b"), make_pod("foreign", resourceClaims=[ENTRY])
        )
        await world.bound("a", "b", "foreign")
        assert sorted(users(await world.claim("c"))) == [("podgroups", "g"), ("pods", "foreign")]


async def test_without_the_gate_the_claim_is_reserved_for_each_pod() -> None:
    async with scheduler_world(
        *one_device(), make_member("a"), make_member("b"), gates="GenericWorkload=true"
    ) as world:
        await world.bound(*"ab")
        assert sorted(users(await world.claim("c"))) == [("pods", "a"), ("pods", "b")]


async def test_a_member_waits_for_its_group() -> None:
    async with scheduler_world(*one_device(), make_member("a"), gates=GATES) as world:
        assert 'podgroup.scheduling.k8s.io "g" not found' in await world.unschedulable("a")
        await world.add(make_claiming_group())
        await world.bound("a")


async def test_an_unused_allocation_that_keeps_a_group_off_every_node_is_released() -> None:
    async with scheduler_world(*one_device(), gates=GATES) as world:
        group = await world.add(make_claiming_group())
        uid = group["metadata"]["uid"]
        user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid}
        result = {"request": "r", "driver": "gpu.example.com", "pool": "gone", "device": "gpu-0"}
        allocation = {"devices": {"results": [result]}, "nodeSelector": NOWHERE}
        status = {"allocation": allocation, "reservedFor": [user]}
        await world.client.update_status(RESOURCE_CLAIMS, {**await world.claim("c"), "status": status})
        await world.add(make_member("a"))
        assert "ResourceClaim unreserved for PodGroup" in await world.unschedulable("a")
        await world.bound("a")
        claim = await world.claim("c")
        assert users(claim) == [("podgroups", "g")]
        assert claim["status"]["allocation"]["devices"]["results"][0]["pool"] == "n1"
