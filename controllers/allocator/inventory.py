"""All slices and classes of the cluster, and the view of each node.

Invariants
- A changed slice invalidates only the views of nodes that can use its pool.
- Nodes without own slices that can use the same shared slices share one view.

Source of facts: Kubernetes 1.36,
staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, Final

from apiserver.api.selectors.node_selectors import NodeSelector
from controllers.allocator.devices import NodeSelection, Object, PoolID, Slice
from controllers.allocator.errors import AllocationError
from controllers.allocator.features import Features
from controllers.allocator.pools import GatherError, NodeMatcher, concerns, gather
from controllers.allocator.view import NodeView

_SHARED_VIEWS_KEPT: Final = 64
_SELECTORS_KEPT: Final = 4096


class _NodeEntry:
    """The cached view of one node."""

    __slots__ = ("error", "key", "signature", "signature_key", "view")

    def __init__(self) -> None:
        self.key: Any = None
        self.signature_key: Any = None
        self.signature: Any = None
        """Equal for nodes with the same shared slices; None for an invalid node selector."""
        self.view: NodeView | None = None
        self.error = ""


class Inventory:
    """Slices, classes and views, updated by `upsert_slice`, `remove_slice`, `upsert_class` and `remove_class`."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.classes: dict[str, Object] = {}
        self.class_revision = 0
        """Incremented with every change of a class."""
        self.slices: dict[str, Slice] = {}
        self.mapped: set[str] = set()
        """Names of slices with devices that represent node-allocatable resources."""
        self._shared: dict[str, Slice] = {}
        self._local: dict[str, dict[str, Slice]] = {}
        self._pools: dict[PoolID, dict[str, Slice]] = {}
        self._shared_revision = 0
        self._selections: dict[str, tuple[NodeSelection, int]] = {}
        """Distinct node selections of shared slices, with reference counts."""
        self._selections_revision = 0
        self._node_revisions: dict[str, int] = {}
        self._nodes: dict[str, _NodeEntry] = {}
        self._shared_views: OrderedDict[Any, NodeView] = OrderedDict()
        self._parsed: dict[str, NodeSelector] = {}
        self._parsed_by_identity: dict[int, tuple[Any, NodeSelector]] = {}

    def upsert_class(self, item: Object) -> None:
        """Add or update a DeviceClass."""
        self.classes[item["metadata"]["name"]] = item
        self.class_revision += 1

    def remove_class(self, name: str) -> None:
        """Remove a DeviceClass."""
        if self.classes.pop(name, None) is not None:
            self.class_revision += 1

    def upsert_slice(self, item: Object) -> None:
        """Add or update a ResourceSlice."""
        name = item["metadata"]["name"]
        previous = self.slices.get(name)
        if previous is not None and previous.raw is item:
            return
        compiled = Slice(item)
        touched = {compiled.pool_id}
        if previous is not None:
            touched.add(previous.pool_id)
            self._invalidate(touched)
            if previous.pool_id == compiled.pool_id and previous.local_node == compiled.local_node:
                self._count_selections(previous, -1)  # keep its position in the order of slices
            else:
                self._unlink(previous)
        self._link(compiled)
        self._invalidate(touched)

    def remove_slice(self, name: str) -> None:
        """Remove a ResourceSlice."""
        previous = self.slices.get(name)
        if previous is not None:
            self._invalidate({previous.pool_id})
            self._unlink(previous)

    def device(self, driver: str, pool: str, name: str) -> Object | None:
        """Return a device as published, or None."""
        for item in self._pools.get((driver, pool), {}).values():
            for device in item.raw["spec"].get("devices") or ():
                if device["name"] == name:
                    found: Object = device
                    return found
        return None

    def _link(self, item: Slice) -> None:
        self.slices[item.name] = item
        if any(device.get("nodeAllocatableResourceMappings") for device in item.raw["spec"].get("devices") or ()):
            self.mapped.add(item.name)
        else:
            self.mapped.discard(item.name)
        self._pools.setdefault(item.pool_id, {})[item.name] = item
        node = item.local_node
        if node is not None:
            self._local.setdefault(node, {})[item.name] = item
            return
        self._shared[item.name] = item
        self._count_selections(item, 1)

    def _unlink(self, item: Slice) -> None:
        del self.slices[item.name]
        self.mapped.discard(item.name)
        _drop(self._pools, item.pool_id, item.name)
        node = item.local_node
        if node is not None:
            _drop(self._local, node, item.name)
            return
        del self._shared[item.name]
        self._count_selections(item, -1)

    def _count_selections(self, item: Slice, step: int) -> None:
        for selection in item.selections if item.local_node is None else ():
            key = selection.key
            known, count = self._selections.get(key, (selection, 0))
            if count + step:
                self._selections[key] = (known, count + step)
            else:
                del self._selections[key]
            if not count or not count + step:
                self._selections_revision += 1

    def _invalidate(self, pools: set[PoolID]) -> None:
        for pool in pools:
            for item in self._pools.get(pool, {}).values():
                node = item.local_node
                if node is None:
                    self._shared_revision += 1
                    return
                self._node_revisions[node] = self._node_revisions.get(node, 0) + 1

    def forget_node(self, name: str) -> None:
        """Drop the cached view of a deleted node."""
        self._nodes.pop(name, None)

    def view(self, node: Object) -> NodeView:
        """Return the view of a node. Raise AllocationError if a slice cannot be evaluated."""
        metadata = node["metadata"]
        name = metadata["name"]
        key = (self._shared_revision, self._node_revisions.get(name, 0), metadata.get("labels"))
        entry = self._nodes.get(name)
        if entry is None:
            entry = self._nodes[name] = _NodeEntry()
        if entry.key != key:
            self._build(entry, NodeMatcher(name, metadata.get("labels") or {}, self._parse))
            entry.key = key
        if entry.view is None:
            raise AllocationError(f"gather pool information: {entry.error}")
        return entry.view

    def _build(self, entry: _NodeEntry, node: NodeMatcher) -> None:
        """Build or reuse the view of a node, or set its error."""
        local = self._local.get(node.name, {})
        entry.view = shared_key = None
        if not local:
            self._update_signature(entry, node)
            if entry.signature is not None:
                shared_key = (self._shared_revision, entry.signature)
                entry.view = self._shared_views.get(shared_key)
        if entry.view is not None:
            return
        partitionable = self.features.partitionable_devices
        try:
            relevant = [s for s in (*local.values(), *self._shared.values()) if concerns(s, node, partitionable)]
        except GatherError as error:
            entry.error = str(error)
            return
        entry.view = self._view(relevant, node)
        if shared_key is not None:
            if len(self._shared_views) >= _SHARED_VIEWS_KEPT:
                self._shared_views.popitem(last=False)
            self._shared_views[shared_key] = entry.view

    def _update_signature(self, entry: _NodeEntry, node: NodeMatcher) -> None:
        key = (self._selections_revision, node.labels)
        if entry.signature_key == key:
            return
        entry.signature_key = key
        try:
            entry.signature = tuple(node.matches(selection) for selection, _ in self._selections.values())
        except ValueError:
            entry.signature = None

    def _view(self, relevant: list[Slice], matcher: NodeMatcher) -> NodeView:
        pools = gather(relevant, lambda pool: list(self._pools[pool].values()), self.features.partitionable_devices)
        return NodeView(pools, matcher, self.features)

    def _parse(self, selector: Any) -> NodeSelector:
        known = self._parsed_by_identity.get(id(selector))
        if known is not None and known[0] is selector:
            return known[1]
        text = json.dumps(selector, sort_keys=True)
        parsed = self._parsed.get(text)
        if parsed is None:
            parsed = self._parsed[text] = NodeSelector.strict(selector)
        if len(self._parsed_by_identity) >= _SELECTORS_KEPT:
            self._parsed_by_identity.clear()
            self._parsed.clear()
        self._parsed_by_identity[id(selector)] = (selector, parsed)
        return parsed


def _drop(table: dict[Any, dict[str, Slice]], key: Any, name: str) -> None:
    inner = table.get(key)
    if inner is not None:
        inner.pop(name, None)
        if not inner:
            del table[key]
