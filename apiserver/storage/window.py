"""The recent events of one cache, and the cursors that read them.

Events lie in one list for all watchers. A cursor is a place in it: it costs nothing while nobody reads, and a reader
that falls so far behind that its place is dropped gets Expired. Places are counted from the cache's beginning and never
move, whatever is dropped at the old end or added there from the log.

Invariants: every event of the cache with revision > floor is in the window, in order; places before the first are gone.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from apiserver.clock import Timer, purpose, timers
from apiserver.storage.entry import Batch, Event
from apiserver.storage.types import Expired, FutureRevision

MAX_EVENTS = 10_000
MAX_BYTES = 32 << 20
WARM_EVENTS = 512  # decoded objects and further encodings are kept for this many events, then made again if asked for

_revision = attrgetter("revision")


class Progress:
    """The revision that the feed of all keys has reached, shared by all windows."""

    __slots__ = ("_waiters", "revision")

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def advance(self, revision: int) -> None:
        """The feed has reached a revision: whoever waited for it goes on."""
        self.revision = revision
        if self._waiters:
            for wanted, waiter in self._waiters:
                if wanted <= revision and not waiter.done():
                    waiter.set_result(None)
            self._waiters = [each for each in self._waiters if not each[1].done()]

    async def wait_for(self, revision: int, timeout: float | None) -> None:  # noqa: ASYNC109
        """Returns once the feed has reached a revision; raises FutureRevision after `timeout` seconds."""
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
    """Events of one cache, bounded by count and by bytes of their states."""

    __slots__ = (
        "_bytes",
        "_latest",
        "_max_bytes",
        "_max_events",
        "closed",
        "events",
        "first",
        "floor",
        "progress",
        "waiters",
    )

    def __init__(self, progress: Progress, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self.events: list[Event] = []
        self.first = 0  # the place of events[0]
        self.floor = progress.revision
        self.progress = progress
        self.closed = False
        self.waiters: set[asyncio.Future[bool]] = set()
        self._bytes = 0
        #: What was read last, and from which place: most cursors stand where another stood just before.
        self._latest: tuple[int, int, Batch[Event]] | None = None
        self._max_events = max_events
        self._max_bytes = max_bytes

    @property
    def end(self) -> int:
        """The place after the newest event."""
        return self.first + len(self.events)

    def add(self, event: Event) -> None:
        """Takes the newest event. Old ones let go of what can be made again; where there are too many the oldest go."""
        events = self.events
        events.append(event)
        self._bytes += len(event.new.tail)
        if len(events) > WARM_EVENTS:
            events[-WARM_EVENTS - 1].forget()
        if len(events) > self._max_events or self._bytes > self._max_bytes:
            self._drop()

    def _drop(self) -> None:
        """Drops an eighth more than is needed, so that most additions drop nothing."""
        most, size = self._max_events * 7 // 8, self._max_bytes * 7 // 8
        count = 0
        while count < len(self.events) - 1 and (len(self.events) - count > most or self._bytes > size):
            self._bytes -= len(self.events[count].new.tail)
            count += 1
        if not count:
            return
        self.floor = self.events[count - 1].revision
        self.first += count
        del self.events[:count]

    def room(self) -> int:
        """How many older events could be put in without dropping one."""
        return self._max_events - len(self.events)

    def extend_back(self, events: Sequence[Event], floor: int) -> bool:
        """Puts older events before the first, down to a lower floor; False if they have no room."""
        size = sum(len(event.new.tail) for event in events)
        if len(events) > self.room() or self._bytes + size > self._max_bytes:
            return False
        self.events[:0] = events
        self.first -= len(events)
        self._latest = None
        self._bytes += size
        self.floor = floor
        return True

    def clear(self, floor: int) -> None:
        """Removes all events; those up to `floor` are lost. Every cursor expires, even one at the end, and
        whatever is put back.
        """
        self.first = self.end + self._max_events + 1
        self.events.clear()
        self._latest = None
        self._bytes = 0
        self.floor = floor

    def place_after(self, revision: int) -> int:
        """The place of the first event after a revision."""
        if revision < self.floor:
            raise Expired(revision, self.floor)
        if not self.events or revision >= self.events[-1].revision:
            return self.end
        return self.first + bisect_right(self.events, revision, key=_revision)

    def since(self, revision: int) -> list[Event]:
        """The events after a revision."""
        return self.events[self.place_after(revision) - self.first :]

    def read(self, place: int, limit: int) -> Batch[Event]:
        """The events from a place on. Readers that ask for the same events get the same batch."""
        end = min(self.end, place + limit)
        latest = self._latest
        if latest is not None and latest[0] == place and latest[1] == end:
            return latest[2]
        made = Batch(self.events[place - self.first : end - self.first])
        self._latest = (place, end, made)
        return made

    def wake(self, alive: bool = True) -> None:
        """Wakes every waiting cursor."""
        waiters, self.waiters = self.waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(alive)

    def close(self) -> None:
        """Ends the window: no events follow."""
        self.closed = True
        self.wake(False)


class Cursor:
    """A watcher's place. It holds no events and needs no closing.

    `since` may lie in the future: events up to it are then passed over when they come.
    """

    __slots__ = ("_interrupted", "_place", "_read", "_waiter", "_window")

    def __init__(self, window: Window, since: int) -> None:
        self._window = window
        self._waiter: asyncio.Future[bool] | None = None
        self._interrupted = False
        self._place = window.place_after(since)
        self._read = since

    @property
    def pending(self) -> bool:
        """Whether next_batch would advance, or raise."""
        return self._place != self._window.end

    @property
    def closed(self) -> bool:
        """The cache was removed; nothing will follow what is pending."""
        return self._window.closed

    @property
    def revision(self) -> int:
        """Every event up to this revision has been read: what a bookmark may say."""
        return self._read if self.pending else max(self._read, self._window.progress.revision)

    def next_batch(self, limit: int = 1000) -> Batch[Event]:
        """The next events, maybe none. Raises Expired if some that it should have read are gone."""
        window = self._window
        if self._place < window.first:
            raise Expired(self._read, window.floor)
        events = window.read(self._place, limit)
        if events:
            self._place += len(events)
            if events[0].revision <= self._read:
                events = Batch(event for event in events if event.revision > self._read)
            if events:
                self._read = events[-1].revision
        return events

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Waits until something is pending; False when it is interrupted, after `timeout` seconds, or when the cache
        was removed. Who waits often sets one timer that interrupts, rather than one for each wait.
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
        timer = None if timeout is None else loop.call_later(timeout, _give_up, waiter)
        try:
            return await waiter
        finally:
            self._waiter = None
            window.waiters.discard(waiter)
            if timer is not None:
                timer.cancel()

    @purpose(Timer.UPKEEP)
    def interrupt(self) -> None:
        """Ends the wait that is under way, or else the next one."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._interrupted = True
        else:
            waiter.set_result(False)


@purpose(Timer.UPKEEP)
def _give_up(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
