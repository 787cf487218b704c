"""Devices that have to become ready before their pod is bound; time is virtual."""

from __future__ import annotations

import asyncio

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import EVENTS, RESOURCE_CLAIMS
from tests.scheduler.situations import priority_class
from tests.scheduler.test_configuration import document, parse, profile
from tests.scheduler.world import World, scheduled
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice

CONDITIONS = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


ON_FIRST: Json = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}


async def prepare(world: World) -> Json:
    """A pod whose claim is allocated to a device that is not ready; the claim."""
    await world.add(make_node("n1"), make_device_class(), make_slice("n1", 1, **CONDITIONS), make_claim("c"))
    requests = {"cpu": "1"}
    await world.add(make_pod("p", requests=requests, claims={"g": "c"}))
    return await world.until(RESOURCE_CLAIMS, "ns/c", lambda claim: claim.get("status", {}).get("allocation"))


async def report(world: World, claim: Json, condition: str) -> None:
    """What the driver says of the device."""
    stamp = "2026-01-01T00:00:00Z"
    said = {"type": condition, "status": "True", "reason": "R", "message": "M", "lastTransitionTime": stamp}
    device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "conditions": [said]}
    await world.client.update_status(RESOURCE_CLAIMS, {**claim, "status": {**claim["status"], "devices": [device]}})


async def test_the_pod_is_bound_when_its_device_is_ready_and_waits_until_then() -> None:
    async with World("scheduler") as world:
        claim = await prepare(world)
        [result] = claim["status"]["allocation"]["devices"]["results"]
        assert {name: result[name] for name in CONDITIONS} == CONDITIONS
        pending = await first_event(world, "BindingConditionsPending")
        assert pending["note"] == "waiting for binding conditions for device on node n1"
        assert not (await world.pod("p"))["spec"].get("nodeName")
        await report(world, claim, "ready")
        pod = await world.bound("p")
        assert pod["spec"]["nodeName"] == "n1"


async def test_a_device_that_fails_makes_the_attempt_fail_and_is_given_up_for_another_try() -> None:
    async with World("scheduler") as world:
        claim = await prepare(world)
        await report(world, claim, "broken")
        message = await world.unschedulable("p")
        assert message == (
            'running PreBind plugin "DynamicResources": device binding failed: claim=c, reason=R, message="M"'
        )
        pod = await world.pod("p")
        assert scheduled(pod)["reason"] == "SchedulerError"
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda c: not c.get("status", {}).get("allocation"))
        claim = await world.until(RESOURCE_CLAIMS, "ns/c", lambda c: c.get("status", {}).get("allocation"))
        await report(world, claim, "ready")
        await world.bound("p")


async def test_a_device_that_is_not_ready_in_ten_minutes_is_given_up() -> None:
    async with World("scheduler") as world:
        await prepare(world)
        message = await world.unschedulable("p", within=601)
        assert message.startswith('running PreBind plugin "DynamicResources": device binding timeout: ')
        await world.until(RESOURCE_CLAIMS, "ns/c", lambda c: not c.get("status", {}).get("allocation"))


@pytest.mark.parametrize("seconds", [3, 5, 12])
async def test_a_device_has_the_whole_of_the_time_that_is_given(seconds: int) -> None:
    given = parse(document(profile(None, DynamicResources={"bindingTimeout": f"{seconds}s"})))
    async with World("scheduler", configuration=given) as world:
        await prepare(world)
        began = asyncio.get_running_loop().time()
        assert "device binding timeout: context deadline exceeded" in await world.unschedulable("p")
        assert asyncio.get_running_loop().time() - began == pytest.approx(seconds, abs=0.1)


async def test_a_pod_that_waits_for_its_device_is_not_deleted_for_a_more_important_one_but_goes_elsewhere() -> None:
    async with World("scheduler") as world:
        await world.add(priority_class("high", 100))
        claim = await prepare(world)
        await world.add(make_pod("high", requests={"cpu": "4"}, priorityClassName="high", **ON_FIRST))
        assert await world.node_of("high") == "n1"
        preempted = await first_event(world, "Preempted")
        assert preempted["regarding"]["name"] == "p"
        assert preempted["note"].endswith(" on node n1 (in kube-scheduler memory).")
        message = await world.unschedulable("p")
        assert message == 'running PreBind plugin "DynamicResources": context canceled'
        # Its device stays its own until it finds a node for which it is not good.
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
