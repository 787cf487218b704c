"""Claims that the pods of a group share, as the scheduler treats them with the gate DRAWorkloadResourceClaims."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.runtime.kinds import RESOURCE_CLAIMS
from tests.scheduler.world import World
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice

GATES = "GenericWorkload=true,DRAWorkloadResourceClaims=true"
ENTRY = {"name": "shared", "resourceClaimName": "c"}
NOWHERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}


def a_group(name: str) -> Json:
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [ENTRY]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": spec,
    }


def a_member(name: str, group: str = "g") -> Json:
    return make_pod(name, schedulingGroup={"podGroupName": group}, resourceClaims=[ENTRY])


async def with_one_device(world: World) -> None:
    await world.add(make_device_class(), make_node("n1"), make_slice("n1", 1), make_claim("c"))


def users(claim: Json) -> list[tuple[str, str]]:
    return [(user["resource"], user["name"]) for user in claim["status"].get("reservedFor") or ()]


async def test_a_claim_of_a_group_is_reserved_once_for_it_and_for_each_foreign_pod() -> None:
    async with World("scheduler", gates=GATES) as world:
        await with_one_device(world)
        await world.add(a_group("g"), a_member("a"), a_member("b"), make_pod("foreign", resourceClaims=[ENTRY]))
        for name in ("a", "b", "foreign"):
            await world.bound(name)
        assert sorted(users(await world.claim("c"))) == [("podgroups", "g"), ("pods", "foreign")]


async def test_without_the_gate_each_pod_is_listed() -> None:
    async with World("scheduler", gates="GenericWorkload=true") as world:
        await with_one_device(world)
        await world.add(a_member("a"), a_member("b"))
        for name in "ab":
            await world.bound(name)
        assert sorted(users(await world.claim("c"))) == [("pods", "a"), ("pods", "b")]


async def test_a_member_waits_for_its_group() -> None:
    async with World("scheduler", gates=GATES) as world:
        await with_one_device(world)
        await world.add(a_member("a"))
        assert 'podgroup.scheduling.k8s.io "g" not found' in await world.unschedulable("a")
        await world.add(a_group("g"))
        await world.bound("a")


async def test_a_group_without_a_place_gives_up_an_allocation_that_keeps_it_off_every_node() -> None:
    async with World("scheduler", gates=GATES) as world:
        await with_one_device(world)
        group = await world.add(a_group("g"))
        consumer = {
            "apiGroup": "scheduling.k8s.io",
            "resource": "podgroups",
            "name": "g",
            "uid": group["metadata"]["uid"],
        }
        result = {"request": "r", "driver": "gpu.example.com", "pool": "gone", "device": "gpu-0"}
        status = {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": NOWHERE},
            "reservedFor": [consumer],
        }
        await world.client.update_status(RESOURCE_CLAIMS, {**await world.claim("c"), "status": status})
        await world.add(a_member("a"))
        assert "ResourceClaim unreserved for PodGroup" in await world.unschedulable("a")
        await world.bound("a")
        claim = await world.claim("c")
        assert users(claim) == [("podgroups", "g")]
        assert claim["status"]["allocation"]["devices"]["results"][0]["pool"] == "n1"
