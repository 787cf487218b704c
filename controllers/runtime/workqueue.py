"""The queue of keys between watches and a reconciler.

Three sets carry the whole argument: `order` (what to do next), `dirty` (needs work), `processing` (in hand). Every key
in
`order` is in `dirty` and not in `processing`; a key that becomes dirty while in hand goes back to `order` when it is
done.
So a key is never worked on twice at once, and no change is lost.

Delays follow client-go: a key that waits already keeps the earlier time; a failing key waits 5 ms, doubling to 1000 s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import timedelta

from apiserver.runtime.clock import Timer, purpose
from controllers.runtime.queuemetrics import QueueMetrics


class Resync(timedelta):
    """A delay after which a key is looked at again although nothing is known to fall due by then: upkeep."""


class Workqueue:
    """Keys, each once."""

    def __init__(
        self,
        base: timedelta = timedelta(milliseconds=5),
        maximum: timedelta = timedelta(seconds=1000),
        *,
        name: str = "",
    ) -> None:
        self._base, self._maximum = base, maximum
        self._order: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._failures: dict[str, int] = {}
        #: By key and whether it is upkeep: when it is due, and the timer.
        self._waiting: dict[tuple[str, bool], tuple[float, asyncio.TimerHandle]] = {}
        #: In hand, and void since: what the work on them says to do later is not done.
        self._dropped: set[str] = set()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.metrics = QueueMetrics(name, self.__len__)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def idle(self) -> bool:
        """Nothing to do now and nothing in hand (delayed keys aside)."""
        return not self._dirty and not self._processing

    @property
    def due(self) -> float | None:
        """When the first delayed key falls due, in the loop's time, but for upkeep; None where there is none."""
        return min((due for (_, upkeep), (due, _) in self._waiting.items() if not upkeep), default=None)

    def add(self, key: str) -> None:
        if key in self._dirty or self._closed:
            return
        self._dirty.add(key)
        self.metrics.added(key)
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
        """What the key stood for is gone: nothing of it falls due any more."""
        for upkeep in (False, True):
            waiting = self._waiting.pop((key, upkeep), None)
            if waiting is not None:
                waiting[1].cancel()
        if key in self._processing:
            self._dropped.add(key)

    def retry(self, key: str) -> None:
        """Adds after the key's backoff, which doubles until `forget`."""
        self.metrics.retries.inc(self.metrics.name)
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = self._maximum if failures > 30 else min(self._base * 2**failures, self._maximum)
        self.add_after(key, delay)

    def forget(self, key: str) -> None:
        """The key went well: its next failure waits the shortest time again."""
        self._failures.pop(key, None)

    def retries(self, key: str) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> str | None:
        """The next key, in hand until `done`; None once the queue is closed and empty."""
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
        self.metrics.taken(key)
        return key

    def done(self, key: str) -> None:
        self._processing.discard(key)
        self._dropped.discard(key)
        self.metrics.finished(key)
        if key in self._dirty:
            self._push(key)

    def close(self) -> None:
        """Ends the waiters; keys are not handed out any more once the order is empty."""
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
