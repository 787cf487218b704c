"""The rows of a log, whichever database keeps them: which row a write makes (`Heads`, for a log that nobody else
writes), the row's columns with a checksum of itself (`row_of`, `record_of`), and who is told of it (`Publisher`).

The checksum is the CRC-32 of key and value plus the row's numbers, so that a database can number rows and still store
it (`log_append`), and a flipped bit anywhere in a row shows. It finds damage; it is no protection against forgery.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
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
    Snapshot,
    Write,
    WriteRefused,
)

__all__ = ["Heads", "Publisher", "check_past", "content_checksum", "record_of", "refusal", "row_of"]

Head = tuple[int, int]
_NEVER: Head = (0, 0)


class Heads:
    """The last row of each key as (revision, create revision); live keys and deletions that are not swept yet. A write
    is checked without asking the database.

    A deleted key is remembered, with create revision 0, until compaction has removed its deletion: a key that comes
    back must follow that row (UNIQUE(key, prev_revision)).
    """

    def __init__(self, rows: Iterable[tuple[str, int, int]] = ()) -> None:
        self._heads: dict[str, Head] = {key: (revision, created) for key, revision, created in rows}
        graves = sorted((revision, key) for key, (revision, created) in self._heads.items() if not created)
        self._graves: deque[tuple[int, str]] = deque(graves)

    def decide(self, write: Write, revision: int) -> Record | WriteRefused:
        """The row that a write makes as the given revision, or why it makes none."""
        key, value, expected, deleted, _ = write
        head, created = self._heads.get(key, _NEVER)
        if created:
            if expected != head or not expected:
                return refusal(write, head)
        elif expected or deleted:
            return refusal(write, 0)
        return Record(revision, key, created or revision, head, deleted, value)

    def take(self, record: Record) -> tuple[str, Head | None]:
        """Moves a key's head to a row; returns what `put_back` needs."""
        before = self._heads.get(record.key)
        self._heads[record.key] = (record.revision, 0 if record.deleted else record.create_revision)
        if record.deleted:
            self._graves.append((record.revision, record.key))
        return record.key, before

    def put_back(self, taken: list[tuple[str, Head | None]]) -> None:
        """Undoes takes whose commit failed."""
        for key, before in reversed(taken):
            if not self._heads[key][1]:
                self._graves.pop()
            if before is None:
                del self._heads[key]
            else:
                self._heads[key] = before

    def alive(self, keep: tuple[str, ...]) -> list[int]:
        """The revisions of live keys that start with none of the prefixes, in key order."""
        found = sorted((key, head) for key, (head, created) in self._heads.items() if created)
        return [head for key, head in found if not key.startswith(keep)]

    def bury(self, swept: int) -> None:
        """Forgets deletions that compaction has removed."""
        while self._graves and self._graves[0][0] <= swept:
            revision, key = self._graves.popleft()
            if self._heads.get(key) == (revision, 0):
                del self._heads[key]


def refusal(write: Write, found: int) -> WriteRefused:
    """Why a write is refused whose key is alive at `found`, or not alive (0)."""
    kind = KeyMissing if not found else RevisionConflict if write.expected or write.deleted else KeyExists
    return kind(write.key, write.expected, found)


def content_checksum(key: str, value: bytes) -> int:
    """The part of a checksum that does not depend on how the row is numbered."""
    return crc32(value, crc32(key.encode("utf-8", "surrogateescape")))


def row_of(record: Record) -> tuple[Any, ...]:
    """A record as the columns `queries.COLUMNS`."""
    revision, key, create_revision, prev_revision, deleted, value = record
    gone = int(deleted)  # SQLite takes a number as it is, and asks around who might adapt a bool
    checksum = content_checksum(key, value) + revision + create_revision + prev_revision + gone
    return (revision, key, create_revision, prev_revision, gone, value, checksum)


def record_of(columns: Sequence[Any]) -> Record:
    """A row as a database returns it; SQLite has no booleans. Raises DamagedRow where it is not what was written."""
    revision, key, create_revision, prev_revision, deleted, value, stored = columns
    try:
        record = Record(revision, key, create_revision, prev_revision, bool(deleted), value)
        if row_of(record)[-1] == stored:
            return record
    except (TypeError, AttributeError):
        pass  # damage may change a column's type, too
    raise DamagedRow(revision, key)


class Publisher:
    """Hands rows to subscribers: in revision order, each exactly once. `position` is the last revision handed out."""

    def __init__(self, position: int) -> None:
        self.position: int = position
        self._subscribers: list[tuple[Feed, Lost | None]] = []

    def subscribe(self, feed: Feed, lost: Lost | None) -> Callable[[], None]:
        subscriber = (feed, lost)
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber) if subscriber in self._subscribers else None

    def publish(self, records: Sequence[Record]) -> None:
        """Hands out rows that follow the position without a gap; rows at or below it are passed over."""
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
            except Exception as error:  # noqa: BLE001 - it must not take the others' rows or the writers' answers along
                _report(error)

    def replace(self, snapshot: Snapshot) -> None:
        """Tells subscribers that rows are lost to them and what the state is now."""
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
    """Raises Compacted or FutureRevision unless the state at a revision can be told."""
    if revision > current:
        raise FutureRevision(revision, current)
    if revision < compacted:
        raise Compacted(revision, compacted)
