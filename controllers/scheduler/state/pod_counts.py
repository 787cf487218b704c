"""The number of selected pods per node, cached until a node changes: pods of one workload share their selectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from apiserver.api.selectors.selectors import LabelSelector
from controllers.scheduler.state.nodes import Cache, NodeInfo

#: The maximum number of cached selectors.
_SELECTORS: Final = 64
_Key = tuple[object, ...]


class _NodeCounts:
    """The counts of one selector; the counts of `stale` nodes are outdated."""

    __slots__ = ("counts", "stale")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.stale: set[str] = set()


class PodCounts:
    """Counts of the cached pods. Pods that are being deleted do not count."""

    def __init__(self, cache: Cache) -> None:
        self._cache, self._read = cache, cache.log.position
        self._known: OrderedDict[_Key, _NodeCounts] = OrderedDict()

    def of(self, selector: LabelSelector, namespace: str) -> Mapping[str, int]:
        """Return the number of selected pods in a namespace by node; nodes without any may be missing."""
        if selector.empty:
            return {}
        self._sync()
        key = (namespace, selector.nothing, selector.requirements)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _NodeCounts()
            known.stale.update(self._cache.nodes)
            if len(self._known) > _SELECTORS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        for name in known.stale:
            node = self._cache.nodes.get(name)
            known.counts[name] = 0 if node is None else count_selected(node, selector, namespace)
        known.stale.clear()
        return known.counts

    def _sync(self) -> None:
        log = self._cache.log
        touched = set(log.since(self._read)) if log.position != self._read else set()
        self._read = log.position
        if None in touched:
            self._known.clear()
        elif touched:
            for known in self._known.values():
                known.stale.update(name for name in touched if name is not None)


def count_selected(node: NodeInfo, selector: LabelSelector, namespace: str) -> int:
    """Return the number of selected pods of a namespace on a node."""
    return sum(
        1
        for other in node.pods.values()
        if other.namespace == namespace
        and not other.pod["metadata"].get("deletionTimestamp")
        and selector.matches(other.pod["metadata"].get("labels"))
    )
