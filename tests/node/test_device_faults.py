"""Faults of devices and drivers by annotations of a node, and slices that other clients changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import CORE_EVENTS, NODES, PODS, RESOURCE_SLICES
from tests.scheduler.world import World
from tests.support.objects import (
    make_annotations,
    make_claim,
    make_device_class,
    make_emulated_node,
    make_pod,
    make_request,
)
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

DRIVER = "gpu.example.com"


class Cluster(World):
    """One node with two GPUs."""

    def __init__(self, **annotations: str) -> None:
        super().__init__("scheduler", "resourceclaim-controller", "node-lifecycle-controller", "node-agent")
        self._annotations = annotations

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self.add(make_device_class(selectors=[{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]))
        await self.create(NODES, make_emulated_node("n1", devices="2", **self._annotations))
        await self.until(NODES, "n1", is_ready)
        while not await self.slices():
            await passes()
        return self

    async def annotate(self, **values: Any) -> None:
        """Set annotations of the node; None removes one."""
        await self.client.patch(NODES, "n1", {"metadata": {"annotations": make_annotations(**values)}}, type="merge")

    async def until_devices(self, holds: Callable[[list[Json]], bool]) -> None:
        """Wait until the condition holds for the devices of the slice."""
        name = (await self.slices())[0]["metadata"]["name"]
        await self.until(RESOURCE_SLICES, name, lambda item: holds(item["spec"].get("devices") or []))

    async def add_pod(self, name: str = "p", device: str = "") -> None:
        index = device.removeprefix("gpu-")
        selectors = [{"cel": {"expression": f"device.attributes['{DRIVER}'].index == {index}"}}] if device else []
        await self.add(make_claim(name, requests=[make_request(selectors=selectors)]))
        await self.add(make_pod(name, claims={"gpu": name}))

    async def running(self, name: str = "p") -> Json:
        return await self.until(PODS, f"ns/{name}", lambda pod: pod["status"].get("phase") == "Running")

    async def failure(self) -> str:
        """Return the message of the failed preparation."""
        await passes(5)
        events = await self.items(CORE_EVENTS)
        return next(str(e["message"]) for e in events if e["reason"] == "FailedPrepareDynamicResources")

    async def slices(self) -> list[Json]:
        return await self.items(RESOURCE_SLICES, "")


def is_ready(node: Json) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))


def names(devices: list[Json]) -> list[str]:
    return [device["name"] for device in devices]


async def test_a_changed_or_deleted_slice_is_restored() -> None:
    async with Cluster() as world:
        (made,) = await world.slices()
        spec = {**made["spec"], "devices": made["spec"]["devices"][:1]}
        await world.client.update(RESOURCE_SLICES, {**made, "spec": spec})
        await passes()
        (found,) = await world.slices()
        assert names(found["spec"]["devices"]) == ["gpu-0", "gpu-1"]
        await world.client.delete(RESOURCE_SLICES, made["metadata"]["name"])
        await passes()
        (found,) = await world.slices()
        assert names(found["spec"]["devices"]) == ["gpu-0", "gpu-1"]


async def test_a_taint_of_another_client_stays_while_those_of_the_node_change() -> None:
    async with Cluster(tainted_devices="gpu-0=own:NoSchedule") as world:
        (made,) = await world.slices()
        first, second = made["spec"]["devices"]
        first["taints"].append({"key": "theirs", "effect": "NoSchedule"})
        await world.client.update(RESOURCE_SLICES, made)
        since = []
        for own in ("gpu-1=own:NoSchedule", None):
            await passes(100)
            await world.annotate(tainted_devices=own)
            await passes()
            (found,) = await world.slices()
            first, second = found["spec"]["devices"]
            assert [taint["key"] for taint in first["taints"]] == ["theirs"]
            since.append(first["taints"][0]["timeAdded"])
            assert [taint["key"] for taint in second.get("taints", ())] == (["own"] if own else [])
        assert since[0] == since[1]


async def test_devices_are_lost_and_tainted_and_restored() -> None:
    async with Cluster(lost_devices="gpu-0") as world:
        await world.until_devices(lambda devices: names(devices) == ["gpu-1"])
        await world.annotate(lost_devices=None, tainted_devices=f"{DRIVER}/gpu-1=hot=very:NoExecute, gpu-0=odd")

        def tainted(devices: list[Json]) -> bool:
            found = {d["name"]: [(t["key"], t["value"], t["effect"]) for t in d.get("taints", ())] for d in devices}
            return found == {"gpu-0": [], "gpu-1": [("hot", "very", "NoExecute")]}

        await world.until_devices(tainted)
        await world.annotate(tainted_devices=None)
        await world.until_devices(lambda devices: len(devices) == 2 and not any("taints" in d for d in devices))


@pytest.mark.parametrize(
    ("marks", "text"),
    [
        ({"prepare_error": "no such device"}, "NodePrepareResources failed for ResourceClaim p: no such device"),
        ({"missing_drivers": DRIVER}, f"DRA driver {DRIVER} is not registered"),
    ],
)
async def test_a_failed_preparation_is_retried_when_the_fault_is_removed(marks: dict[str, str], text: str) -> None:
    async with Cluster(**marks) as world:
        await world.add_pod()
        assert (await world.failure()).endswith(text)
        await world.annotate(**dict.fromkeys(marks))
        await world.running()


async def test_a_fault_of_a_device_fails_only_its_claim() -> None:
    async with Cluster(prepare_error="broken", prepare_error_devices="gpu-1") as world:
        await world.add_pod("bad", "gpu-1")
        await world.add_pod("good", "gpu-0")
        await world.running("good")
        assert (await world.failure()).endswith("for ResourceClaim bad: broken")
        assert (await world.pod("bad"))["status"]["phase"] == "Pending"


async def test_a_slow_driver_delays_its_pod_and_a_busy_one_keeps_it() -> None:
    async with Cluster(prepare_takes="20s", unprepare_error="busy") as world:
        await world.add_pod()
        pod = await world.running()
        began = pod["status"]["startTime"][-4:-1], pod["status"]["containerStatuses"][0]["state"]["running"]
        assert (int(began[1]["startedAt"][-3:-1]) - int(began[0][1:])) % 60 == 20
        await world.client.delete(PODS, "p", "ns")
        await world.until(PODS, "ns/p", lambda obj: "terminated" in obj["status"]["containerStatuses"][0]["state"])
        assert (await world.pod("p"))["metadata"]["deletionTimestamp"]
        await world.annotate(unprepare_error=None)
        await passes()
        assert not await world.items(PODS)


async def test_the_health_of_devices_is_reported_once_the_annotation_exists() -> None:
    async with Cluster() as world:
        await world.add_pod(device="gpu-1")
        assert "allocatedResourcesStatus" not in (await world.running())["status"]["containerStatuses"][0]

        def health(pod: Json) -> list[tuple[str, str | None]]:
            (entry,) = pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus") or [{}]
            return [(item["health"], item.get("message")) for item in entry.get("resources", ())]

        for unhealthy, expected in (("gpu-1=too hot", ("Unhealthy", "too hot")), ("gpu-0", ("Healthy", None))):
            await world.annotate(unhealthy_devices=unhealthy)
            await world.until(PODS, "ns/p", lambda pod, expected=expected: health(pod) == [expected])  # type: ignore[misc]
