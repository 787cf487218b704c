"""Writes docs/reference/kinds/<Kind>.md, pages for the kinds of resource.k8s.io and scheduling.k8s.io: schema, table of
gates, tables below.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apiserver.api.schema import Field, Struct, Type
    from apiserver.registry.resource import Resource, Version

DIRECTORY = Path(__file__).with_name("kinds")
GROUPS = ("resource.k8s.io", "scheduling.k8s.io")
_OWN = ("io.k8s.api.resource.", "io.k8s.api.scheduling.")
_HEAD = """\
# {kind}

Written by `python docs/reference/generate.py` from the schema; a test holds it current.

{doc}. {scope}; `kubectl` calls it `{plural}`.

| version | served in | without `--runtime-config` |
|---|---|---|
{versions}
Fields are those of {shown}.{flat} A *gate* is a feature gate that must be on when the field is first written (all of them,
where there are several): without it the field is dropped without an error, unless the stored object has it already (`/-/dropped` tells which were).
*Since* is the release that first had the gate; a
field without one is as old as its kind. Limits are those of validation: a list has at most so many items, a text so many bytes.

| field | type | default | limit | gate | since | meaning |
|---|---|---|---|---|---|---|
"""
_FLAT = {
    "ResourceClaim": " In v1beta1 a request has the fields of `exactly` itself.",
    "ResourceClaimTemplate": " In v1beta1 a request has the fields of `exactly` itself.",
    "ResourceSlice": " In v1beta1 a device has all but its name under `basic`.",
}
#: What is filled in, by type and field.
DEFAULTS = {
    "ExactDeviceRequest.allocationMode": "`ExactCount`",
    "ExactDeviceRequest.count": "1 with `ExactCount`",
    "DeviceSubRequest.allocationMode": "`ExactCount`",
    "DeviceSubRequest.count": "1 with `ExactCount`",
    "DeviceToleration.operator": "`Equal`",
    "DeviceTaint.timeAdded": "now",
    "NodeAllocatableResourceMapping.allocationMultiplier": "1",
    "ResourcePoolStatusRequestSpec.limit": "100",
    "PodGroupSpec.disruptionMode": "`Pod`",
    "PriorityClass.preemptionPolicy": "`PreemptLowerPriority`",
}


def limits() -> dict[str, str]:
    """Limits by type and field, from the constants that validation uses."""
    from apiserver.api.cel import MAX_EXPRESSION_LENGTH
    from apiserver.resources.devices import (
        bindingconditions,
        capacitypolicy,
        claimstatus,
        names,
        poolstatus,
        slicevalidation,
        taintrules,
    )
    from apiserver.resources.devices import claimvalidation as claim
    from apiserver.resources.devices import devicevalidation as device
    from apiserver.resources.priorityclasses import HIGHEST
    from apiserver.resources.scheduling import groupvalidation as groups

    found: dict[str, int | str] = {
        "DeviceClaim.requests": claim.REQUESTS_LIMIT,
        "DeviceClaim.constraints": claim.CONSTRAINTS_LIMIT,
        "DeviceClaim.config": claim.CONFIG_LIMIT,
        "DeviceRequest.firstAvailable": claim.ALTERNATIVES_LIMIT,
        "ExactDeviceRequest.selectors": claim.SELECTORS_LIMIT,
        "DeviceSubRequest.selectors": claim.SELECTORS_LIMIT,
        "CELDeviceSelector.expression": MAX_EXPRESSION_LENGTH,
        "DeviceConstraint.requests": claim.REQUESTS_LIMIT,
        "DeviceClaimConfiguration.requests": claim.REQUESTS_LIMIT,
        "DeviceAllocationConfiguration.requests": claim.REQUESTS_LIMIT,
        "OpaqueDeviceConfiguration.driver": names.DRIVER_LIMIT,
        "OpaqueDeviceConfiguration.parameters": claim.PARAMETERS_LIMIT,
        "DeviceClassSpec.selectors": claim.SELECTORS_LIMIT,
        "DeviceClassSpec.config": claim.CONFIG_LIMIT,
        "ResourceClaimStatus.reservedFor": claimstatus.RESERVED_FOR_LIMIT,
        "DeviceAllocationResult.results": claim.REQUESTS_LIMIT,
        "DeviceAllocationResult.config": 2 * claim.CONFIG_LIMIT,
        "DeviceRequestAllocationResult.driver": names.DRIVER_LIMIT,
        "DeviceRequestAllocationResult.pool": names.POOL_LIMIT,
        "DeviceRequestAllocationResult.bindingConditions": bindingconditions.LIMIT,
        "DeviceRequestAllocationResult.bindingFailureConditions": bindingconditions.LIMIT,
        "AllocatedDeviceStatus.driver": names.DRIVER_LIMIT,
        "AllocatedDeviceStatus.pool": names.POOL_LIMIT,
        "AllocatedDeviceStatus.conditions": claimstatus.CONDITIONS_LIMIT,
        "AllocatedDeviceStatus.data": claimstatus.DATA_LIMIT,
        "NetworkDeviceData.interfaceName": claimstatus.INTERFACE_NAME_LIMIT,
        "NetworkDeviceData.ips": claimstatus.IPS_LIMIT,
        "NetworkDeviceData.hardwareAddress": claimstatus.HARDWARE_ADDRESS_LIMIT,
        "ResourceSliceSpec.driver": names.DRIVER_LIMIT,
        "ResourcePool.name": names.POOL_LIMIT,
        "ResourcePool.resourceSliceCount": "at least 1",
        "ResourceSliceSpec.devices": (
            f"{slicevalidation.DEVICES_LIMIT}; {slicevalidation.ADVANCED_DEVICES_LIMIT} with taints, counters or lists"
            " as attributes"
        ),
        "ResourceSliceSpec.sharedCounters": slicevalidation.COUNTER_SETS_LIMIT,
        "Device.attributes": f"{device.PROPERTIES_LIMIT} with capacity",
        "Device.capacity": f"{device.PROPERTIES_LIMIT} with attributes",
        "Device.taints": device.TAINTS_LIMIT,
        "Device.consumesCounters": device.CONSUMPTIONS_LIMIT,
        "Device.bindingConditions": bindingconditions.LIMIT,
        "Device.bindingFailureConditions": bindingconditions.LIMIT,
        "CounterSet.counters": device.COUNTERS_LIMIT,
        "DeviceCounterConsumption.counters": device.COUNTERS_LIMIT,
        "DeviceAttribute.string": device.TEXT_LIMIT,
        "DeviceAttribute.version": device.TEXT_LIMIT,
        "CapacityRequestPolicy.validValues": capacitypolicy.VALUES_LIMIT,
        **{
            f"DeviceAttribute.{name}": f"{device.VALUES_LIMIT} values in a device"
            for name in ("ints", "bools", "strings", "versions")
        },
        "DeviceTaintRuleStatus.conditions": taintrules.CONDITIONS_LIMIT,
        "DeviceTaintSelector.driver": names.DRIVER_LIMIT,
        "DeviceTaintSelector.pool": names.POOL_LIMIT,
        "ResourcePoolStatusRequestSpec.limit": f"1 to {poolstatus.LIMIT_MOST}",
        "ResourcePoolStatusRequestSpec.poolName": poolstatus.POOL_NAME_LIMIT,
        "ResourcePoolStatusRequestStatus.pools": poolstatus.POOLS_LIMIT,
        "ResourcePoolStatusRequestStatus.conditions": poolstatus.CONDITIONS_LIMIT,
        "PoolStatus.poolName": poolstatus.POOL_NAME_LIMIT,
        "PoolStatus.validationError": poolstatus.ERROR_LIMIT,
        "WorkloadSpec.podGroupTemplates": groups.TEMPLATES_LIMIT,
        "GangSchedulingPolicy.minCount": "at least 1",
        "PodGroupSchedulingConstraints.topology": groups.TOPOLOGY_LIMIT,
        "PodGroupStatus.resourceClaimStatuses": groups.CLAIMS_LIMIT,
        "PriorityClass.value": f"at most {HIGHEST}",
        **{f"{owner}.resourceClaims": groups.CLAIMS_LIMIT for owner in ("PodGroupSpec", "PodGroupTemplate")},
        **{f"{owner}.priority": f"at most {groups.PRIORITY_LIMIT}" for owner in ("PodGroupSpec", "PodGroupTemplate")},
    }
    return {name: str(limit) for name, limit in found.items()}


def resources() -> list[Resource]:
    from apiserver.resources import CATALOG

    return [resource for resource in CATALOG if resource.group in GROUPS]


def pages() -> dict[str, str]:
    """Pages by file name."""
    return {f"{resource.kind}.md": _page(resource) for resource in resources()}


def _page(resource: Resource) -> str:
    known = limits()
    schema = resource.versions[0].schema
    versions = "".join(
        f"| {v.name} | {_span(_since_gate(resource, v), v.removed)} | {_by_default(resource, v)} |\n"
        for v in resource.versions
    )
    head = _HEAD.format(
        kind=resource.kind,
        doc=schema.doc.rstrip("."),
        scope="It lives in a namespace" if resource.namespaced else "It belongs to the whole cluster",
        plural=resource.plural,
        versions=versions,
        shown=resource.versions[0].name,
        flat=_FLAT.get(resource.kind, ""),
    )
    return head + "".join(_row(path, owner, item, known) for path, owner, item in fields(schema))


def _since_gate(resource: Resource, version: Version) -> tuple[int, int]:
    from apiserver.api.features import GATES

    return max(version.introduced, GATES[resource.gate].stages[0][0]) if resource.gate else version.introduced


def _by_default(resource: Resource, version: Version) -> str:
    if version.on_by_default:
        return "served"
    return f"not served; needs the gate `{resource.gate}` as well" if resource.gate else "not served"


def _span(first: tuple[int, int], removed: tuple[int, int] | None) -> str:
    since = "1.33" if first <= (1, 33) else f"{first[0]}.{first[1]}"
    return f"{since} to {removed[0]}.{removed[1] - 1}" if removed else f"{since} and later"


def fields(struct: Struct, at: str = "") -> Iterator[tuple[str, Struct, Field]]:
    """Every field below a type with its path and the type it is declared in, but those of metadata and of other groups'
    types.
    """
    for item in struct.declared:
        if item.inline or item.name in ("kind", "apiVersion", "metadata"):
            if item.inline and item.name == "" and _inner(item.type) is not None:
                yield from fields(_inner(item.type) or struct, at)
            continue
        path = f"{at}{item.name}{_suffix(item.type)}"
        yield path, struct, item
        inner = _inner(item.type)
        if inner is not None:
            yield from fields(inner, f"{path}.")


def _suffix(type: Type) -> str:
    from apiserver.api.schema import ListOf, MapOf

    return "[]" if isinstance(type, ListOf) else "{}" if isinstance(type, MapOf) else ""


def _inner(type: Type) -> Struct | None:
    """The type of this group that a field holds, directly or as items."""
    from apiserver.api.schema import ListOf, MapOf, Struct

    held = type.item if isinstance(type, ListOf) else type.value if isinstance(type, MapOf) else type
    return held if isinstance(held, Struct) and held.name.startswith(_OWN) else None


def _type(type: Type) -> str:
    from apiserver.api.schema import ListOf, MapOf, Struct

    if isinstance(type, ListOf):
        return f"list of {_type(type.item)}"
    if isinstance(type, MapOf):
        return f"map to {_type(type.value)}"
    if isinstance(type, Struct):
        return "object" if type.name.startswith(_OWN) else type.kind
    return {"raw": "JSON object", "bool": "boolean"}.get(type.name, type.name)


def _row(path: str, owner: Struct, item: Field, known: dict[str, str]) -> str:
    name = f"{owner.kind}.{item.name}"
    required = " (required)" if item.required else ""
    gates = item.gate.gates if item.gate is not None else ()
    note = _note(item)
    cells = [
        f"`{path}`",
        _type(item.type) + required,
        DEFAULTS.get(name, ""),
        known.get(name, ""),
        ", ".join(gates) + note,
        _since(gates),
        item.doc,
    ]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _note(item: Field) -> str:
    """How a gate is another than most."""
    from apiserver.api.features import OWN_GATES

    if item.gate is None:
        return ""
    if OWN_GATES.intersection(item.gate.gates):
        return " (kubedra's own: unknown without it)"
    return " (never dropped)" if item.gate.scope == "never" else ""


def _since(gates: tuple[str, ...]) -> str:
    from apiserver.api.features import GATES

    releases = [GATES[gate].stages[0][0] for gate in gates if gate in GATES]
    return "{}.{}".format(*max(releases)) if releases else ""
