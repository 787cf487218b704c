"""Number rows (`Heads`), convert them to columns with a checksum (`row_of`, `record_of`), publish them (`Publisher`).

The checksum is the CRC-32 of key and value plus the row's numbers. A database can therefore number rows and still
store it (`log_append`), and a flipped bit anywhere in a row shows. It detects damage; it does not prevent forgery.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any
from zlib import crc32

from apiserver.storage.log.types import (
    Compacted,
    DamagedRow,
    Feed,
    FutureRevision,
    KeyExists,
    KeyMissing,
    Lost,
    Record,
    RevisionConflict,
    SignedRow,
    Snapshot,
    Write,
    WriteRefused,
)

__all__ = [
    "Authors",
    "Heads",
    "Publisher",
    "check_past",
    "content_checksum",
    "micros_of",
    "record_of",
    "refusal",
    "row_of",
    "signed_row_of",
]

#: With 10 000 authors the probability that two share an id is 2e-7.
_ID_BYTES = 6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Head = tuple[int, int]
_NEVER: Head = (0, 0)


class Heads:
    """The last row of each key as (revision, create revision), for a log with a single writer.

    A write is checked against it without a query. Deletions that are not swept yet are included with create revision 0:
    a key that is created again must follow that row (UNIQUE(key, prev_revision)).
    """

    def __init__(self, rows: Iterable[tuple[str, int, int]] = ()) -> None:
        self._heads: dict[str, Head] = {key: (revision, created) for key, revision, created in rows}
        graves = sorted((revision, key) for key, (revision, created) in self._heads.items() if not created)
        self._graves: deque[tuple[int, str]] = deque(graves)

    def decide(self, write: Write, revision: int) -> Record | WriteRefused:
        """Return the row that a write makes at a revision, or the error that refuses it."""
        key, value, expected, deleted, _, _ = write
        head, created = self._heads.get(key, _NEVER)
        if created:
            if expected != head or not expected:
                return refusal(write, head)
        elif expected or deleted:
            return refusal(write, 0)
        return Record(revision, key, created or revision, head, deleted, value)

    def advance(self, record: Record) -> tuple[str, Head | None]:
        """Move a key's head to a row. Return what `restore` needs."""
        before = self._heads.get(record.key)
        self._heads[record.key] = (record.revision, 0 if record.deleted else record.create_revision)
        if record.deleted:
            self._graves.append((record.revision, record.key))
        return record.key, before

    def restore(self, taken: list[tuple[str, Head | None]]) -> None:
        """Undo advances whose commit failed."""
        for key, before in reversed(taken):
            if not self._heads[key][1]:
                self._graves.pop()
            if before is None:
                del self._heads[key]
            else:
                self._heads[key] = before

    def live_revisions(self, keep: frozenset[str]) -> list[int]:
        """Return the revisions of live keys except these, in key order."""
        live = sorted((key, head) for key, (head, created) in self._heads.items() if created)
        return [head for key, head in live if key not in keep]

    def items(self) -> Iterable[tuple[str, Head]]:
        """Return the last row of each key, deletions included (create revision 0)."""
        return self._heads.items()

    def drop_swept(self, swept: int) -> None:
        """Drop deletions that compaction has removed."""
        while self._graves and self._graves[0][0] <= swept:
            revision, key = self._graves.popleft()
            if self._heads.get(key) == (revision, 0):
                del self._heads[key]


def refusal(write: Write, current: int) -> WriteRefused:
    """Build the error for a write whose key is alive at `current`, or not alive (0)."""
    kind = KeyMissing if not current else RevisionConflict if write.expected or write.deleted else KeyExists
    return kind(write.key, write.expected, current)


def content_checksum(key: str, value: bytes) -> int:
    """Compute the part of a checksum that is independent of the row's numbers."""
    return crc32(value, crc32(key.encode("utf-8", "surrogateescape")))


def row_of(record: Record) -> tuple[Any, ...]:
    """Convert a record to the columns `queries.COLUMNS`."""
    revision, key, create_revision, prev_revision, deleted, value = record
    gone = int(deleted)  # SQLite stores an int directly; a bool costs a look-up of adapters
    checksum = content_checksum(key, value) + revision + create_revision + prev_revision + gone
    return (revision, key, create_revision, prev_revision, gone, value, checksum)


def record_of(columns: Sequence[Any]) -> Record:
    """Convert a database row to a record. Raise DamagedRow if the checksum does not match."""
    revision, key, create_revision, prev_revision, deleted, value, stored = columns
    try:
        record = Record(revision, key, create_revision, prev_revision, bool(deleted), value)
        if row_of(record)[-1] == stored:
            return record
    except (TypeError, AttributeError):
        pass  # damage may also change a column's type
    raise DamagedRow(revision, key)


def signed_row_of(columns: Sequence[Any]) -> SignedRow:
    """Convert a row of `queries.SIGNED`. Raise DamagedRow if the checksum does not match."""
    return SignedRow(record_of(columns[:7]), columns[7] or 0, columns[8] or "")


def micros_of(time: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


class Authors:
    """The authors that this process has stored, by text. An id is a hash, so that servers need not agree on one."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {"": 0}

    def id_of(self, text: str, unstored: dict[int, str]) -> int:
        """Return the id of an author; add it to `unstored` unless it is stored."""
        known = self._ids.get(text)
        if known is None:
            known = int.from_bytes(blake2b(text.encode(), digest_size=_ID_BYTES).digest())
            unstored[known] = text
        return known

    def mark_stored(self, authors: dict[int, str]) -> None:
        """Record that authors are stored."""
        self._ids.update((text, number) for number, text in authors.items())

    def clear(self) -> None:
        """Forget all authors, because unused ones are about to be deleted."""
        self._ids = {"": 0}


class Publisher:
    """Passes rows to subscribers in revision order, each exactly once. `position` is the last published revision."""

    def __init__(self, position: int) -> None:
        self.position: int = position
        self._subscribers: list[tuple[Feed, Lost | None]] = []

    def subscribe(self, feed: Feed, lost: Lost | None) -> Callable[[], None]:
        subscriber = (feed, lost)
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber) if subscriber in self._subscribers else None

    def publish(self, records: Sequence[Record]) -> None:
        """Publish the rows that follow the position without a gap; skip rows at or below it."""
        if records and records[0].revision <= self.position:
            records = [record for record in records if record.revision > self.position]
        if not records:
            return
        if records[0].revision != self.position + 1 or records[-1].revision != self.position + len(records):
            raise AssertionError(f"rows {records[0].revision}..{records[-1].revision} do not follow {self.position}")
        self.position = records[-1].revision
        for feed, _ in tuple(self._subscribers):
            try:
                feed(records)
            except Exception as error:  # noqa: BLE001 - it must not lose the others' rows or the writers' answers
                _report(error)

    def replace(self, snapshot: Snapshot) -> None:
        """Pass the whole state to subscribers that can no longer get every row."""
        self.position = snapshot.revision
        for _, lost in tuple(self._subscribers):
            if lost is not None:
                try:
                    lost(snapshot)
                except Exception as error:  # noqa: BLE001
                    _report(error)


def _report(error: Exception) -> None:
    context = {"message": "a subscriber of the revision log failed", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)


def check_past(revision: int, compacted: int, current: int) -> None:
    """Raise Compacted or FutureRevision unless the state at a revision is available."""
    if revision > current:
        raise FutureRevision(revision, current)
    if revision < compacted:
        raise Compacted(revision, compacted)
