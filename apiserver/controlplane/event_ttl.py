"""Objects that expire some time after their last write: events, as with upstream's etcd leases.

The log does not hold the times of writes. A server records them as rows arrive in the cache; for older objects it reads
the last write from their metadata.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apiserver.api.values.times import parse_time
from apiserver.registry.definition.authors import EXPIRED
from apiserver.runtime.clock import Timer, now, timers
from apiserver.storage.log.types import StorageError, Write, WriteRefused

if TYPE_CHECKING:
    from apiserver.storage.log.types import Record, RevisionLog
    from apiserver.storage.watchcache.cache import Cache, Entry

__all__ = ["Expiry"]

#: Seconds between two checks, so that objects that expire one after the other are deleted together.
PACE: Final = 1.0
#: Seconds until a failed deletion is retried.
RETRY: Final = 10.0
_AT_ONCE: Final = 256

log = logging.getLogger(__name__)


class _Deadline(NamedTuple):
    """The expiry of a key (the loop's seconds), unless it has been written after this revision."""

    due: float
    revision: int


class Expiry:
    """Deletes the objects of a cache `seconds` after their last write.

    Where several servers share a database each of them tries; one deletion is made. Create it in the same iteration of
    the loop that loads the cache; it ends with `run`.
    """

    def __init__(self, store: RevisionLog, cache: Cache, seconds: float) -> None:
        self._store, self._cache, self._seconds = store, cache, seconds
        self._loop = asyncio.get_running_loop()
        #: By key, the earliest first.
        self._deadlines: OrderedDict[str, _Deadline] = OrderedDict()
        self._some = asyncio.Event()
        self._read_all()
        self._end = cache.observe(self._update_deadline, self._read_all)

    async def run(self) -> None:
        """Delete until cancelled. Log and retry failures."""
        try:
            while True:
                await self._some.wait()
                due = next(iter(self._deadlines.values())).due
                pause = PACE
                if due <= self._loop.time():
                    pause = await self._expire()
                else:
                    pause = max(due - self._loop.time(), PACE)
                with timers(Timer.UPKEEP):
                    await asyncio.sleep(pause)
        finally:
            self._end()

    async def _expire(self) -> float:
        """Delete expired objects; return the seconds until the next check."""
        bound = self._loop.time()
        writes: list[tuple[str, _Deadline, Write]] = []
        first = list(islice(self._deadlines.items(), _AT_ONCE))
        for key, deadline in first:
            if deadline.due > bound:
                break
            entry = self._cache.get(key)
            if entry is None:
                del self._deadlines[key]
            else:
                writes.append((key, deadline, Write(key, entry.value, deadline.revision, deleted=True, author=EXPIRED)))
        answers = await asyncio.gather(*(self._store.append(write) for _, _, write in writes), return_exceptions=True)
        for (key, deadline, _), answer in zip(writes, answers, strict=True):
            if isinstance(answer, WriteRefused):
                if self._deadlines.get(key) is deadline:
                    del self._deadlines[key]
            elif isinstance(answer, StorageError):
                log.warning("objects whose time is over could not be deleted: %s", answer)
                return RETRY
            elif isinstance(answer, BaseException):
                raise answer
        self._update_wakeup()
        return 0.0 if len(first) == _AT_ONCE else PACE

    def _update_deadline(self, record: Record) -> None:
        """Update an object's deadline from a row of the cache."""
        if record.deleted:
            self._deadlines.pop(record.key, None)
        else:
            self._deadlines[record.key] = _Deadline(self._loop.time() + self._seconds, record.revision)
            self._deadlines.move_to_end(record.key)
        self._update_wakeup()

    def _read_all(self) -> None:
        moment, time = now(), self._loop.time()
        found = []
        for entry in self._cache.list().entries:
            found.append((entry.key, _Deadline(time + self._get_remaining_seconds(entry, moment), entry.revision)))
            entry.drop_derived()  # decoded only to read its time
        self._deadlines = OrderedDict(sorted(found, key=lambda item: item[1]))
        self._update_wakeup()

    def _get_remaining_seconds(self, entry: Entry, moment: datetime) -> float:
        """Return the seconds until an object expires, by its last write."""
        age = (moment - _get_last_write(entry.obj["metadata"])).total_seconds()
        return min(max(self._seconds - age, 0.0), self._seconds)

    def _update_wakeup(self) -> None:
        if self._deadlines:
            self._some.set()
        else:
            self._some.clear()


def _get_last_write(metadata: dict[str, Any]) -> datetime:
    """Return the newest timestamp in an object: its creation, or a manager's last change."""
    times = [metadata.get("creationTimestamp"), *(entry.get("time") for entry in metadata.get("managedFields") or ())]
    known = [parse_time(text) for text in times if text]
    return max(known, default=datetime.min.replace(tzinfo=UTC))
