"""Pods on devices with NoExecute taints are deleted, and rules report progress. The server is real, time is virtual."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from itertools import permutations
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.runtime.kinds import (
    CORE_EVENTS,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from controllers.runtime.times import parse_time
from tests.scheduler.world import World
from tests.support.objects import make_claim, make_pod, make_slice
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

COMPONENT = "device-taint-eviction-controller"
RULES = "DRADeviceTaintRules=true"
ADDED = "2026-01-01T00:00:00Z"
ONCE = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


def taint(effect: str = "NoExecute", added: str = ADDED, **more: Any) -> Json:
    return {"key": "broken", "effect": effect, "timeAdded": added, **more}


def a_rule(name: str = "rule", effect: str = "NoExecute", *, version: str = "v1beta2", **selector: str) -> Json:
    metadata = {"name": name}
    spec = {"deviceSelector": selector, "taint": taint(effect)}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": "DeviceTaintRule", "metadata": metadata, "spec": spec}


def with_taints(node: str, devices: int, *taints: Json) -> Json:
    more: Json = {"taints": list(taints)} if taints else {}
    return make_slice(node, devices, **more)


async def pods(
    world: World, *names: str, namespace: str = "ns", scheduled: bool = True, tolerations: tuple[Json, ...] = ()
) -> list[Json]:
    """Pods with a claim each, allocated to gpu-0, gpu-1, … of pool n1."""
    made = []
    for number, name in enumerate(names):
        entries = [{"name": "g", "resourceClaimName": name}]
        pod = await world.create(PODS, make_pod(name, namespace=namespace, resourceClaims=entries))
        await world.create(RESOURCE_CLAIMS, make_claim(name, namespace=namespace))
        await allocate(world, pod, f"gpu-{number}", tolerations)
        if scheduled:
            await world.client.bind(namespace, name, pod["metadata"]["uid"], "n1")
        made.append(pod)
    return made


async def allocate(world: World, pod: Json, device: str, tolerations: tuple[Json, ...] = (), **user: str) -> None:
    """Allocates the claim of a pod's name, for the pod or for `user`."""
    metadata = pod["metadata"]
    claim = await world.client.get(RESOURCE_CLAIMS, metadata["name"], metadata["namespace"])
    request = claim["spec"]["devices"]["requests"][0]["name"]
    result = {
        "request": request,
        "driver": "gpu.example.com",
        "pool": "n1",
        "device": device,
        "tolerations": list(tolerations),
    }
    reserved = [user or {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}]
    await world.client.update_status(
        RESOURCE_CLAIMS,
        {**claim, "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}},
    )


def going(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def state(rule: Json) -> tuple[str, str, str]:
    """Status, reason and message of its condition."""
    conditions = (rule.get("status") or {}).get("conditions") or [{}]
    return conditions[0].get("status", ""), conditions[0].get("reason", ""), conditions[0].get("message", "")


async def evicted(world: World, *names: str) -> list[Json]:
    return [await world.until(PODS, f"ns/{name}", going) for name in names]


async def message_of(world: World, reason: str, name: str = "rule") -> str:
    """Return the rule's message as soon as it has that reason."""
    rule = await world.until(DEVICE_TAINT_RULES, name, lambda rule: state(rule)[1] == reason)
    return state(rule)[2]


async def events(world: World, count: int) -> list[str]:
    """Return the messages of the first events."""
    found: list[str] = []
    async with aclosing(world.client.watch(CORE_EVENTS, "ns", initial_events=True)) as batches:
        async for batch in batches:
            found.extend(event.object["message"] for event in batch if event.type == "ADDED")
            if len(found) >= count:
                break
    return found


def start(gates: str = RULES, release: str = "1.36") -> World:
    """Build a control plane with this component only."""
    return World(COMPONENT, gates=gates, release=release)


async def test_a_pod_on_a_tainted_device_gets_a_condition_and_is_deleted() -> None:
    async with start() as world:
        await world.create(RESOURCE_SLICES, with_taints("n1", 1, taint()))
        await pods(world, "p")
        (pod,) = await evicted(world, "p")
        condition = pod["status"]["conditions"][-1]
        assert condition["type"] == "DisruptionTarget"
        assert "kube-controller-manager" in {entry["manager"] for entry in pod["metadata"]["managedFields"]}
        assert (condition["status"], condition["reason"]) == ("True", "DeletionByDeviceTaintManager")
        assert condition["message"] == "Device Taint manager: deleting due to NoExecute taint"
        assert await events(world, 1) == ["Marking for deletion"]
        await passes()
        assert world.manager.components[0].metrics[-2].value() == 1  # type: ignore[attr-defined]


async def test_what_is_tolerated_for_a_while_evicts_when_that_is_over() -> None:
    async with start() as world:
        await world.create(RESOURCE_SLICES, with_taints("n1", 1, taint()))
        await pods(world, "p", tolerations=({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},))
        await passes(299)
        assert not going(await world.client.get(PODS, "p", "ns"))
        await evicted(world, "p")
        assert (now() - parse_time(ADDED)).total_seconds() == 300


async def test_an_eviction_that_is_no_longer_due_is_cancelled_and_may_come_back() -> None:
    async with start() as world:
        tainted = await world.create(RESOURCE_SLICES, with_taints("n1", 1, taint()))
        await pods(world, "p", tolerations=({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},))
        await passes(1)
        await world.client.delete(RESOURCE_SLICES, tainted["metadata"]["name"])
        assert await events(world, 1) == ["Cancelling deletion"]
        await passes(300)
        assert not going(await world.client.get(PODS, "p", "ns"))
        await world.create(RESOURCE_SLICES, with_taints("n1", 1, taint()))
        await evicted(world, "p")
        assert await events(world, 2) == ["Cancelling deletion", "Marking for deletion"]


async def test_a_rule_reports_pending_and_finished_evictions() -> None:
    async with start() as world:
        await world.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        await pods(world, "a", "b")
        await pods(world, "c", namespace="other")
        await world.create(DEVICE_TAINT_RULES, a_rule(driver="gpu.example.com"))
        assert await message_of(world, "PodsPendingEviction") == "3 pods need to be evicted in 2 different namespaces."
        await evicted(world, "a", "b")
        assert await message_of(world, "Completed") == "3 pods evicted since starting the controller."
        rule = await world.client.get(DEVICE_TAINT_RULES, "rule")
        (owner,) = [entry for entry in rule["metadata"]["managedFields"] if entry.get("subresource") == "status"]
        assert (owner["manager"], owner["operation"]) == (COMPONENT, "Apply")


async def test_a_rule_without_effect_reports_its_simulation_once() -> None:
    async with start() as world:
        await world.create(RESOURCE_SLICES, with_taints("n1", 3))
        await pods(world, "p")
        await world.create(DEVICE_TAINT_RULES, a_rule(effect="None", pool="n1"))
        devices = "3 published devices selected. 1 allocated device selected."
        assert (
            await message_of(world, "NoEffect")
            == f"{devices} 1 pod would be evicted in 1 namespace if the effect was NoExecute. {ONCE}"
        )
        before = await world.client.get(DEVICE_TAINT_RULES, "rule")
        await world.client.delete(PODS, "p", "ns")
        await passes(60)
        assert (await world.client.get(DEVICE_TAINT_RULES, "rule"))["metadata"]["resourceVersion"] == before[
            "metadata"
        ]["resourceVersion"]
        await world.create(DEVICE_TAINT_RULES, a_rule("keeps", "NoSchedule"))
        assert await message_of(world, "OtherEffect", "keeps") == "Eviction only happens for the NoExecute effect."


async def test_a_rule_that_selects_nothing_has_not_started() -> None:
    async with start() as world:
        await pods(world, "p")
        await world.create(DEVICE_TAINT_RULES, a_rule(device="another"))
        assert await message_of(world, "NotStarted") == ""


async def test_without_their_gate_rules_do_nothing() -> None:
    async with start(gates="") as world:
        await pods(world, "p")
        await world.create(DEVICE_TAINT_RULES, a_rule())
        await world.create(RESOURCE_SLICES, with_taints("n2", 1, taint()))
        await passes(60)
        assert not going(await world.client.get(PODS, "p", "ns"))
        assert state(await world.client.get(DEVICE_TAINT_RULES, "rule")) == ("", "", "")


async def test_rules_of_1_35_are_read_in_the_version_that_it_serves() -> None:
    async with start(gates="DRADeviceTaints=true,DRADeviceTaintRules=true", release="1.35") as world:
        await pods(world, "p")
        await world.create(DEVICE_TAINT_RULES, a_rule(version="v1alpha3"))
        await evicted(world, "p")
        assert await message_of(world, "Completed") == "1 pod evicted since starting the controller."


async def test_a_pod_of_the_same_name_that_came_since_is_left_alone() -> None:
    async with start() as world:
        (old,) = await pods(world, "p", scheduled=False)
        await world.client.delete(PODS, "p", "ns", grace_period=0)
        new = await world.create(PODS, make_pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "p"}]))
        await world.client.bind("ns", "p", new["metadata"]["uid"], "n1")
        await world.create(DEVICE_TAINT_RULES, a_rule())
        assert await message_of(world, "NotStarted") == ""
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert not going(await world.client.get(PODS, "p", "ns"))


async def test_members_of_a_group_go_when_they_use_the_claim_of_the_group() -> None:
    async with start(gates=f"{RULES},GenericWorkload=true,DRAWorkloadResourceClaims=true") as world:
        await world.create(RESOURCE_CLAIMS, make_claim("a"))
        entries = [{"name": "g", "resourceClaimName": "a"}]
        made = {}
        for name, used in (("a", entries), ("b", entries), ("idle", [])):
            made[name] = await world.create(
                PODS, make_pod(name, resourceClaims=used, schedulingGroup={"podGroupName": "group"})
            )
            await world.client.bind("ns", name, made[name]["metadata"]["uid"], "n1")
        await allocate(
            world, made["a"], "gpu-0", apiGroup="scheduling.k8s.io", resource="podgroups", name="group", uid="uid"
        )
        await world.create(DEVICE_TAINT_RULES, a_rule())
        await evicted(world, "a", "b")
        assert await message_of(world, "Completed") == "2 pods evicted since starting the controller."
        assert not going(await world.client.get(PODS, "idle", "ns"))


async def test_a_pod_that_is_gone_before_its_time_is_not_spoken_of() -> None:
    async with start() as world:
        await world.create(RESOURCE_SLICES, with_taints("n1", 2, taint()))
        await pods(world, "p", tolerations=({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},))
        await passes(1)
        await world.client.delete(PODS, "p", "ns", grace_period=0)
        await passes(300)
        await pods(world, "other")
        await evicted(world, "other")
        assert await events(world, 1) == ["Marking for deletion"]


Event = Callable[[World, Json], Awaitable[object]]
EVENTS: dict[str, Event] = {
    "slice": lambda world, pod: world.create(RESOURCE_SLICES, with_taints("n1", 1, taint())),
    "rule": lambda world, pod: world.create(DEVICE_TAINT_RULES, a_rule(driver="gpu.example.com")),
    "allocation": lambda world, pod: allocate(world, pod, "gpu-0"),
    "binding": lambda world, pod: world.client.bind("ns", "p", pod["metadata"]["uid"], "n1"),
}


async def test_the_order_of_events_does_not_matter() -> None:
    async with start() as world:
        for order in permutations(EVENTS):
            pod = await world.create(PODS, make_pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "p"}]))
            await world.create(RESOURCE_CLAIMS, make_claim("p"))
            for name in order:
                await EVENTS[name](world, pod)
                await passes()
            await evicted(world, "p")
            # Whether the slice or the rule was there first: with a slice alone the pod goes before the rule comes.
            if order[-1] == "rule":
                assert await message_of(world, "NotStarted") == ""
            else:
                assert await message_of(world, "Completed") == "1 pod evicted since starting the controller."
            assert await events(world, 1) == ["Marking for deletion"]
            await world.empty()
