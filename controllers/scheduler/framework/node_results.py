"""Cached filter results and scores of nodes, for pods of the same shape until the node changes.

Pods have the same shape if all pod fields that the plugins declare are equal. Plugins that read anything else are not
cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import orjson

from controllers.scheduler.framework.framework import NodeOutcomes, Plugin, PodField
from controllers.scheduler.state.affected_nodes import DeviceReach
from controllers.scheduler.state.nodes import Cache
from controllers.scheduler.state.pod_info import PodInfo

Key = tuple[bytes | None, ...]


class FieldEncoder:
    """An encoder of the pod fields that the plugins read."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        fields: dict[PodField, None] = {}
        for plugin in plugins:
            if plugin.cacheable:
                fields.update(dict.fromkeys(plugin.reads.pod))
        self._reads = tuple(item.read for item in fields)

    def of(self, pod: PodInfo) -> bytes:
        return orjson.dumps([read(pod) for read in self._reads], option=orjson.OPT_SORT_KEYS)


class OutcomeCache:
    """Outcomes by shape and node; the least recently used shapes are dropped."""

    _SHAPES = 256

    def __init__(self, cache: Cache, reach: DeviceReach, on_expired: Callable[[], None] = lambda: None) -> None:
        """Create the cache. `on_expired` is called for each dropped shape."""
        self._cache, self._reach, self._on_expired = cache, reach, on_expired
        self._outcomes: OrderedDict[Key, NodeOutcomes] = OrderedDict()
        self._nodes_read = self._devices_read = 0

    def of(self, key: Key) -> NodeOutcomes:
        """Return the outcomes for this shape that are still valid."""
        self._invalidate()
        outcomes = self._outcomes.get(key)
        if outcomes is None:
            outcomes = self._outcomes[key] = NodeOutcomes()
            if len(self._outcomes) > self._SHAPES:
                self._outcomes.popitem(last=False)
                self._on_expired()
        else:
            self._outcomes.move_to_end(key)
        return outcomes

    def _invalidate(self) -> None:
        self._reach.sync()
        touched = {*self._cache.log.since(self._nodes_read), *self._reach.log.since(self._devices_read)}
        self._nodes_read, self._devices_read = self._cache.log.position, self._reach.log.position
        if None in touched:
            for outcomes in self._outcomes.values():
                outcomes.invalidate_all()
            return
        order = self._cache.list() if touched else []
        for name in touched:
            assert name is not None
            position = self._cache.position(name)
            for outcomes in self._outcomes.values():
                outcomes.invalidate(name, order, position)
