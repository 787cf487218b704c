"""Devices with binding conditions."""

from __future__ import annotations

import asyncio

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import EVENTS, RESOURCE_CLAIMS
from controllers.scheduler.config.configuration import parse
from tests.scheduler.situations import priority_class
from tests.scheduler.test_configuration import document, profile
from tests.scheduler.world import World, scheduled, scheduler_world
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice

CONDITIONS: Json = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
ON_FIRST: Json = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}


async def prepare(world: World) -> Json:
    """Create a pod whose claim gets a device that is not ready. Return the claim."""
    await world.add(make_node("n1"), make_device_class(), make_slice("n1", 1, **CONDITIONS), make_claim("c"))
    await world.add(make_pod("p", requests={"cpu": "1"}, claims={"g": "c"}))
    return await world.until(RESOURCE_CLAIMS, "ns/c", lambda claim: claim.get("status", {}).get("allocation"))


async def report(world: World, claim: Json, condition: str) -> None:
    """Set a condition of the device as its driver would."""
    when = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": condition, "status": "True", "reason": "R", "message": "M", **when}]
    device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "conditions": conditions}
    await world.client.update_status(RESOURCE_CLAIMS, {**claim, "status": {**claim["status"], "devices": [device]}})


async def test_the_pod_is_bound_once_its_device_is_ready() -> None:
    async with World("scheduler") as world:
        claim = await prepare(world)
        [result] = claim["status"]["allocation"]["devices"]["results"]
        assert {name: result[name] for name in CONDITIONS} == CONDITIONS
        pending = await first_event(world, "BindingConditionsPending")
        assert pending["note"] == "waiting for binding conditions for device on node n1"
        assert not (await world.pod("p"))["spec"].get("nodeName")
        await report(world, claim, "ready")
        assert await world.node_of("p") == "n1"


async def test_a_failed_device_fails_the_attempt_and_is_deallocated_for_the_next() -> None:
    async with World("scheduler") as world:
        claim = await prepare(world)
        await report(world, claim, "broken")
        message = await world.unschedulable("p")
        assert message == (
            'running PreBind plugin "DynamicResources": device binding failed: claim=c, reason=R, message="M"'
        )
        assert scheduled(await world.pod("p"))["reason"] == "SchedulerError"
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda c: not c.get("status", {}).get("allocation"))
        claim = await world.until(RESOURCE_CLAIMS, "ns/c", lambda c: c.get("status", {}).get("allocation"))
        await report(world, claim, "ready")
        await world.bound("p")


async def test_a_device_that_is_not_ready_in_ten_minutes_is_deallocated() -> None:
    async with World("scheduler") as world:
        await prepare(world)
        message = await world.unschedulable("p", within=601)
        assert message.startswith('running PreBind plugin "DynamicResources": device binding timeout: ')
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda c: not c.get("status", {}).get("allocation"))


@pytest.mark.parametrize("seconds", [3, 5, 12])
async def test_the_binding_timeout_can_be_configured(seconds: int) -> None:
    given = parse(document(profile(None, DynamicResources={"bindingTimeout": f"{seconds}s"})))
    async with World("scheduler", configuration=given) as world:
        await prepare(world)
        began = asyncio.get_running_loop().time()
        assert "device binding timeout: context deadline exceeded" in await world.unschedulable("p")
        assert asyncio.get_running_loop().time() - began == pytest.approx(seconds, abs=0.1)


async def test_a_pod_waiting_for_its_device_is_preempted_without_being_deleted() -> None:
    async with scheduler_world(priority_class("high", 100)) as world:
        claim = await prepare(world)
        await world.add(make_pod("high", requests={"cpu": "4"}, priorityClassName="high", **ON_FIRST))
        assert await world.node_of("high") == "n1"
        preempted = await first_event(world, "Preempted")
        assert preempted["regarding"]["name"] == "p"
        assert preempted["note"].endswith(" on node n1 (in kube-scheduler memory).")
        message = await world.unschedulable("p")
        assert message == 'running PreBind plugin "DynamicResources": context canceled'
        # The claim keeps its device until the pod finds a node that does not reach it.
        await world.add(make_node("n2"), make_slice("n2", 1))
        assert await world.node_of("p") == "n2"
        left = await world.claim("c")
        assert left["metadata"]["uid"] == claim["metadata"]["uid"]
        assert [result["pool"] for result in left["status"]["allocation"]["devices"]["results"]] == ["n2"]


async def first_event(world: World, reason: str) -> Json:
    async for batch in world.client.watch(EVENTS, "ns", initial_events=True):
        for event in batch:
            if event.object.get("reason") == reason:
                return event.object
    raise AssertionError("the watch ended")
