"""The nodes affected by changes, so that cached results for the others stay valid.

A log has the names of changed nodes in order; None stands for all nodes. Each reader keeps its position. A change of
devices affects the nodes that can reach their pool: one node, if every slice of the pool belongs to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from apiserver.api.objects import Json
from controllers.allocator import AllocatedState

Pool = tuple[str, str]
_LIMIT = 20_000


class TouchLog:
    """Names of changed nodes, the newest last."""

    def __init__(self) -> None:
        self._names: list[str | None] = []
        self._start = 0

    @property
    def position(self) -> int:
        return self._start + len(self._names)

    def touch(self, name: str | None) -> None:
        self._names.append(name)
        if len(self._names) > _LIMIT:
            cut = _LIMIT // 2
            del self._names[:cut]
            self._start += cut

    def since(self, position: int) -> Iterable[str | None]:
        """Return the nodes changed since a position; all nodes (None) if the log no longer reaches back."""
        if position < self._start:
            return (None,)
        return self._names[position - self._start :]


class DeviceReach:
    """A tracker of slices and allocations; `log` has the nodes with changed devices."""

    def __init__(self, allocated: AllocatedState) -> None:
        self.log = TouchLog()
        self._allocated = allocated
        self._read = allocated.position
        self._slices: dict[str, tuple[Pool, str | None]] = {}
        self._pools: dict[Pool, Counter[str | None]] = {}

    def set_slice(self, item: Json) -> None:
        """Add or update a slice."""
        self.remove_slice(item["metadata"]["name"])
        spec = item["spec"]
        pool = (spec["driver"], spec["pool"]["name"])
        # Shared counters affect every node, whatever the slice's node.
        node = None if spec.get("sharedCounters") else spec.get("nodeName") or None
        self._slices[item["metadata"]["name"]] = (pool, node)
        self._pools.setdefault(pool, Counter())[node] += 1
        self._touch(pool)

    def remove_slice(self, name: str) -> None:
        known = self._slices.pop(name, None)
        if known is None:
            return
        pool, node = known
        self._touch(pool)
        nodes = self._pools[pool]
        nodes[node] -= 1
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self._pools[pool]

    def touch_all(self) -> None:
        """Log a change for all nodes (a class)."""
        self.log.touch(None)

    def sync(self) -> None:
        """Log the nodes of allocations and deallocations since the last call."""
        allocated = self._allocated
        position = allocated.position
        if position == self._read:
            return
        if self._read < allocated.log_start:
            self.log.touch(None)
        else:
            for device in allocated.log[self._read - allocated.log_start :]:
                self._touch(device[:2])
        self._read = position

    def _touch(self, pool: Pool) -> None:
        nodes = self._pools.get(pool)
        if nodes is None:
            return
        if None in nodes:
            self.log.touch(None)
        else:
            for node in nodes:
                self.log.touch(node)
