"""The history in the database's table, read row by row before compaction removes it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import orjson
import psycopg

PREFIX = "/registry/configmaps/"
_ROWS = "SELECT revision, key, deleted, value FROM log WHERE revision > %s ORDER BY revision LIMIT 5000"


class Row(NamedTuple):
    """One revision. `op` names the write, which marks its object with it; a deletion has that of the last state."""

    revision: int
    key: str
    deleted: bool
    op: str
    color: str
    uid: str


def row_of(revision: int, key: str, deleted: bool, value: bytes) -> Row:
    if not key.startswith(PREFIX):
        return Row(revision, key, deleted, "", "", "")
    obj = orjson.loads(value)
    metadata = obj["metadata"]
    op, color = (obj.get("data") or {}).get("op", ""), metadata.get("labels", {}).get("color", "")
    return Row(revision, key.removeprefix(PREFIX), deleted, op, color, metadata["uid"])


class Follower:
    """Reads the table repeatedly. `rows` are all rows so far; `gaps` name missing revisions."""

    def __init__(self, url: str, pause: float = 0.05) -> None:
        self._url, self._pause = url, pause
        self.rows: list[Row] = []
        self.gaps: list[str] = []

    async def run(self) -> None:
        while True:
            with suppress(psycopg.Error, OSError):
                async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
                    while True:
                        await self.read(connection)
                        await asyncio.sleep(self._pause)
            await asyncio.sleep(self._pause)

    async def finish(self) -> None:
        """Read the remaining rows."""
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            await self.read(connection)

    async def read(self, connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        last = self.rows[-1].revision if self.rows else 0
        async with connection.cursor(binary=True) as cursor:
            await cursor.execute(_ROWS, (last,))
            for record in await cursor.fetchall():
                row = row_of(*record)  # type: ignore[arg-type]
                if row.revision != last + 1:
                    self.gaps.append(f"revision {row.revision} follows {last} in the table")
                self.rows.append(row)
                last = row.revision


class Truth:
    """The whole history, indexed."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = {row.revision: row for row in rows}
        self.last = rows[-1].revision if rows else 0
        self.maps = [row for row in rows if "/" in row.key and not row.key.startswith("/")]
        self.of_key: dict[str, list[Row]] = {}
        self.before: dict[int, Row | None] = {}
        self.next: dict[int, int] = {}
        self.of_op: dict[str, list[Row]] = {}
        self.deletions: dict[str, list[Row]] = {}
        for row in self.maps:
            chain = self.of_key.setdefault(row.key, [])
            self.before[row.revision] = chain[-1] if chain else None
            if chain:
                self.next[chain[-1].revision] = row.revision
            chain.append(row)
            if row.deleted:
                self.deletions.setdefault(row.uid, []).append(row)
            else:
                self.of_op.setdefault(row.op, []).append(row)

    def possible(self, key: str, revision: int, low: int, high: int) -> bool:
        """Return whether `key` was at `revision` (0: absent) at some time between two revisions."""
        if revision:
            row = self.rows.get(revision)
            return (
                row is not None
                and row.key == key
                and not row.deleted
                and revision <= high
                and self.next.get(revision, high + 1) > low
            )
        chain = self.of_key.get(key, ())
        state = next((row for row in reversed(chain) if row.revision <= low), None)
        return state is None or state.deleted or any(row.deleted and low < row.revision <= high for row in chain)

    def alive(self, key: str, low: int, high: int) -> bool:
        """Return whether `key` existed at some time between two revisions."""
        chain = self.of_key.get(key, ())
        state = next((row for row in reversed(chain) if row.revision <= low), None)
        return (state is not None and not state.deleted) or any(
            not row.deleted and low < row.revision <= high for row in chain
        )

    def events(self, color: str, after: int, through: int) -> list[tuple[str, int]]:
        """Return the events of a watch of one color ("": of all) after one revision, up to another."""
        told = []
        for row in self.maps:
            if not after < row.revision <= through:
                continue
            old = self.before[row.revision]
            was = old is not None and not old.deleted and color in ("", old.color)
            now = not row.deleted and color in ("", row.color)
            if was or now:
                told.append(("DELETED" if not now else "MODIFIED" if was else "ADDED", row.revision))
        return told
