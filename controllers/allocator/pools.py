"""Resource pools of a node: generations, completeness, validity, order.

Invariants
- Only the newest generation among the slices relevant to the node counts. If it is not the whole pool, all slices of
  the pool are checked: a newer generation elsewhere hides the pool, missing slices make it incomplete.
- An incomplete or invalid pool has no usable devices but is listed, because it makes requests for all devices fail.
- Order: pools without devices that have binding conditions first, then by driver and pool name; slices by name.

Source of facts: Kubernetes 1.36,
staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from apiserver.api.selectors.node_selectors import InvalidNodeSelector, NodeSelector
from controllers.allocator.devices import Counter, Device, NodeSelection, PoolID, Slice

Status = Literal["usable", "incomplete", "invalid"]


class NodeMatcher:
    """Matches node selections against one node. Each selector is matched once."""

    def __init__(self, name: str, labels: dict[str, str], parse: Callable[[Any], NodeSelector]) -> None:
        self.name = name
        self.labels = labels
        self._parse = parse
        self._known: dict[int, bool] = {}

    def matches(self, selection: NodeSelection) -> bool:
        """Return whether the selection includes the node. Raise ValueError for an invalid selector."""
        if selection.node_name:
            return selection.node_name == self.name
        if selection.all_nodes or selection.selector is None:
            return selection.all_nodes
        key = id(selection.selector)
        known = self._known.get(key)
        if known is None:
            try:
                known = self._parse(selection.selector).matches(self.labels, self.name)
            except InvalidNodeSelector as error:
                raise ValueError(f"failed to parse node selector {selection.selector}: {error}") from error
            self._known[key] = known
        return known


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool from the perspective of one node."""

    id: PoolID
    status: Status
    reason: str = ""
    slices: tuple[Slice, ...] = ()
    """The slices with devices for the node, by name."""
    elsewhere: tuple[Slice, ...] = ()
    """Slices of other nodes, relevant only for their consumption of counters."""
    counters: dict[Counter, int] = field(default_factory=dict)

    @property
    def has_binding_conditions(self) -> bool:
        """True if a device has the field bindingConditions, even if empty."""
        return any(d.raw.get("bindingConditions") is not None for s in self.slices for d in s.devices)

    def __str__(self) -> str:
        return f"{self.id[0]}/{self.id[1]}"


class GatherError(Exception):
    """A slice cannot be evaluated; no claim can be allocated on the node."""


def concerns(item: Slice, node: NodeMatcher, partitionable: bool) -> bool:
    """Return whether a slice is relevant to the node. Raise GatherError."""
    if not partitionable and (item.per_device_set or item.counter_sets):
        return False
    if item.counter_sets:
        return True
    try:
        if item.node_selection.known:
            return node.matches(item.node_selection)
    except ValueError as error:
        raise GatherError(f"failed to perform node selection for slice {item.name}: {error}") from error
    return item.per_device and any(_device_matches(device, node) for device in item.devices)


def _device_matches(device: Device, node: NodeMatcher) -> bool:
    try:
        return node.matches(device.node_selection)
    except ValueError as error:
        text = f"failed to perform node selection for device {device.raw} in slice {device.slice.name}: {error}"
        raise GatherError(text) from error


def gather(relevant: Iterable[Slice], members: Callable[[PoolID], Sequence[Slice]], partitionable: bool) -> list[Pool]:
    """Return the pools of a node in allocation order.

    `relevant` are the slices relevant to the node. `members` returns all slices of a pool, of any generation.
    """
    newest: dict[PoolID, list[Slice]] = {}
    for item in relevant:
        slices = newest.get(item.pool_id)
        if slices is None or item.generation > slices[0].generation:
            newest[item.pool_id] = [item]
        elif item.generation == slices[0].generation:
            slices.append(item)
    pools = [pool for key, slices in newest.items() if (pool := _pool(key, slices, members, partitionable)) is not None]
    return sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id))


def _pool(
    key: PoolID, slices: list[Slice], members: Callable[[PoolID], Sequence[Slice]], partitionable: bool
) -> Pool | None:
    everything = slices
    if len(slices) != slices[0].count:
        generation = slices[0].generation
        if any(item.generation > generation for item in members(key)):
            return None
        everything = [item for item in members(key) if item.generation == generation]
        if len(everything) != slices[0].count:
            return Pool(key, "incomplete", f"{len(everything)} of {slices[0].count} slices exist")
    slices = sorted(slices, key=lambda item: item.name)
    if not partitionable:
        problem = _duplicate_device(slices)
        return Pool(key, "invalid", problem) if problem else Pool(key, "usable", slices=tuple(slices))
    return _partitionable(key, slices, everything)


def _partitionable(key: PoolID, slices: list[Slice], everything: list[Slice]) -> Pool:
    with_devices = [item for item in slices if not item.counter_sets]
    names = {item.name for item in slices}
    elsewhere = [item for item in everything if item.name not in names] if len(slices) != len(everything) else []
    sets: dict[str, dict[str, int]] = {}
    problem = (
        _duplicate_device(with_devices)
        or _collect_counters(slices, sets)
        or _unknown_counter(slices, sets)
        or _unknown_counter(elsewhere, sets)
    )
    if problem:
        return Pool(key, "invalid", problem)
    counters = {(name, counter): value for name, values in sets.items() for counter, value in values.items()}
    return Pool(key, "usable", "", tuple(with_devices), tuple(elsewhere), counters)


def _duplicate_device(slices: list[Slice]) -> str:
    seen = set()
    for item in slices:
        for device in item.devices:
            if device.id in seen:
                return f"duplicate device name {device.id[2]}"
            seen.add(device.id)
    return ""


def _collect_counters(slices: list[Slice], sets: dict[str, dict[str, int]]) -> str:
    for item in slices:
        for name, values in item.counter_sets:
            if name in sets:
                return f"duplicate counter set name {name}"
            sets[name] = values
    return ""


def _unknown_counter(slices: Sequence[Slice], sets: dict[str, dict[str, int]]) -> str:
    for item in slices:
        for device in item.devices:
            for name in device.counter_sets:
                if name not in sets:
                    return f"counter set {name} not found"
            for (name, counter), _ in device.consumes:
                if counter not in sets[name]:
                    return f"counter {counter} not found in counter set {name}"
    return ""
