"""What annotations of a node say is wrong with its devices and drivers, and slices that somebody changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import CORE_EVENTS, DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.scheduler.world import World
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

DRIVER = "gpu.example.com"
MARK = "kubedra.dev"
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}


def make_node(**marks: str) -> Json:
    annotations = {f"{MARK}/emulated": "true", f"{MARK}/devices": "2"}
    annotations |= {f"{MARK}/{name.replace('_', '-')}": value for name, value in marks.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": annotations}}


class Cluster(World):
    """One node with two GPUs."""

    def __init__(self) -> None:
        super().__init__("scheduler", "resourceclaim-controller", "node-lifecycle-controller", "node-agent")

    async def begin(self, **marks: str) -> None:
        await self.create(DEVICE_CLASSES, CLASS)
        await self.create(NODES, make_node(**marks))
        await self.until(NODES, "n1", lambda node: not node["spec"].get("taints"))

    async def mark(self, **marks: str | None) -> None:
        """Annotations of the node; None takes one away."""
        said = {f"{MARK}/{name.replace('_', '-')}": value for name, value in marks.items()}
        await self.client.patch(NODES, "n1", {"metadata": {"annotations": said}}, type="merge")

    async def devices(self, wanted: Callable[[list[Json]], bool]) -> None:
        """Returns once there is one slice whose devices are as wanted."""
        name = (await self.slices())[0]["metadata"]["name"]
        await self.until(RESOURCE_SLICES, name, lambda item: wanted(item["spec"].get("devices") or []))

    async def pod(self, name: str = "p", device: str = "") -> None:
        request: Json = {"deviceClassName": "gpu"}
        if device:
            index = device.removeprefix("gpu-")
            expression = f"device.attributes['{DRIVER}'].index == {index}"
            request["selectors"] = [{"cel": {"expression": expression}}]
        spec = {"devices": {"requests": [{"name": "r", "exactly": request}]}}
        meta = {"name": name, "namespace": "ns"}
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec}
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
        entry = {"name": "gpu", "resourceClaimName": name}
        body = {"containers": [container], "resourceClaims": [entry]}
        await self.create(RESOURCE_CLAIMS, claim)
        await self.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body})

    async def running(self, name: str = "p") -> Json:
        return await self.until(PODS, f"ns/{name}", lambda pod: pod["status"].get("phase") == "Running")

    async def refused(self) -> str:
        """Why the preparation failed."""
        await passes(5)
        events = (await self.client.list(CORE_EVENTS))["items"]
        return next(str(e["message"]) for e in events if e["reason"] == "FailedPrepareDynamicResources")

    async def slices(self) -> list[Json]:
        found: list[Json] = (await self.client.list(RESOURCE_SLICES))["items"]
        return found


def names(devices: list[Json]) -> list[str]:
    return [device["name"] for device in devices]


async def test_a_slice_that_was_changed_or_deleted_comes_back_whole() -> None:
    async with Cluster() as world:
        await world.begin()
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


async def test_a_taint_that_somebody_set_stays_while_the_node_s_own_come_and_go() -> None:
    async with Cluster() as world:
        await world.begin(tainted_devices="gpu-0=own:NoSchedule")
        (made,) = await world.slices()
        first, second = made["spec"]["devices"]
        first["taints"].append({"key": "theirs", "effect": "NoSchedule"})
        await world.client.update(RESOURCE_SLICES, made)
        since = []
        for own in ("gpu-1=own:NoSchedule", None):
            await passes(100)
            await world.mark(tainted_devices=own)
            await passes()
            (found,) = await world.slices()
            first, second = found["spec"]["devices"]
            assert [taint["key"] for taint in first["taints"]] == ["theirs"]
            since.append(first["taints"][0]["timeAdded"])
            assert [taint["key"] for taint in second.get("taints", ())] == (["own"] if own else [])
        assert since[0] == since[1]


async def test_devices_are_lost_and_tainted_and_come_back() -> None:
    async with Cluster() as world:
        await world.begin(lost_devices="gpu-0")
        await world.devices(lambda devices: names(devices) == ["gpu-1"])
        await world.mark(lost_devices=None, tainted_devices=f"{DRIVER}/gpu-1=hot=very:NoExecute, gpu-0=odd")

        def tainted(devices: list[Json]) -> bool:
            found = {d["name"]: [(t["key"], t["value"], t["effect"]) for t in d.get("taints", ())] for d in devices}
            return found == {"gpu-0": [], "gpu-1": [("hot", "very", "NoExecute")]}

        await world.devices(tainted)
        await world.mark(tainted_devices=None)
        await world.devices(lambda devices: len(devices) == 2 and not any("taints" in d for d in devices))


@pytest.mark.parametrize(
    ("marks", "text"),
    [
        ({"prepare_error": "no such device"}, "NodePrepareResources failed for ResourceClaim p: no such device"),
        ({"missing_drivers": DRIVER}, f"DRA driver {DRIVER} is not registered"),
    ],
)
async def test_a_preparation_that_fails_is_tried_again_when_the_fault_is_gone(marks: dict[str, str], text: str) -> None:
    async with Cluster() as world:
        await world.begin(**marks)
        await world.pod()
        assert (await world.refused()).endswith(text)
        await world.mark(**dict.fromkeys(marks))
        await world.running()


async def test_a_claim_fails_alone_where_the_fault_is_of_its_device() -> None:
    async with Cluster() as world:
        await world.begin(prepare_error="broken", prepare_error_devices="gpu-1")
        await world.pod("bad", "gpu-1")
        await world.pod("good", "gpu-0")
        await world.running("good")
        assert (await world.refused()).endswith("for ResourceClaim bad: broken")
        assert (await world.client.get(PODS, "bad", "ns"))["status"]["phase"] == "Pending"


async def test_a_slow_driver_holds_up_its_pod_and_one_that_does_not_release_keeps_it() -> None:
    async with Cluster() as world:
        await world.begin(prepare_takes="20s", unprepare_error="busy")
        await world.pod()
        pod = await world.running()
        began = pod["status"]["startTime"][-4:-1], pod["status"]["containerStatuses"][0]["state"]["running"]
        assert (int(began[1]["startedAt"][-3:-1]) - int(began[0][1:])) % 60 == 20
        await world.client.delete(PODS, "p", "ns")
        await world.until(PODS, "ns/p", lambda obj: "terminated" in obj["status"]["containerStatuses"][0]["state"])
        assert (await world.client.get(PODS, "p", "ns"))["metadata"]["deletionTimestamp"]
        await world.mark(unprepare_error=None)
        await passes()
        assert not (await world.client.list(PODS))["items"]


async def test_the_health_of_devices_is_what_the_annotation_says_from_the_moment_that_it_is_there() -> None:
    async with Cluster() as world:
        await world.begin()
        await world.pod(device="gpu-1")
        assert "allocatedResourcesStatus" not in (await world.running())["status"]["containerStatuses"][0]

        async def becomes(said: str, *wanted: str) -> None:
            def shown(pod: Json) -> bool:
                (entry,) = pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus") or [{}]
                return [
                    value for item in entry.get("resources", ()) for value in (item["health"], item.get("message"))
                ] == list(wanted)

            await world.mark(unhealthy_devices=said)
            await world.until(PODS, "ns/p", shown)

        await becomes("gpu-1=too hot", "Unhealthy", "too hot")
        await becomes("gpu-0", "Healthy", None)  # type: ignore[arg-type]
