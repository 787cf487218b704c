"""ResourceSlices and devices, compiled once on arrival for the allocator.

Invariants
- Nothing here depends on a node, an allocation or a request.
- The API objects are never modified; `raw` refers to them.

Source of facts: the resource.k8s.io/v1 API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from controllers.allocator.amounts import nanos
from controllers.allocator.capacity import capacity_key

DeviceID = tuple[str, str, str]
"""Driver, pool, device."""

PoolID = tuple[str, str]
"""Driver, pool."""

Counter = tuple[str, str]
"""Counter set, counter."""

Object = dict[str, Any]
"""A Kubernetes object in its JSON form."""

_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
_SCALARS: Final = frozenset({"string", "int", "bool"})
_VERSION: Final = re.compile(r"(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})(-[a-zA-Z][0-9A-Za-z]*)?")


class Device:
    """One device of one slice."""

    __slots__ = (
        "_content",
        "attributes",
        "binds",
        "capacity",
        "capacity_key",
        "conditions",
        "consumes",
        "counter_sets",
        "driver",
        "expression_view",
        "id",
        "multiple",
        "node_selection",
        "plain",
        "raw",
        "slice",
        "taints",
    )

    def __init__(self, raw: Object, owner: Slice) -> None:
        self.raw = raw
        self.slice = owner
        self.driver = owner.driver
        self.id: DeviceID = (owner.driver, owner.pool, raw["name"])
        self.attributes: Mapping[str, Any] = raw.get("attributes") or {}
        self.capacity: Mapping[str, Any] = raw.get("capacity") or {}
        self.capacity_key = capacity_key(self.capacity)
        self.multiple: bool = bool(raw.get("allowMultipleAllocations"))
        self.conditions: list[str] = raw.get("bindingConditions") or []
        self.binds: bool = bool(raw.get("bindsToNode"))
        self.taints = tuple(
            (taint.get("key", ""), taint.get("value", ""), taint["effect"])
            for taint in raw.get("taints") or ()
            if taint.get("effect") in _BLOCKING
        )
        self.consumes: tuple[tuple[Counter, int], ...] = tuple(
            ((use["counterSet"], name), nanos(str(counter["value"])))
            for use in raw.get("consumesCounters") or ()
            for name, counter in (use.get("counters") or {}).items()
        )
        self.counter_sets: tuple[str, ...] = tuple(use["counterSet"] for use in raw.get("consumesCounters") or ())
        self.node_selection = NodeSelection(raw)
        self.plain = all(map(_is_plain, self.attributes.values()))
        self.expression_view: Any = None
        """The device as CEL value, cached by the evaluator."""
        self._content: str | None = None

    @property
    def content(self) -> str:
        """A key that is equal for devices indistinguishable by expressions."""
        if self._content is None:
            parts = (self.driver, self.attributes, self.capacity, self.raw.get("allowMultipleAllocations"))
            self._content = json.dumps(parts, sort_keys=True)
        return self._content

    def attribute(self, name: str) -> Mapping[str, Any] | None:
        """Return an attribute by its qualified name. The driver's own attributes may be listed without domain."""
        found: Mapping[str, Any] | None = self.attributes.get(name)
        if found is None:
            domain, slash, identifier = name.partition("/")
            if slash and domain == self.driver:
                found = self.attributes.get(identifier)
        return found


def _is_plain(attribute: Mapping[str, Any]) -> bool:
    """Return whether the attribute is well-formed, so that its presence cannot make an expression fail."""
    if len(attribute) != 1:
        return False
    [(kind, value)] = attribute.items()
    if kind in _SCALARS:
        return value is not None
    return kind == "version" and isinstance(value, str) and _VERSION.fullmatch(value) is not None


class NodeSelection:
    """The node selection fields of a slice or device."""

    __slots__ = ("all_nodes", "node_name", "selector")

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.node_name: str | None = spec.get("nodeName")
        self.all_nodes: bool = bool(spec.get("allNodes"))
        self.selector: Object | None = spec.get("nodeSelector")

    @property
    def key(self) -> str:
        """A key that is equal for equal selections."""
        return json.dumps((self.node_name, self.all_nodes, self.selector), sort_keys=True)

    @property
    def known(self) -> bool:
        """True if any of the fields is set."""
        return bool(self.node_name) or self.all_nodes or self.selector is not None


class Slice:
    """One ResourceSlice."""

    __slots__ = (
        "count",
        "counter_sets",
        "devices",
        "driver",
        "generation",
        "name",
        "node_selection",
        "per_device",
        "per_device_set",
        "pool",
        "raw",
    )

    def __init__(self, raw: Object) -> None:
        spec = raw["spec"]
        pool = spec["pool"]
        self.raw = raw
        self.name: str = raw["metadata"]["name"]
        self.driver: str = spec["driver"]
        self.pool: str = pool["name"]
        self.generation: int = pool.get("generation") or 0
        self.count: int = pool.get("resourceSliceCount") or 0
        self.node_selection = NodeSelection(spec)
        self.per_device: bool = bool(spec.get("perDeviceNodeSelection"))
        self.per_device_set: bool = spec.get("perDeviceNodeSelection") is not None
        self.counter_sets: list[tuple[str, dict[str, int]]] = [
            (item["name"], {name: nanos(str(c["value"])) for name, c in (item.get("counters") or {}).items()})
            for item in spec.get("sharedCounters") or ()
        ]
        self.devices = [Device(device, self) for device in spec.get("devices") or ()]

    @property
    def pool_id(self) -> PoolID:
        """Driver and pool."""
        return (self.driver, self.pool)

    @property
    def selections(self) -> list[NodeSelection]:
        """The node selections of the slice and its devices that distinguish nodes."""
        if self.counter_sets:
            return []
        own = [] if self.node_selection.all_nodes or not self.node_selection.known else [self.node_selection]
        return own + ([device.node_selection for device in self.devices] if self.per_device else [])

    @property
    def local_node(self) -> str | None:
        """The only node that can use the slice, if any. Slices with counters concern every node."""
        return None if self.counter_sets else self.node_selection.node_name or None
