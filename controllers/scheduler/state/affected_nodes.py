"""Which nodes a change concerns, so that what is known of the others stays valid.

A log names nodes in the order in which something about them changed; None stands for all of them. Readers remember how
far they have read. Devices concern the nodes that can reach their pool: one, if every slice of the pool belongs to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from apiserver.api.objects import Json
from controllers.allocator import Allocated

Pool = tuple[str, str]
_LIMIT = 20_000


class TouchLog:
    """Names of nodes, the newest last."""

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
        """What was touched after a position; all nodes if that is too long ago."""
        if position < self._start:
            return (None,)
        return self._names[position - self._start :]


class DeviceReach:
    """Follows slices and allocations; `log` says for which nodes the devices are not as they were."""

    def __init__(self, allocated: Allocated) -> None:
        self.log = TouchLog()
        self._allocated = allocated
        self._read = allocated.position
        self._slices: dict[str, tuple[Pool, str | None]] = {}
        self._pools: dict[Pool, Counter[str | None]] = {}

    def set_slice(self, item: Json) -> None:
        """A slice was added or changed."""
        self.remove_slice(item["metadata"]["name"])
        spec = item["spec"]
        pool = (spec["driver"], spec["pool"]["name"])
        # Counters concern every node, whatever the slice says.
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
        """Something that holds for all nodes changed (a class)."""
        self.log.touch(None)

    def sync(self) -> None:
        """Takes in what was allocated and freed since the last time."""
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
