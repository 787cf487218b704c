"""Claims that are reserved for a workload as a whole (KEP-5194, gate DRAReservedForWorkloads)."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import DEPLOYMENTS, JOBS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.scheduler.test_claims_of_groups import users
from tests.scheduler.world import World
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

GATE = "DRAReservedForWorkloads=true"
JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "u-train"}
OTHERS_JOB = {"apiGroup": "example.com", "resource": "trainings", "name": "train", "uid": "u-train"}
ENTRY = {"name": "shared", "resourceClaimName": "c"}
TAINT = {"key": "example.com/broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


async def prepare(world: World, *, reserved_for: Json | None = None, pods_a_node: str = "110") -> None:
    await world.add(make_device_class(), make_node("n1", cpu="999", pods=pods_a_node), make_slice("n1", 1))
    claim = make_claim("c")
    claim["spec"]["reservedFor"] = OTHERS_JOB if reserved_for is None else reserved_for
    await world.add(claim)


def make_user(name: str) -> Json:
    return make_pod(name, resourceClaims=[ENTRY])


def is_for_any_pod(claim: Json) -> bool:
    return bool(claim["status"].get("allocation", {}).get("reservedForAnyPod"))


async def test_more_than_256_pods_share_a_claim_reserved_for_their_workload() -> None:
    async with World("scheduler", gates=GATE) as world:
        await prepare(world, pods_a_node="300")
        await world.add(make_user("p0"))
        await world.bound("p0")
        first = await world.claim("c")
        for number in range(1, 258):
            await world.add(make_user(f"p{number}"))
        await passes(2)
        assert all(pod["spec"].get("nodeName") for pod in await world.items(PODS))
        claim = await world.claim("c")
        assert claim["status"]["reservedFor"] == [OTHERS_JOB]
        assert is_for_any_pod(claim)
        # Later pods write nothing to the claim.
        assert claim["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_without_the_gate_and_with_listed_pods_further_pods_are_listed() -> None:
    async with World("scheduler", gates=GATE, component_gates={"DRAReservedForWorkloads": False}) as world:
        await prepare(world)
        await world.add(make_user("a"), make_user("b"))
        await world.bound(*"ab")
        listed = await world.claim("c")
        assert (users(listed), is_for_any_pod(listed)) == ([("pods", "a"), ("pods", "b")], False)
    async with World("scheduler", gates=GATE) as world:
        await prepare(world)
        claim = await world.claim("c")
        before = {"allocation": listed["status"]["allocation"], "reservedFor": listed["status"]["reservedFor"]}
        await world.client.update_status(RESOURCE_CLAIMS, {**claim, "status": before})
        await world.add(make_user("d"))
        await world.bound("d")
        mixed = await world.claim("c")
        assert (users(mixed)[-1], is_for_any_pod(mixed)) == (("pods", "d"), False)


async def test_an_allocation_for_a_workload_is_not_released_for_one_of_its_pods() -> None:
    async with World("scheduler", gates=GATE) as world:
        await prepare(world)
        await world.add(make_user("a"))
        await world.bound("a")
        elsewhere = {**make_user("b"), "spec": {**make_user("b")["spec"], "nodeSelector": {"zone": "x"}}}
        await world.add(make_node("n2", labels={"zone": "x"}))
        claim = await world.claim("c")
        # The allocation is reachable from the first node only.
        node = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
        assert claim["status"]["allocation"]["nodeSelector"] == node
        await world.add(elsewhere)
        assert "still not schedulable" in await world.unschedulable("b")
        assert (await world.claim("c"))["status"]["reservedFor"] == [OTHERS_JOB]


async def test_pods_without_a_reservation_of_their_own_run_and_are_evicted_with_the_device() -> None:
    components = (
        "scheduler", "resourceclaim-controller", "device-taint-eviction-controller", "node-agent",
        "node-lifecycle-controller",
    )  # fmt: skip
    async with World(*components, gates=GATE, options={"nodes": 1}) as world:
        await prepare(world)
        emulated = {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}
        tainted = make_slice("node-1", 1)
        await world.add(tainted)
        for name in "ab":
            pod = make_user(name)
            await world.add({**pod, "spec": {**pod["spec"], **emulated}})
        for name in "ab":
            await world.until(PODS, f"ns/{name}", lambda pod: pod["status"].get("phase") == "Running")
        assert users(await world.claim("c")) == [("trainings", "train")]
        found = await world.client.get(RESOURCE_SLICES, tainted["metadata"]["name"])
        found["spec"]["devices"][0]["taints"] = [TAINT]
        await world.client.update(RESOURCE_SLICES, found)
        await passes(5)
        assert await world.items(PODS) == []
        # The writer of the reference removes it.
        claim = await world.claim("c")
        assert users(claim) == [("trainings", "train")]
        await world.client.update_status(RESOURCE_CLAIMS, {**claim, "status": {**claim["status"], "reservedFor": []}})
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda claim: not claim.get("status", {}).get("allocation"))


async def test_a_job_holds_its_claim_until_it_and_its_last_pod_are_deleted() -> None:
    components = ("scheduler", "resourceclaim-controller", "workload-references-controller")
    async with World(*components, gates=GATE) as world:
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ns"},
               "spec": {"template": template, "suspend": True}}  # fmt: skip
        made = await world.add(job)
        await prepare(world, reserved_for={**JOB, "uid": made["metadata"]["uid"]})
        await world.add(make_user("a"))
        await world.bound("a")
        await world.client.delete(JOBS, "train", "ns", propagation="Background")
        await world.add(make_user("b"))
        await world.bound("b")
        await world.client.delete(PODS, "a", "ns", grace_period=0)
        await passes(5)
        assert users(await world.claim("c")) == [("jobs", "train")]
        await world.client.delete(PODS, "b", "ns", grace_period=0)
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda claim: not claim.get("status", {}).get("allocation"))


async def test_a_workload_beside_listed_pods_blocks_no_pod_and_the_last_of_both_gives_the_devices_back() -> None:
    components = ("scheduler", "resourceclaim-controller", "workload-references-controller")
    async with World("scheduler", gates=GATE, component_gates={"DRAReservedForWorkloads": False}) as world:
        await prepare(world, reserved_for=JOB)
        await world.add(make_user("a"))
        await world.bound("a")
        listed = (await world.claim("c"))["status"]
    async with World(*components, gates=GATE) as world:
        await prepare(world, reserved_for=JOB)
        first = await world.add({**make_user("a"), "spec": {**make_user("a")["spec"], "nodeName": "n1"}})
        pod = {"resource": "pods", "name": "a", "uid": first["metadata"]["uid"]}
        found = await world.client.get(RESOURCE_CLAIMS, "c", "ns")
        protected = {**found["metadata"], "finalizers": ["resource.kubernetes.io/delete-protection"]}
        found = await world.client.update(RESOURCE_CLAIMS, {**found, "metadata": protected})
        await world.client.update_status(RESOURCE_CLAIMS, {**found, "status": {**listed, "reservedFor": [pod, JOB]}})
        await world.add(make_user("b"))
        await world.bound("b")
        mixed = await world.claim("c")
        assert (users(mixed), is_for_any_pod(mixed)) == ([("pods", "a"), ("jobs", "train"), ("pods", "b")], False)
        for name in "ab":
            await world.client.delete(PODS, name, "ns", grace_period=0)
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda claim: not claim.get("status", {}).get("allocation"))
        assert users(await world.claim("c")) == []


async def test_a_pod_listed_beside_the_workload_of_an_open_claim_blocks_no_pod() -> None:
    async with World("scheduler", "resourceclaim-controller", gates=GATE) as world:
        await prepare(world)
        await world.add(make_user("a"))
        await world.bound("a")
        claim = await world.claim("c")
        listed = {"resource": "pods", "name": "z", "uid": "z"}
        status = {**claim["status"], "reservedFor": [listed, *claim["status"]["reservedFor"]]}
        await world.client.update_status(RESOURCE_CLAIMS, {**claim, "status": status})
        await world.add(make_user("b"))
        await world.bound("b")
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda claim: users(claim) == [("trainings", "train")])
        assert is_for_any_pod(await world.claim("c"))


async def test_a_deployment_scaled_to_zero_gives_its_devices_back_and_gets_devices_again() -> None:
    components = (
        "scheduler", "resourceclaim-controller", "workload-references-controller", "node-agent",
        "node-lifecycle-controller", "deployment-controller", "replicaset-controller",
    )  # fmt: skip
    async with World(*components, gates=GATE, options={"nodes": 1}) as world:
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [ENTRY]},
        }
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        made = await world.add({"apiVersion": "apps/v1", "kind": "Deployment",
                                "metadata": {"name": "web", "namespace": "ns"}, "spec": spec})  # fmt: skip
        await world.add(make_device_class(), make_slice("node-1", 1))
        claim = make_claim("c")
        web = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": made["metadata"]["uid"]}
        await world.add({**claim, "spec": {**claim["spec"], "reservedFor": web}})

        async def scale(replicas: int) -> None:
            found = await world.client.get(DEPLOYMENTS, "web", "ns")
            await world.client.update(DEPLOYMENTS, {**found, "spec": {**found["spec"], "replicas": replicas}})

        for _ in range(2):
            await world.until(DEPLOYMENTS, "ns/web", lambda web: web.get("status", {}).get("readyReplicas") == 2)
            assert users(await world.claim("c")) == [("deployments", "web")]
            await scale(0)
            await world.until(RESOURCE_CLAIMS, "ns/c", lambda claim: not claim.get("status", {}).get("allocation"))
            assert await world.items(PODS) == []
            await scale(2)
