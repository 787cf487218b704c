"""Devices that consume allocatable resources of their node (gate DRANodeAllocatableResources)."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.helpers.pod_requests import CLAIM_STATUSES
from apiserver.api.objects import Json
from controllers.runtime.kinds import PODS
from tests.scheduler.situations import priority_class
from tests.scheduler.test_failing_writes import fails, faults
from tests.scheduler.world import scheduler_world
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_request, make_slice
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

GATE = "DRANodeAllocatableResources=true"
TWO_CORES = {"cpu": {"allocationMultiplier": "2"}}
PART_OF_MEMORY = {"memory": {"capacityKey": "bytes", "allocationMultiplier": "0.5"}}
LACKS = "0/1 nodes are available: 1 Insufficient cpu."
USELESS = "still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def device_node(mappings: Json = TWO_CORES, devices: int = 3, **device: Any) -> tuple[Json, ...]:
    """Build a node of four cores with devices that consume some of its resources, and a claim."""
    item = make_slice("n", devices, nodeAllocatableResourceMappings=mappings, **device)
    return make_device_class(), make_node("n", cpu="4", memory="8Gi"), item, make_claim("c")


def using(name: str, claim: str, cpu: str = "500m", *, named: bool = True, **spec: Any) -> Json:
    """Build a pod with a claim. Its container uses the claim unless `named` is false."""
    if named:
        return make_pod(name, requests={"cpu": cpu}, claims={"g": claim}, **spec)
    return make_pod(name, requests={"cpu": cpu}, resourceClaims=[{"name": "g", "resourceClaimName": claim}], **spec)


def taken(pod: Json) -> Any:
    """Return the node resources that claims of the pod consume."""
    return pod["status"].get(CLAIM_STATUSES)


async def test_resources_of_a_claim_count_on_the_node_and_are_in_the_status_of_the_pod() -> None:
    async with scheduler_world(*device_node(), using("p", "c", "1"), gates=GATE) as world:
        status = {"resourceClaimName": "c", "containers": ["c"], "resources": {"cpu": "2"}}
        assert taken(await world.bound("p")) == [status]
        # One of four cores is left, for pods without claims as well.
        await world.add(make_pod("q", requests={"cpu": "1500m"}))
        assert (await world.unschedulable("q")).startswith(LACKS)
        await world.add(make_pod("r", requests={"cpu": "1"}))
        await world.bound("r")
        await world.add(make_claim("d"), using("s", "d", "100m"))
        assert (await world.unschedulable("s")).startswith(LACKS)
        for name in ("q", "p"):
            await world.client.delete(PODS, name, "ns", grace_period=0)
        # As upstream, that does not wake the pod. It is retried after five minutes.
        await passes(400)
        assert (await world.pod("s"))["spec"].get("nodeName") == "n"


async def test_a_consumed_capacity_counts_with_its_multiplier() -> None:
    capacity = {"bytes": {"value": "100Gi"}}
    node = device_node(PART_OF_MEMORY, 1, capacity=capacity, allowMultipleAllocations=True)
    async with scheduler_world(*node, gates=GATE) as world:
        for name, wanted in (("a", "6Gi"), ("b", "10Gi"), ("d", "1Gi")):
            await world.add(make_claim(name, requests=[make_request(capacity={"requests": {"bytes": wanted}})]))
        await world.add(using("p", "a"))
        assert taken(await world.bound("p"))[0]["resources"] == {"memory": "3Gi"}
        await world.add(using("q", "b"))
        await world.bound("q")
        await world.add(using("r", "d"))
        assert (await world.unschedulable("r")).startswith("0/1 nodes are available: 1 Insufficient memory.")


async def test_a_capacity_of_an_exclusive_device_is_not_consumed() -> None:
    node = device_node(PART_OF_MEMORY, capacity={"bytes": {"value": "1Gi"}})
    async with scheduler_world(*node, using("p", "c"), gates=GATE) as world:
        assert await world.unschedulable("p") == (
            'running "DynamicResources" filter plugin: claim ns/c, device gpu-0: ConsumedCapacity is nil, but Capacity'
            " key 'bytes' is set in NodeAllocatableResourceMappings for resource memory"
        )


async def test_such_a_claim_needs_a_container_and_serves_one_pod() -> None:
    async with scheduler_world(*device_node(), using("p", "c", named=False), gates=GATE) as world:
        assert await world.unschedulable("p") == (
            "0/1 nodes are available: 1 claim c: node-allocatable resource claim not referenced by any container"
            f" within the pod. {USELESS}"
        )
        await world.add(using("q", "c"))
        await world.bound("q")
        await world.add(using("r", "c"))
        assert await world.unschedulable("r") == (
            f"0/1 nodes are available: 1 node allocatable resource claim c is already used by another pod. {USELESS}"
        )


@pytest.mark.parametrize(("cpu", "fits"), [("2500m", True), ("2499m", False)])
async def test_a_pod_level_request_must_cover_its_claims(cpu: str, fits: bool) -> None:
    pod = using("p", "c", "500m", resources={"requests": {"cpu": cpu}})
    async with scheduler_world(*device_node(), pod, gates=GATE) as world:
        if fits:
            await world.bound("p")
            # Its pod-level request counts, and no more.
            await world.add(make_pod("q", requests={"cpu": "1500m"}))
            await world.bound("q")
        else:
            text = "pod level request for cpu is insufficient to cover the aggregated container and"
            assert text in await world.unschedulable("p")


@pytest.mark.parametrize(("devices", "helps"), [(1, True), (2, False)])
async def test_preemption_frees_resources_for_claims_where_that_helps(devices: int, helps: bool) -> None:
    classes = priority_class("low", 1), priority_class("high", 2)
    async with scheduler_world(*device_node(), *classes, gates=GATE) as world:
        await world.add(make_pod("p", requests={"cpu": "3"}, priorityClassName="low"))
        await world.bound("p")
        await world.add(make_claim("d", count=devices), using("q", "d", priorityClassName="high"))
        text = await world.unschedulable("q")
        assert text.startswith(LACKS)
        assert ("Preemption is not helpful" not in text) is helps
        await passes(5)
        ending = (await world.pod("p"))["metadata"].get("deletionTimestamp")
        assert bool(ending) is helps


async def test_a_failed_binding_releases_the_resources_of_claims() -> None:
    async with scheduler_world(*device_node(), gates=GATE) as world:
        rules = faults(world, fails("create", "pods/binding"))
        await world.add(using("p", "c", "1"))
        await world.until(PODS, "ns/p", taken)
        await world.until(PODS, "ns/p", lambda pod: not taken(pod))
        assert rules.rules()[0].fired == 1
        await world.add(make_pod("q", requests={"cpu": "3500m"}))
        await world.bound("q")


async def test_resources_of_claims_count_before_they_are_written() -> None:
    device_class, node, item, claim = device_node()
    async with scheduler_world(device_class, item, claim, gates=GATE) as world:
        await world.add(using("p", "c", "1"), make_pod("q", requests={"cpu": "1500m"}))
        await passes(1)
        # Both pods are tried when their node comes, one directly after the other.
        await world.add(node)
        await passes(5)
        assert len([pod for pod in await world.items(PODS) if pod["spec"].get("nodeName")]) == 1


async def test_without_the_gate_devices_are_devices() -> None:
    off = {"DRANodeAllocatableResources": False}
    pod = using("p", "c", "1", named=False)
    async with scheduler_world(*device_node(), pod, gates=GATE, component_gates=off) as world:
        assert taken(await world.bound("p")) is None
        await world.add(make_pod("q", requests={"cpu": "3"}))
        await world.bound("q")
