"""Fields that a disabled gate drops, unless the stored object uses the feature already (api.md 5.2, 5.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from apiserver.registry.context import Context
from apiserver.resources.gating import Rule, drop, rule

__all__ = [
    "CLAIM_RULES",
    "CLASS_RULES",
    "SLICE_RULES",
    "STATUS_RULES",
    "drop_from_claim_spec",
    "drop_from_claim_status",
    "drop_from_class",
    "drop_from_slice",
    "uses_admin_access",
]

Json = dict[str, Any]

_LISTS: Final = ("bools", "ints", "strings", "versions")


def _requests(spec: Json) -> list[Json]:
    return (spec.get("devices") or {}).get("requests") or []


def _ways(spec: Json) -> Iterator[Json]:
    """Every way in which a request can be satisfied."""
    for request in _requests(spec):
        if request.get("exactly") is not None:
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def _uses_alternatives(spec: Json) -> bool:
    return any(request.get("firstAvailable") for request in _requests(spec))


def _uses_tolerations(spec: Json) -> bool:
    return any(way.get("tolerations") for way in _ways(spec))


def uses_admin_access(spec: Json) -> bool:
    return any((request.get("exactly") or {}).get("adminAccess") is not None for request in _requests(spec))


def _uses_capacity(spec: Json) -> bool:
    constraints = (spec.get("devices") or {}).get("constraints") or ()
    return any(c.get("distinctAttribute") is not None for c in constraints) or any(
        way.get("capacity") is not None for way in _ways(spec)
    )


#: Of a claim's or a template's spec.
CLAIM_RULES: Final[tuple[Rule, ...]] = (
    rule("DRAPrioritizedList", _uses_alternatives, "devices.requests[].firstAvailable"),
    rule(
        "DRADeviceTaints",
        _uses_tolerations,
        "devices.requests[].exactly.tolerations",
        "devices.requests[].firstAvailable[].tolerations",
    ),
    rule("DRAAdminAccess", uses_admin_access, "devices.requests[].exactly.adminAccess"),
    rule(
        "DRAConsumableCapacity",
        _uses_capacity,
        "devices.constraints[].distinctAttribute",
        "devices.requests[].exactly.capacity",
        "devices.requests[].firstAvailable[].capacity",
    ),
    rule("DRAReservedForWorkloads", lambda spec: spec.get("reservedFor") is not None, "reservedFor"),
)


def drop_from_claim_spec(ctx: Context, spec: Json, old: Json | None, at: str = "spec") -> None:
    """Changes a claim's (or a template's) new spec in place."""
    drop(ctx, CLAIM_RULES, spec, at, old or {})


def _results(status: Json) -> list[Json]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def _any_result(status: Json, *fields: str) -> bool:
    return any(result.get(field) is not None for result in _results(status) for field in fields)


def _shares(status: Json, spec: Json) -> bool:
    if _uses_capacity(spec) or _any_result(status, "shareID", "consumedCapacity"):
        return True
    return any(device.get("shareID") is not None for device in status.get("devices") or ())


def _waits(status: Json, spec: Json) -> bool:
    return any(result.get("bindingConditions") or result.get("bindingFailureConditions") for result in _results(status))


def _for_any_pod(status: Json, spec: Json) -> bool:
    return (status.get("allocation") or {}).get("reservedForAnyPod") is not None


_RESULTS: Final = "allocation.devices.results[]."
#: Of a claim's status; asked about the stored status and the spec.
STATUS_RULES: Final[tuple[Rule, ...]] = (
    rule("DRAResourceClaimDeviceStatus", lambda status, spec: bool(status.get("devices")), "devices"),
    rule(
        "DRAAdminAccess",
        lambda status, spec: uses_admin_access(spec) or _any_result(status, "adminAccess"),
        _RESULTS + "adminAccess",
    ),
    rule("DRAConsumableCapacity", _shares, _RESULTS + "shareID", _RESULTS + "consumedCapacity", "devices[].shareID"),
    rule("DRADeviceBindingConditions", _waits, _RESULTS + "bindingConditions", _RESULTS + "bindingFailureConditions"),
    rule("DRAReservedForWorkloads", _for_any_pod, "allocation.reservedForAnyPod"),
)


def drop_from_claim_status(ctx: Context, obj: Json, old: Json) -> None:
    """Changes a claim's new status in place."""
    drop(ctx, STATUS_RULES, obj["status"], "status", old.get("status") or {}, old["spec"])


def _devices(spec: Json) -> list[Json]:
    return spec.get("devices") or []


def _any_device(spec: Json, *fields: str) -> bool:
    return any(device.get(field) not in (None, [], {}) for device in _devices(spec) for field in fields)


_PARTITION_FIELDS: Final = ("consumesCounters", "nodeName", "nodeSelector", "allNodes")
_BINDING_FIELDS: Final = ("bindingConditions", "bindingFailureConditions", "bindsToNode")


def _uses_partitions(spec: Json) -> bool:
    return (
        bool(spec.get("sharedCounters"))
        or spec.get("perDeviceNodeSelection") is not None
        or _any_device(spec, *_PARTITION_FIELDS)
    )


def _uses_sharing(spec: Json) -> bool:
    return any(
        device.get("allowMultipleAllocations") is not None
        or any(capacity.get("requestPolicy") is not None for capacity in (device.get("capacity") or {}).values())
        for device in _devices(spec)
    )


def _uses_lists(spec: Json) -> bool:
    return any(
        name in attribute
        for device in _devices(spec)
        for attribute in (device.get("attributes") or {}).values()
        for name in _LISTS
    )


def _of_devices(*fields: str) -> tuple[str, ...]:
    return tuple(f"devices[].{field}" for field in fields)


#: Of a slice's spec.
SLICE_RULES: Final[tuple[Rule, ...]] = (
    rule("DRADeviceTaints", lambda spec: _any_device(spec, "taints"), "devices[].taints"),
    rule(
        "DRAPartitionableDevices",
        _uses_partitions,
        "sharedCounters",
        "perDeviceNodeSelection",
        *_of_devices(*_PARTITION_FIELDS),
    ),
    rule(
        "DRADeviceBindingConditions,DRAResourceClaimDeviceStatus",
        lambda spec: _any_device(spec, *_BINDING_FIELDS),
        *_of_devices(*_BINDING_FIELDS),
    ),
    rule(
        "DRAConsumableCapacity",
        _uses_sharing,
        "devices[].allowMultipleAllocations",
        "devices[].capacity{}.requestPolicy",
    ),
    rule(
        "DRANodeAllocatableResources",
        lambda spec: _any_device(spec, "nodeAllocatableResourceMappings"),
        "devices[].nodeAllocatableResourceMappings",
    ),
    rule("DRAListTypeAttributes", _uses_lists, *_of_devices(*(f"attributes{{}}.{name}" for name in _LISTS))),
)


def drop_from_slice(ctx: Context, spec: Json, old: Json | None) -> None:
    """Changes a slice's new spec in place."""
    drop(ctx, SLICE_RULES, spec, "spec", old or {})


#: Of a class's spec.
CLASS_RULES: Final[tuple[Rule, ...]] = (
    rule("DRAExtendedResource", lambda spec: spec.get("extendedResourceName") is not None, "extendedResourceName"),
)  # fmt: skip


def drop_from_class(ctx: Context, spec: Json, old: Json | None) -> None:
    drop(ctx, CLASS_RULES, spec, "spec", old or {})
