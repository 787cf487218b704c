"""Claims that are reserved for a workload as a whole (KEP-5194, gate DRAReservedForWorkloads): what scheduler, claim
controller, eviction and node agent make of the reference, alone and beside pods that are listed."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.runtime.kinds import JOBS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.scheduler.world import World
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice
from tests.support.virtual import passes

GATE = "DRAReservedForWorkloads=true"
JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "u-train"}
OTHERS_JOB = {"apiGroup": "example.com", "resource": "trainings", "name": "train", "uid": "u-train"}
ENTRY = {"name": "shared", "resourceClaimName": "c"}
TAINT = {"key": "example.com/broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


async def prepared(world: World, *, reserved_for: Json | None = None, pods_a_node: str = "110") -> None:
    await world.add(make_device_class(), make_node("n1", cpu="999", pods=pods_a_node), make_slice("n1", 1))
    claim = make_claim("c")
    claim["spec"]["reservedFor"] = OTHERS_JOB if reserved_for is None else reserved_for
    await world.add(claim)


def user(name: str) -> Json:
    return make_pod(name, resourceClaims=[ENTRY])


def opened(claim: Json) -> bool:
    return bool(claim["status"].get("allocation", {}).get("reservedForAnyPod"))


def users(claim: Json) -> list[tuple[str, str]]:
    return [(user["resource"], user["name"]) for user in claim["status"].get("reservedFor") or ()]


async def test_more_than_256_pods_share_a_claim_that_names_their_workload_once() -> None:
    async with World("scheduler", gates=GATE) as world:
        await prepared(world, pods_a_node="300")
        await world.add(user("p0"))
        await world.bound("p0")
        first = await world.claim("c")
        for number in range(1, 258):
            await world.add(user(f"p{number}"))
        await passes(2)
        assert all(pod["spec"].get("nodeName") for pod in await world.items(PODS))
        claim = await world.claim("c")
        assert claim["status"]["reservedFor"] == [OTHERS_JOB]
        assert opened(claim)
        # The finalizer, and the allocation with the reference: whoever came later wrote nothing.
        assert claim["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_without_the_gate_pods_are_listed_and_a_list_that_has_pods_goes_on_so() -> None:
    async with World("scheduler", gates=GATE, component_gates={"DRAReservedForWorkloads": False}) as world:
        await prepared(world)
        await world.add(user("a"), user("b"))
        for name in "ab":
            await world.bound(name)
        listed = await world.claim("c")
        assert (users(listed), opened(listed)) == ([("pods", "a"), ("pods", "b")], False)
    async with World("scheduler", gates=GATE) as world:
        await prepared(world)
        claim = await world.claim("c")
        before = {"allocation": listed["status"]["allocation"], "reservedFor": listed["status"]["reservedFor"]}
        await world.client.update_status(RESOURCE_CLAIMS, {**claim, "status": before})
        await world.add(user("d"))
        await world.bound("d")
        mixed = await world.claim("c")
        assert (users(mixed)[-1], opened(mixed)) == (("pods", "d"), False)


async def test_an_allocation_that_is_held_for_a_workload_is_not_given_up_for_one_pod_of_it() -> None:
    async with World("scheduler", gates=GATE) as world:
        await prepared(world)
        await world.add(user("a"))
        await world.bound("a")
        elsewhere = {**user("b"), "spec": {**user("b")["spec"], "nodeSelector": {"zone": "x"}}}
        await world.add(make_node("n2", labels={"zone": "x"}))
        claim = await world.claim("c")
        # Now it can be used on the first node alone.
        node = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
        assert claim["status"]["allocation"]["nodeSelector"] == node
        await world.add(elsewhere)
        assert "still not schedulable" in await world.unschedulable("b")
        assert (await world.claim("c"))["status"]["reservedFor"] == [OTHERS_JOB]


async def test_pods_that_are_not_listed_run_and_are_evicted_with_the_device() -> None:
    components = (
        "scheduler", "resourceclaim-controller", "device-taint-eviction-controller", "node-agent",
        "node-lifecycle-controller",
    )  # fmt: skip
    async with World(*components, gates=GATE, options={"nodes": 1}) as world:
        await prepared(world)
        emulated = {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}
        tainted = make_slice("node-1", 1)
        await world.add(tainted)
        for name in "ab":
            pod = user(name)
            await world.add({**pod, "spec": {**pod["spec"], **emulated}})
        for name in "ab":
            await world.until(PODS, f"ns/{name}", lambda pod: pod["status"].get("phase") == "Running")
        assert users(await world.claim("c")) == [("trainings", "train")]
        found = await world.client.get(RESOURCE_SLICES, tainted["metadata"]["name"])
        found["spec"]["devices"][0]["taints"] = [TAINT]
        await world.client.update(RESOURCE_SLICES, found)
        await passes(5)
        assert await world.items(PODS) == []
        # Whoever wrote the reference takes it away.
        claim = await world.claim("c")
        assert users(claim) == [("trainings", "train")]
        await world.client.update_status(RESOURCE_CLAIMS, {**claim, "status": {**claim["status"], "reservedFor": []}})
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda claim: not claim.get("status", {}).get("allocation"))


async def test_a_job_holds_its_claim_until_it_is_gone_and_its_last_pod_too() -> None:
    components = ("scheduler", "resourceclaim-controller", "workload-references-controller")
    async with World(*components, gates=GATE) as world:
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ns"},
               "spec": {"template": template, "suspend": True}}  # fmt: skip
        made = await world.add(job)
        await prepared(world, reserved_for={**JOB, "uid": made["metadata"]["uid"]})
        await world.add(user("a"))
        await world.bound("a")
        await world.client.delete(JOBS, "train", "ns", propagation="Background")
        await world.add(user("b"))
        await world.bound("b")
        await world.client.delete(PODS, "a", "ns", grace_period=0)
        await passes(5)
        assert users(await world.claim("c")) == [("jobs", "train")]
        await world.client.delete(PODS, "b", "ns", grace_period=0)
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda claim: not claim.get("status", {}).get("allocation"))
