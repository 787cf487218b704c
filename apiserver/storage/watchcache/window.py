"""The recent events of one cache, and the cursors that read them.

All watchers share one list of events. A cursor is a position in it: it costs nothing while it is not read. If its
position is dropped, the next read raises Expired. Places are counted from the cache's beginning and never change,
whatever is dropped at the old end or added there from the log.

Invariants: every event of the cache with revision > floor is in the window, in order; places before the first are gone.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import attrgetter

from apiserver.runtime.clock import Timer, purpose, timers
from apiserver.storage.log.types import Expired, FutureRevision
from apiserver.storage.watchcache.entry import Batch, Event

MAX_EVENTS = 10_000
MAX_BYTES = 32 << 20
#: Events kept whatever their age, as upstream: a watcher of a kind that seldom changes can resume without a list.
MIN_EVENTS = 100
#: Bytes of the windows of all caches together. A watch from before them reads the log.
MAX_TOTAL = 48 << 20
#: Decoded objects and encodings are kept for the newest events of all caches, up to this count and these stored bytes.
#: Older ones are rebuilt on demand. A decoded object takes five to ten times its stored bytes.
WARM_EVENTS = 2048
WARM_BYTES = 4 << 20
#: Bytes of an event in addition to its state: the event, its key, its position.
_EVENT_BYTES = 400

_revision = attrgetter("revision")


def _size(event: Event) -> int:
    return len(event.new.tail) + _EVENT_BYTES


class Progress:
    """State shared by all windows: the revision of the whole feed and the memory for events."""

    __slots__ = ("_waiters", "_warm", "_warm_bytes", "_windows", "held", "max_total", "revision")

    def __init__(self, revision: int, max_total: int = MAX_TOTAL) -> None:
        self.revision = revision
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._windows: list[Window] = []
        #: Bytes of the events of all windows.
        self.held = 0
        self.max_total = max_total
        self._warm: deque[tuple[Event, int]] = deque()
        self._warm_bytes = 0

    def join(self, window: Window) -> None:
        """Add a window to the shared memory limit."""
        self._windows.append(window)

    def leave(self, window: Window) -> None:
        """Remove a window from the shared memory limit; no effect if it is removed already."""
        if window in self._windows:
            self._windows.remove(window)
            self.held -= window.held
            window.held = 0

    def warm(self, event: Event, size: int) -> None:
        """Add the newest event of all windows. Drop derived forms of events beyond the limits."""
        self._warm.append((event, size))
        self._warm_bytes += size
        while len(self._warm) > WARM_EVENTS or self._warm_bytes > WARM_BYTES:
            old, its = self._warm.popleft()
            self._warm_bytes -= its
            old.drop_derived()

    def make_room(self, spared: Window | None = None) -> None:
        """Shrink the largest window by an eighth until the total is below the limit."""
        while self.held > self.max_total:
            largest = max((window for window in self._windows if window is not spared), key=_memory_of, default=None)
            if largest is None or not largest.shrink():
                return

    def retire(self, revision: int) -> None:
        """Drop events up to a revision, which the log has compacted, from all windows."""
        for window in self._windows:
            window.retire(revision)

    def advance(self, revision: int) -> None:
        """Set the feed's revision and wake waiters for it."""
        self.revision = revision
        if self._waiters:
            for wanted, waiter in self._waiters:
                if wanted <= revision and not waiter.done():
                    waiter.set_result(None)
            self._waiters = [each for each in self._waiters if not each[1].done()]

    async def wait_for(self, revision: int, timeout: float | None) -> None:  # noqa: ASYNC109
        """Return once the feed has reached a revision; raise FutureRevision after `timeout` seconds."""
        if revision <= self.revision:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, waiter))
        try:
            with timers(Timer.MACHINE):
                async with asyncio.timeout(timeout):
                    await waiter
        except TimeoutError:
            raise FutureRevision(revision, self.revision) from None


class Window:
    """Events of one cache, limited by count and by bytes of their states."""

    __slots__ = (
        "_latest",
        "_max_bytes",
        "_max_events",
        "closed",
        "end",
        "events",
        "floor",
        "held",
        "progress",
        "waiters",
    )

    def __init__(self, progress: Progress, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self.events: list[Event] = []
        self.end = 0  # the position after the newest event; every write reads it several times
        self.floor = progress.revision
        self.progress = progress
        self.closed = False
        self.waiters: set[asyncio.Future[bool]] = set()
        #: Bytes of its events.
        self.held = 0
        progress.join(self)
        #: The last batch read and its places: most cursors read the same batch as the one before.
        self._latest: tuple[int, int, Batch[Event]] | None = None
        self._max_events = max_events
        self._max_bytes = max_bytes

    @property
    def first(self) -> int:
        """The position of events[0]."""
        return self.end - len(self.events)

    def add(self, event: Event) -> None:
        """Add the newest event and drop the oldest beyond the limits. A closed window ignores it."""
        if self.closed:
            return
        self.events.append(event)
        self.end += 1
        size = len(event.new.tail) + _EVENT_BYTES  # _size, inlined for the write path
        self.held += size
        progress = self.progress
        progress.held += size
        progress.warm(event, size)
        # Drop an eighth more than needed, so that most additions drop nothing.
        if len(self.events) > self._max_events or self.held > self._max_bytes:
            self._drop(self._max_events * 7 // 8, self._max_bytes * 7 // 8)
        if progress.held > progress.max_total:
            progress.make_room()

    def shrink(self) -> bool:
        """Drop the oldest eighth of the bytes; return False if only the newest event is left."""
        return self._drop(self._max_events, self.held * 7 // 8)

    def _drop(self, most: int, size: int) -> bool:
        """Drop the oldest events beyond `most` events or `size` bytes; return whether any were dropped."""
        left, count = self.held, 0
        while count < len(self.events) - 1 and (len(self.events) - count > most or left > size):
            left -= _size(self.events[count])
            count += 1
        return self._drop_first(count)

    def retire(self, revision: int) -> bool:
        """Drop the events up to a revision, except the newest MIN_EVENTS; return whether any were dropped."""
        return self._drop_first(min(bisect_right(self.events, revision, key=_revision), len(self.events) - MIN_EVENTS))

    def _drop_first(self, count: int) -> bool:
        if count <= 0:
            return False
        size = sum(map(_size, self.events[:count]))
        self.held -= size
        self.progress.held -= size
        self.floor = self.events[count - 1].revision
        del self.events[:count]
        self._latest = None
        return True

    def free_slots(self) -> int:
        """Return how many older events fit without dropping one."""
        return self._max_events - len(self.events)

    def extend_back(self, events: Sequence[Event], floor: int) -> bool:
        """Insert older events at the front, down to a lower floor; return False if they do not fit."""
        size = sum(map(_size, events))
        if len(events) > self.free_slots() or self.held + size > self._max_bytes:
            return False
        self.events[:0] = events
        self._latest = None
        self.held += size
        self.progress.held += size
        self.floor = floor
        self.progress.make_room(spared=self)
        return True

    def clear(self, floor: int) -> None:
        """Remove all events; those up to `floor` are lost.

        Every cursor expires, even one at the end and whatever is read back into the window later.
        """
        self.end += self._max_events + 1
        self.events.clear()
        self._latest = None
        self.progress.held -= self.held
        self.held = 0
        self.floor = floor

    def position_after(self, revision: int) -> int:
        """Return the position of the first event after a revision."""
        if revision < self.floor:
            raise Expired(revision, self.floor)
        if not self.events or revision >= self.events[-1].revision:
            return self.end
        return self.first + bisect_right(self.events, revision, key=_revision)

    def since(self, revision: int) -> list[Event]:
        """Return the events after a revision."""
        return self.events[self.position_after(revision) - self.first :]

    def read(self, position: int, limit: int) -> Batch[Event]:
        """Return the events from a position on. Readers of the same events get the same batch."""
        end = min(self.end, position + limit)
        latest = self._latest
        if latest is not None and latest[0] == position and latest[1] == end:
            return latest[2]
        made = Batch(self.events[position - self.first : end - self.first])
        self._latest = (position, end, made)
        return made

    def wake(self, alive: bool = True) -> None:
        """Wake every waiting cursor."""
        waiters, self.waiters = self.waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(alive)

    def close(self) -> None:
        """End the window: no events follow."""
        self.closed = True
        self.progress.leave(self)
        self.wake(False)


def _memory_of(window: Window) -> int:
    return window.held


class Cursor:
    """A watcher's position. It contains no events and needs no closing.

    `since` may be in the future: events up to it are skipped when they come.
    """

    __slots__ = ("_interrupted", "_position", "_read", "_waiter", "_window")

    def __init__(self, window: Window, since: int) -> None:
        self._window = window
        self._waiter: asyncio.Future[bool] | None = None
        self._interrupted = False
        self._position = window.position_after(since)
        self._read = since

    @property
    def pending(self) -> bool:
        """Whether next_batch would advance, or raise."""
        return self._position != self._window.end

    @property
    def closed(self) -> bool:
        """Whether the cache was removed. Nothing will follow the pending events."""
        return self._window.closed

    @property
    def revision(self) -> int:
        """The revision up to which every event has been read, which a bookmark may carry."""
        return self._read if self.pending else max(self._read, self._window.progress.revision)

    def next_batch(self, limit: int = 1000) -> Batch[Event]:
        """Return the next events, maybe none. Raise Expired if the next ones were dropped."""
        window = self._window
        if self._position < window.first:
            raise Expired(self._read, window.floor)
        events = window.read(self._position, limit)
        if events:
            self._position += len(events)
            if events[0].revision <= self._read:
                events = Batch(event for event in events if event.revision > self._read)
            if events:
                self._read = events[-1].revision
        return events

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Wait until an event is pending.

        Return False when interrupted, after `timeout` seconds, or when the cache was removed. A caller that waits often
        sets one timer that interrupts instead of one per wait.
        """
        window = self._window
        if self.pending:
            return True
        if window.closed or self._interrupted:
            self._interrupted = False
            return False
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        window.waiters.add(waiter)
        timer = None if timeout is None else loop.call_later(timeout, _time_out, waiter)
        try:
            return await waiter
        finally:
            self._waiter = None
            window.waiters.discard(waiter)
            if timer is not None:
                timer.cancel()

    @purpose(Timer.UPKEEP)
    def interrupt(self) -> None:
        """End the current wait, or else the next one."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._interrupted = True
        else:
            waiter.set_result(False)


@purpose(Timer.UPKEEP)
def _time_out(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
