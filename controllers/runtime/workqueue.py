"""The queue of keys between watches and a reconciler.

Its invariant is about three sets: `order` (what to do next), `dirty` (needs work), `processing` (in work). Every key in
`order` is in `dirty` and not in `processing`. A key that becomes dirty during its processing returns to `order`
afterwards. So no key is processed twice concurrently, and no change is lost.

Delays follow client-go: a waiting key keeps the earlier time; a failing key waits for its backoff, by default 5 ms,
doubling to 1000 s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import timedelta
from typing import NamedTuple

from apiserver.runtime.clock import Timer, purpose
from controllers.runtime.queuemetrics import QueueMetrics


class Resync(timedelta):
    """The delay before an upkeep pass, which no known deadline requires."""


class RetryDelays(NamedTuple):
    """Delays of a failing key: the first, and the bound of their doubling."""

    base: timedelta
    maximum: timedelta


#: client-go's.
DEFAULT = RetryDelays(timedelta(milliseconds=5), timedelta(seconds=1000))


class Workqueue:
    """A queue that has each key at most once."""

    def __init__(self, retry_delays: RetryDelays = DEFAULT, *, name: str = "") -> None:
        self._retry_delays = retry_delays
        self._order: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._failures: dict[str, int] = {}
        #: The due time and timer by key and whether it is upkeep.
        self._waiting: dict[tuple[str, bool], tuple[float, asyncio.TimerHandle]] = {}
        #: Dropped keys in processing. Delayed passes of them are discarded.
        self._dropped: set[str] = set()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.metrics = QueueMetrics(name, self.__len__)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def idle(self) -> bool:
        """Return whether nothing is queued or in processing, delayed keys aside."""
        return not self._dirty and not self._processing

    @property
    def due(self) -> float | None:
        """Return the loop time of the first delayed key that is not upkeep; None without one."""
        return min((due for (_, upkeep), (due, _) in self._waiting.items() if not upkeep), default=None)

    def add(self, key: str) -> None:
        if key in self._dirty or self._closed:
            return
        self._dirty.add(key)
        self.metrics.add(key)
        if key not in self._processing:
            self._push(key)

    def add_after(self, key: str, delay: timedelta) -> None:
        if delay <= timedelta():
            self.add(key)
            return
        if self._closed or key in self._dropped:
            return
        loop, upkeep = asyncio.get_running_loop(), isinstance(delay, Resync)
        due = loop.time() + delay.total_seconds()
        waiting = self._waiting.get((key, upkeep))
        if waiting is not None:
            if waiting[0] <= due:
                return
            waiting[1].cancel()
        call = self._resync if upkeep else self._fall_due
        self._waiting[key, upkeep] = (due, loop.call_at(due, call, key))

    def drop(self, key: str) -> None:
        """Cancel all delays of a key whose object is gone."""
        for upkeep in (False, True):
            waiting = self._waiting.pop((key, upkeep), None)
            if waiting is not None:
                waiting[1].cancel()
        if key in self._processing:
            self._dropped.add(key)

    def retry(self, key: str) -> None:
        """Add the key after its backoff, which doubles until `forget`."""
        self.metrics.retries.inc(self.metrics.name)
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        base, maximum = self._retry_delays
        delay = maximum if failures > 30 else min(base * 2**failures, maximum)
        self.add_after(key, delay)

    def forget(self, key: str) -> None:
        """Reset the key's backoff after a success."""
        self._failures.pop(key, None)

    def retries(self, key: str) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> str | None:
        """Return the next key, in processing until `done`; None once the queue is closed and empty."""
        while not self._order:
            if self._closed:
                return None
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                if getter.done() and not getter.cancelled() and self._order:
                    self._wake()
                raise
        key = self._order.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        self.metrics.get(key)
        return key

    def done(self, key: str) -> None:
        self._processing.discard(key)
        self._dropped.discard(key)
        self.metrics.done(key)
        if key in self._dirty:
            self._push(key)

    def close(self) -> None:
        """Wake all waiting workers. They get the remaining keys in `order`, then None."""
        self._closed = True
        for _, timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()
        while self._getters:
            self._wake()

    def _fall_due(self, key: str) -> None:
        self._waiting.pop((key, False), None)
        self.add(key)

    @purpose(Timer.UPKEEP)
    def _resync(self, key: str) -> None:
        self._waiting.pop((key, True), None)
        self.add(key)

    def _push(self, key: str) -> None:
        self._order.append(key)
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
