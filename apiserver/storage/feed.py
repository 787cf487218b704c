"""The ordered feed of committed rows, and the checks that both logs share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from apiserver.storage.types import Compacted, Feed, FutureRevision, Lost, Record, Snapshot


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
