"""The slices that a driver publishes, and the minimal changes that publish them. Pure: slices in, changes out.

Source of facts: Kubernetes 1.36, package dynamic-resource-allocation/resourceslice; texts are that release's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from kubedra.runtime.objects import Json

#: Maximum number of devices per slice, and the maximum if one of them has taints or counters.
MOST_DEVICES: Final = 128
MOST_WITH_TAINTS_OR_COUNTERS: Final = 64
_FIELDS: Final = ("nodeSelector", "allNodes", "devices", "sharedCounters", "perDeviceNodeSelection")


class PoolError(ValueError):
    """A pool is invalid and cannot be published."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The slices of one pool: mappings with `devices`, `sharedCounters`, `perDeviceNodeSelection`."""

    slices: Sequence[Mapping[str, Any]] = ()
    node_selector: Json | None = None
    all_nodes: bool = False
    generation: int = 0

    @staticmethod
    def of(devices: Iterable[Json]) -> Pool:
        """Return a pool of these devices, in as many slices as needed."""
        return Pool(tuple({"devices": part} for part in split(list(devices))))


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of slices. Slices of a Node are bound to that node."""

    name: str
    uid: str
    kind: str = "Node"
    api_version: str = "v1"

    @property
    def node(self) -> str:
        return self.name if (self.api_version, self.kind) == ("v1", "Node") else ""


@dataclass(slots=True)
class Plan:
    """The changes to make, in this order. Deletions have existing slices, the others whole objects."""

    deletes: list[Json] = field(default_factory=list)
    updates: list[Json] = field(default_factory=list)
    creates: list[Json] = field(default_factory=list)


def split(devices: list[Json]) -> list[list[Json]]:
    """Split devices into parts that fit a slice; at least one part."""
    limited = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    most = MOST_WITH_TAINTS_OR_COUNTERS if limited else MOST_DEVICES
    return [devices[at : at + most] for at in range(0, len(devices), most)] or [[]]


def check(pools: Mapping[str, Pool]) -> None:
    """Validate pools. Raises PoolError for the first error."""
    for name, pool in pools.items():
        counters: dict[str, set[str]] = {}
        for item in _all(pool, "sharedCounters"):
            if item["name"] in counters:
                raise PoolError(f'found duplicate counter set "{item["name"]}" in pool "{name}"')
            counters[item["name"]] = set(item.get("counters") or ())
        seen: set[str] = set()
        for device in _all(pool, "devices"):
            if device["name"] in seen:
                raise PoolError(f'found duplicate device "{device["name"]}" in pool "{name}"')
            seen.add(device["name"])
            _check_counters(device, counters)


def _check_counters(device: Json, counters: Mapping[str, set[str]]) -> None:
    for use in device.get("consumesCounters") or ():
        there = counters.get(use["counterSet"])
        if there is None:
            raise PoolError(f'counter set "{use["counterSet"]}" referenced by device "{device["name"]}" not found')
        for counter in use.get("counters") or ():
            if counter not in there:
                where = f'not found in counter set "{use["counterSet"]}"'
                raise PoolError(f'counter "{counter}" referenced by device "{device["name"]}" {where}')


def plan(driver: str, owner: Owner | None, name: str, pool: Pool | None, existing: Sequence[Json]) -> Plan:
    """Return the changes from the existing slices of one pool to those of `pool`; None deletes the pool.

    The name of a slice begins with its index in the pool, in hexadecimal. The generation is increased if more than one
    slice changes, so that no reader takes a partial update for the whole pool.
    """
    if pool is None:
        return Plan(deletes=list(existing))
    generation = max((item["spec"]["pool"].get("generation", 0) for item in existing), default=0)
    count, matched, result = len(pool.slices), {}, Plan()
    for item in existing:
        index = _index(item["metadata"]["name"], count)
        old = item["spec"]["pool"].get("generation", 0) < generation
        if old or index is None or index in matched:
            result.deletes.append(item)
        else:
            matched[index] = item
    missing = [index for index in range(count) if index not in matched]
    changed = [index for index, item in sorted(matched.items()) if _differs(item, pool, index, generation)]
    if pool.generation > generation:
        new = pool.generation
    else:
        new = generation if not missing and len(changed) <= 1 else generation + 1
    for index in changed if new == generation else sorted(matched):
        item = matched[index]
        spec = {"driver": driver, **_scope(owner, pool), **_spec(name, pool, index, new, item)}
        result.updates.append({**item, "spec": spec})
    for index in missing:
        result.creates.append(_new_slice(driver, owner, name, pool, index, new))
    return result


def dropped_gates(sent: Json, stored: Json) -> str:
    """Return the gates whose fields the server dropped, or ""."""
    if all(_normalize(sent["spec"].get(name)) == _normalize(stored["spec"].get(name)) for name in _FIELDS[2:]):
        return ""
    names = []
    before, after = sent["spec"].get("devices") or (), stored["spec"].get("devices") or ()

    def is_lost(*fields: str) -> bool:
        return any(
            name in device and name not in kept for device, kept in zip(before, after, strict=False) for name in fields
        )

    if is_lost("taints"):
        names.append("DRADeviceTaints")
    spec = stored["spec"]
    removed = any(
        sent["spec"].get(name) and not spec.get(name) for name in ("sharedCounters", "perDeviceNodeSelection")
    )
    if removed or is_lost("consumesCounters", "nodeName", "nodeSelector", "allNodes"):
        names.append("DRAPartitionableDevices")
    if is_lost("bindsToNode", "bindingConditions", "bindingFailureConditions"):
        names.append("DRADeviceBindingConditions")
    if is_lost("allowMultipleAllocations"):
        names.append("DRAConsumableCapacity")
    return " ".join(names or ("unknown",))


def _all(pool: Pool, name: str) -> Iterator[Json]:
    return (item for part in pool.slices for item in part.get(name) or ())


def _digits(count: int) -> int:
    return max(5, len(f"{max(count - 1, 0):x}"))


def _index(name: str, count: int) -> int | None:
    """Return the index in a slice's name, or None if it is not below `count`."""
    prefix, dash, _ = name.partition("-")
    if not dash or len(prefix) != _digits(count) or not re.fullmatch("[0-9a-f]+", prefix):
        return None
    return index if (index := int(prefix, 16)) < count else None


def _differs(item: Json, pool: Pool, index: int, generation: int) -> bool:
    spec = item["spec"]
    desired = _spec(spec["pool"]["name"], pool, index, generation, item)
    return any(_normalize(spec.get(name)) != _normalize(desired.get(name)) for name in ("pool", *_FIELDS))


def _spec(name: str, pool: Pool, index: int, generation: int, existing: Json | None) -> Json:
    """Return the driver's part of a slice's spec. Existing times of taints are kept."""
    part = pool.slices[index]
    devices = [dict(device) for device in part.get("devices") or ()]
    known = {device["name"]: device for device in (existing or {}).get("spec", {}).get("devices") or ()}
    for device in devices:
        if device.get("taints"):
            before = known.get(device["name"], {}).get("taints") or ()
            device["taints"] = [_with_time(taint, before) for taint in device["taints"]]
    spec: Json = {
        "pool": {"name": name, "generation": generation, "resourceSliceCount": len(pool.slices)},
        "nodeSelector": pool.node_selector,
        "allNodes": pool.all_nodes or None,
        "devices": devices,
        "sharedCounters": part.get("sharedCounters"),
        "perDeviceNodeSelection": part.get("perDeviceNodeSelection"),
    }
    return {key: value for key, value in spec.items() if value not in (None, [])}


def _with_time(taint: Json, before: Iterable[Json]) -> Json:
    """Return a taint with its existing time, unless the driver sets a time that differs by more than 1 s."""
    for old in before:
        same = all(taint.get(name) == old.get(name) for name in ("key", "value", "effect"))
        if not same or "timeAdded" not in old:
            continue
        if "timeAdded" not in taint or abs(_seconds(taint["timeAdded"]) - _seconds(old["timeAdded"])) <= 1:
            return {**taint, "timeAdded": old["timeAdded"]}
    return taint


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _normalize(value: Any) -> Any:
    """Return a value for comparison, without empty and absent parts."""
    if isinstance(value, Mapping):
        normalized = ((key, _normalize(item)) for key, item in value.items())
        return {key: item for key, item in normalized if item not in (None, [], {})}
    return [_normalize(item) for item in value] if isinstance(value, list | tuple) else value


def _scope(owner: Owner | None, pool: Pool) -> Json:
    everywhere = pool.node_selector is not None or pool.all_nodes
    return {"nodeName": owner.node} if owner is not None and owner.node and not everywhere else {}


def _new_slice(driver: str, owner: Owner | None, name: str, pool: Pool, index: int, generation: int) -> Json:
    prefix = f"{index:0{_digits(len(pool.slices))}x}-{driver}-"
    meta: Json = {"generateName": f"{prefix}{owner.name}-" if owner is not None else prefix}
    if owner is not None:
        reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        meta["ownerReferences"] = [{**reference, "controller": True}]
    spec = {"driver": driver, **_scope(owner, pool), **_spec(name, pool, index, generation, None)}
    return {"metadata": meta, "spec": spec}
