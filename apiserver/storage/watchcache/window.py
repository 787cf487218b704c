"""The recent events of one cache, and the cursors that read them.

Events lie in one list for all watchers. A cursor is a place in it: it costs nothing while nobody reads, and a reader
that falls so far behind that its place is dropped gets Expired. Places are counted from the cache's beginning and never
move, whatever is dropped at the old end or added there from the log.

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
#: So many stay however old they are, as upstream: who comes back to a kind that seldom changes need not list.
MIN_EVENTS = 100
#: Bytes that the windows of all caches may hold together. A watch from before them reads the log.
MAX_TOTAL = 48 << 20
#: Decoded objects and further encodings are kept for the newest events of all caches, so many and of so many bytes as
#: stored; then they are made again if somebody asks. An object takes five to ten times as much.
WARM_EVENTS = 2048
WARM_BYTES = 4 << 20
#: What an event takes beside its state: itself, its key, its place.
_EVENT_BYTES = 400

_revision = attrgetter("revision")


def _size(event: Event) -> int:
    return len(event.new.tail) + _EVENT_BYTES


class Progress:
    """What all windows share: the revision that the feed of all keys has reached, and the room for events."""

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
        """A window takes part in the room."""
        self._windows.append(window)

    def leave(self, window: Window) -> None:
        """A window that has ended takes no more room. It may leave again."""
        if window in self._windows:
            self._windows.remove(window)
            self.held -= window.held
            window.held = 0

    def warm(self, event: Event, size: int) -> None:
        """The newest event of all, and its bytes. Old ones let go of what can be made again."""
        self._warm.append((event, size))
        self._warm_bytes += size
        while len(self._warm) > WARM_EVENTS or self._warm_bytes > WARM_BYTES:
            old, its = self._warm.popleft()
            self._warm_bytes -= its
            old.forget()

    def make_room(self, spared: Window | None = None) -> None:
        """While there are too many bytes the window that has most gives up an eighth of its own."""
        while self.held > self.max_total:
            largest = max((window for window in self._windows if window is not spared), key=_held, default=None)
            if largest is None or not largest.shrink():
                return

    def retire(self, revision: int) -> None:
        """Events up to a revision, which the log has no more, go from all windows."""
        for window in self._windows:
            window.retire(revision)

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
        self.end = 0  # the place after the newest event: every write asks for it, several times
        self.floor = progress.revision
        self.progress = progress
        self.closed = False
        self.waiters: set[asyncio.Future[bool]] = set()
        #: Bytes of its events.
        self.held = 0
        progress.join(self)
        #: What was read last, and from which place: most cursors stand where another stood just before.
        self._latest: tuple[int, int, Batch[Event]] | None = None
        self._max_events = max_events
        self._max_bytes = max_bytes

    @property
    def first(self) -> int:
        """The place of events[0]."""
        return self.end - len(self.events)

    def add(self, event: Event) -> None:
        """Takes the newest event; where there are too many the oldest go. One that has ended takes none."""
        if self.closed:
            return
        self.events.append(event)
        self.end += 1
        size = len(event.new.tail) + _EVENT_BYTES  # as _size, which every write would call
        self.held += size
        progress = self.progress
        progress.held += size
        progress.warm(event, size)
        # An eighth more than is needed goes, so that most additions drop nothing.
        if len(self.events) > self._max_events or self.held > self._max_bytes:
            self._drop(self._max_events * 7 // 8, self._max_bytes * 7 // 8)
        if progress.held > progress.max_total:
            progress.make_room()

    def shrink(self) -> bool:
        """Drops the oldest eighth of its bytes; False where there is none but the newest event."""
        return self._drop(self._max_events, self.held * 7 // 8)

    def _drop(self, most: int, size: int) -> bool:
        """Drops the oldest events but for so many, of so many bytes; whether there were any."""
        left, count = self.held, 0
        while count < len(self.events) - 1 and (len(self.events) - count > most or left > size):
            left -= _size(self.events[count])
            count += 1
        return self._drop_first(count)

    def retire(self, revision: int) -> bool:
        """Drops the events up to a revision but for the newest of them all; whether there were any."""
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

    def room(self) -> int:
        """How many older events could be put in without dropping one."""
        return self._max_events - len(self.events)

    def extend_back(self, events: Sequence[Event], floor: int) -> bool:
        """Puts older events before the first, down to a lower floor; False if they have no room."""
        size = sum(map(_size, events))
        if len(events) > self.room() or self.held + size > self._max_bytes:
            return False
        self.events[:0] = events
        self._latest = None
        self.held += size
        self.progress.held += size
        self.floor = floor
        self.progress.make_room(spared=self)
        return True

    def clear(self, floor: int) -> None:
        """Removes all events; those up to `floor` are lost. Every cursor expires, even one at the end, and
        whatever is put back.
        """
        self.end += self._max_events + 1
        self.events.clear()
        self._latest = None
        self.progress.held -= self.held
        self.held = 0
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
        self.progress.leave(self)
        self.wake(False)


def _held(window: Window) -> int:
    return window.held


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
