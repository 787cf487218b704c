"""Fields of disabled features: dropped, unless the stored object uses the feature already."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.objects import Json


def claim(request: Json, **devices: Any) -> Json:
    return {"spec": {"devices": {"requests": [{"name": "r", **request}], **devices}}}


def slice_of(device: Json, **spec: Any) -> Json:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"spec": {"driver": "d", "pool": pool, "nodeName": "n", "devices": [{"name": "d0", **device}], **spec}}


EXACTLY: Json = {"deviceClassName": "c"}
TAINT: Json = {"key": "a", "effect": "NoSchedule", "timeAdded": "2020-01-01T00:00:00Z"}
#: gate · resource · object with the field · object without it
CASES = [
    ("DRAPrioritizedList", "resourceclaims", claim({"firstAvailable": [{"name": "s", **EXACTLY}]}), claim({})),
    (
        "DRADeviceTaints",
        "resourceclaims",
        claim({"exactly": {**EXACTLY, "tolerations": [{"operator": "Exists"}]}}),
        claim({"exactly": EXACTLY}),
    ),
    (
        "DRAConsumableCapacity",
        "resourceclaims",
        claim({"exactly": {**EXACTLY, "capacity": {"requests": {"m": "1"}}}}),
        claim({"exactly": EXACTLY}),
    ),
    (
        "DRAConsumableCapacity",
        "resourceclaims",
        claim({"exactly": EXACTLY}, constraints=[{"distinctAttribute": "a/b"}]),
        claim({"exactly": EXACTLY}, constraints=[{}]),
    ),
    ("DRADeviceTaints", "resourceslices", slice_of({"taints": [TAINT]}), slice_of({})),
    (
        "DRAPartitionableDevices",
        "resourceslices",
        slice_of({"consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1"}}}]}),
        slice_of({}),
    ),
    ("DRAPartitionableDevices", "resourceslices", slice_of({}, perDeviceNodeSelection=True), slice_of({})),
    (
        "DRADeviceBindingConditions",
        "resourceslices",
        slice_of({"bindingConditions": ["a"], "bindingFailureConditions": ["b"], "bindsToNode": True}),
        slice_of({}),
    ),
    ("DRAConsumableCapacity", "resourceslices", slice_of({"allowMultipleAllocations": True}), slice_of({})),
    (
        "DRAConsumableCapacity",
        "resourceslices",
        slice_of({"capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}}),
        slice_of({"capacity": {"m": {"value": "1"}}}),
    ),
    (
        "DRANodeAllocatableResources",
        "resourceslices",
        slice_of({"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "2"}}}),
        slice_of({}),
    ),
    (
        "DRAListTypeAttributes",
        "resourceslices",
        slice_of({"attributes": {"a": {"ints": [1]}}}),
        slice_of({"attributes": {"a": {}}}),
    ),
    ("DRAExtendedResource", "deviceclasses", {"spec": {"extendedResourceName": "example.com/gpu"}}, {"spec": {}}),
]
NAMES = [f"{gate}-{plural}-{index}" for index, (gate, plural, _, _) in enumerate(CASES)]


@pytest.mark.parametrize(("gate", "plural", "used", "unused"), CASES, ids=NAMES)
def test_a_disabled_gate_drops_its_fields_on_create(
    judge_with: Any, gate: str, plural: str, used: Json, unused: Json
) -> None:
    on, off = judge_with(**{gate: True}), judge_with(**{gate: False, **_dependent(gate)})
    assert off.create(plural, used)[0]["spec"] == on.create(plural, unused)[0]["spec"]
    assert on.create(plural, used)[0]["spec"] != on.create(plural, unused)[0]["spec"]


@pytest.mark.parametrize(("gate", "plural", "used", "unused"), CASES, ids=NAMES)
def test_what_the_stored_object_uses_is_kept_on_update(
    judge_with: Any, gate: str, plural: str, used: Json, unused: Json
) -> None:
    on, off = judge_with(**{gate: True}), judge_with(**{gate: False, **_dependent(gate)})
    stored = on.create(plural, used)[0]
    assert off.update(plural, deepcopy(stored), used)[0]["spec"] == stored["spec"]
    plain = on.create(plural, unused)[0]
    assert off.update(plural, deepcopy(plain), used)[0]["spec"] == plain["spec"]


def _dependent(gate: str) -> dict[str, bool]:
    """Return the gates that depend on this one."""
    return {"DRADeviceTaintRules": False} if gate == "DRADeviceTaints" else {}


def test_admin_access_is_dropped_before_the_gate_existed(judge_with: Any) -> None:
    judge = judge_with((1, 34), DRAAdminAccess=False)
    stored = judge.create_valid("resourceclaims", claim({"exactly": {**EXACTLY, "adminAccess": True}}))
    assert "adminAccess" not in stored["spec"]["devices"]["requests"][0]["exactly"]


@pytest.mark.parametrize(
    ("gate", "result"),
    [
        ("DRAConsumableCapacity", {"shareID": "5a1d1a5c-0000-4000-8000-000000000001", "consumedCapacity": {"m": "1"}}),
        ("DRADeviceBindingConditions", {"bindingConditions": ["a"], "bindingFailureConditions": ["b"]}),
    ],
)
def test_a_disabled_gate_drops_its_fields_of_the_status(judge_with: Any, gate: str, result: Json) -> None:
    on, off = judge_with(), judge_with(**{gate: False})
    plain = on.create("resourceclaims", claim({"exactly": EXACTLY}))[0]
    base = {"request": "r", "driver": "d", "pool": "p", "device": "x"}
    wanted = {**plain, "status": {"allocation": {"devices": {"results": [{**base, **result}]}}}}
    stored = on.update("resourceclaims", deepcopy(plain), wanted, status=True)[0]
    assert stored["status"]["allocation"]["devices"]["results"][0] == {**base, **result}
    dropped = off.update("resourceclaims", deepcopy(plain), wanted, status=True)[0]
    assert dropped["status"]["allocation"]["devices"]["results"][0] == base
    kept = off.update("resourceclaims", deepcopy(stored), wanted, status=True)[0]
    assert kept["status"] == stored["status"]


def test_reported_devices_are_dropped_without_their_gate(judge_with: Any) -> None:
    off = judge_with(
        DRAResourceClaimDeviceStatus=False, DRADeviceBindingConditions=False,
        DRAResourceClaimGranularStatusAuthorization=False,
    )  # fmt: skip
    plain = off.create("resourceclaims", claim({"exactly": EXACTLY}))[0]
    base = {"driver": "d", "pool": "p", "device": "x"}
    status = {"allocation": {"devices": {"results": [{"request": "r", **base}]}}, "devices": [base]}
    assert "devices" not in off.update_status("resourceclaims", plain, status)[0]["status"]


def test_health_of_devices_in_pods_is_gated(judge_with: Any) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
    health = {"name": "cpu", "resources": [{"resourceID": "x", "health": "Healthy", "message": "m"}]}
    reported = {**pod, "status": {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [health]}]}}
    off = judge_with(ResourceHealthStatus=False, ResourceHealthStatusMessage=False)
    plain = off.create("pods", pod)[0]
    (status,) = off.update("pods", plain, reported, status=True)[0]["status"]["containerStatuses"]
    assert "allocatedResourcesStatus" not in status
    on = judge_with()
    (status,) = on.update("pods", on.create("pods", pod)[0], reported, status=True)[0]["status"]["containerStatuses"]
    assert status["allocatedResourcesStatus"] == [health]
