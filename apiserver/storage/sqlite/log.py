"""Read and compact the revision log on SQLite, in a file or in memory. One server owns the database.

`writer` contains the write path.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from apiserver.storage.log import queries
from apiserver.storage.log.rows import Heads, check_past, record_of, signed_row_of
from apiserver.storage.log.types import (
    Compacted,
    Feed,
    FutureRevision,
    HistoryEvent,
    Lost,
    Record,
    SignedRow,
    Snapshot,
    StorageFull,
    StorageUnavailable,
)
from apiserver.storage.sqlite.disk_reserve import run_or_retry
from apiserver.storage.sqlite.engine import Connection, Engine
from apiserver.storage.sqlite.files import DatabaseFiles
from apiserver.storage.sqlite.reader import Readers
from apiserver.storage.sqlite.writer import Writer, load_rows
from apiserver.storage.watchcache.keys import end_of

MAX_AUTHORS = 10_000  # an author takes about 200 bytes
SWEEP_REVISIONS = 250
SWEEP_REST = 2.0  # pause after a step while there are writes, as a multiple of the step's duration
TIMES = 5000  # rows whose times are compared per read: a few ms
PAGE = 250  # rows per read: bounds how long the loop is blocked, or the memory of a page in a thread


class SqliteLog(Writer):
    """RevisionLog on one SQLite database; created by `opening`.

    `connect_reader` opens another connection for reads in threads. It is None in memory: `connection` is then read on
    the loop in small pages. `files` is None in memory.
    """

    def __init__(
        self,
        connection: Connection,
        engine: Engine,
        connect_reader: Callable[[], Connection] | None,
        files: DatabaseFiles | None = None,
    ) -> None:
        revision, compacted, swept = connection.execute(queries.COUNTER).fetchone()
        super().__init__(connection, engine, revision, files)
        self._compacted: int = compacted
        self._swept: int = swept
        self._connection = connection
        self._readers = None if connect_reader is None else Readers(connect_reader)
        self._compaction = asyncio.Lock()

    @property
    def revision(self) -> int:
        return self._publisher.position

    @property
    def compacted(self) -> int:
        return self._compacted

    def subscribe(self, feed: Feed, lost: Lost | None = None) -> Callable[[], None]:
        return self._publisher.subscribe(feed, lost)

    # Reading

    async def current_revision(self) -> int:
        if self._broken:
            raise StorageUnavailable(self._broken)
        return self._publisher.position

    async def get(self, key: str, at: int | None = None) -> Record | None:
        at = self._check(at)
        rows = await self._fetch(queries.GET, {"key": key, "at": at})
        self._check(at)
        return None if not rows or rows[0][4] else record_of(rows[0])

    async def state(
        self, prefix: str = "", at: int | None = None, *, start: str = "", limit: int | None = None
    ) -> Snapshot:
        at = self._check(at)
        span = {"low": max(prefix, start), "high": end_of(prefix) or queries.NO_END, "at": at}
        wanted = queries.NO_LIMIT if limit is None else limit
        rows: list[Record] = []
        while len(rows) < wanted:
            page = min(wanted - len(rows), PAGE)
            got = await self._fetch(queries.STATE, {**span, "limit": page})
            rows += [record_of(row) for row in got]
            if len(got) < page:
                self._check(at)
                return Snapshot(at, rows)
            span["low"] = rows[-1].key + "\0"
        ((remaining,),) = await self._fetch(queries.STATE_COUNT, span)
        self._check(at)
        return Snapshot(at, rows, remaining)

    async def after(self, revision: int, limit: int) -> list[Record]:
        self._check(revision)
        rows: list[Record] = []
        while len(rows) < limit:
            page = min(limit - len(rows), PAGE)
            after = rows[-1].revision if rows else revision
            got = await self._fetch(queries.AFTER, {"after": after, "limit": page})
            reached = self._publisher.position  # a commit that is not published yet must stay invisible
            rows += [record_of(row) for row in got if row[0] <= reached]
            if len(got) < page or got[-1][0] > reached:
                break
        self._check(revision)
        return rows

    async def history(self, prefix: str, after: int, through: int, limit: int) -> list[HistoryEvent]:
        self._check(after)
        span = {"low": prefix, "high": end_of(prefix) or queries.NO_END, "after": after, "through": through}
        rows: list[Any] = []
        while len(rows) < limit:
            page = min(limit - len(rows), PAGE)
            got = await self._fetch(queries.HISTORY, {**span, "limit": page})
            rows += got
            if len(got) < page:
                break
            span["after"] = got[-1][0]
        self._check(after)
        return [HistoryEvent(record_of(row[:7]), None if row[7] is None else record_of(row[7:])) for row in rows]

    async def signed_rows(self, low: str, high: str, limit: int) -> list[SignedRow]:
        span = {"low": low, "high": high, "at": self._check(None), "limit": limit}
        return [signed_row_of(row) for row in await self._fetch(queries.SIGNED, span)]

    async def revision_at(self, written: int) -> int:
        high = self._check(None)
        while high >= max(self._compacted, 1):
            span = {"low": max(high - TIMES, self._compacted - 1), "high": high, "written": written}
            if rows := await self._fetch(queries.AT_TIME, span):
                return int(rows[0][0])
            high = span["low"]
        return 0

    async def time_of(self, revision: int) -> int:
        rows = await self._fetch(queries.TIME_OF, {"revision": revision, "at": self._check(None)})
        return (rows[0][0] or 0) if rows else 0

    def _check(self, revision: int | None) -> int:
        """Return the revision to read at.

        Checked before and after a read, because compaction records its revision before it deletes rows.
        """
        if self._closed:
            raise StorageUnavailable("the store is closed")
        if revision is None:
            return self.revision
        check_past(revision, self._compacted, self._publisher.position)
        return revision

    async def _fetch(self, query: str, values: dict[str, Any]) -> list[Any]:
        try:
            if self._readers is not None:
                return await self._readers.fetch(query, values)
            await asyncio.sleep(0)
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StorageUnavailable(f"the read failed: {error}") from error

    # Upkeep

    async def compact(self, revision: int) -> int:
        if revision > self._publisher.position:
            raise FutureRevision(revision, self._publisher.position)
        async with self._compaction:
            if revision < self._compacted:
                raise Compacted(revision, self._compacted)
            self._compacted = revision
            await self._run(partial(promise, revision=revision))
            gone, step = 0, SWEEP_REVISIONS
            while self._swept < revision:
                begin, position = self._loop.time(), self._publisher.position
                high = min(self._swept + step, revision)
                try:
                    gone += await self._run(partial(sweep, low=self._swept, high=high))
                except StorageFull:
                    if step == 1:
                        raise
                    step = max(step // 8, 1)  # a smaller step needs less space
                    continue
                self._swept = high
                self._heads.drop_swept(high)
                busy = self._publisher.position != position
                await asyncio.sleep((self._loop.time() - begin) * SWEEP_REST if busy else 0)
            await self._delete_unused_authors()
            return gone

    async def load(self, records: Sequence[Record], revision: int, meta: Mapping[str, bytes]) -> None:
        await self._run(partial(load_rows, records=records, revision=revision, meta=meta))
        self._publisher.position = self._compacted = self._swept = revision
        self._heads = Heads((record.key, record.revision, record.create_revision) for record in records)
        if self._files is not None:
            self._files.marker.write(revision, self._files.durability)

    async def _delete_unused_authors(self) -> None:
        """Delete the authors of swept rows, if there are many; one that is deleted too early is stored again."""
        ((number,),) = await self._run(lambda connection: connection.execute(queries.COUNT_AUTHORS).fetchall())
        if number > MAX_AUTHORS:
            self._authors.clear()
            await self._run(lambda connection: connection.execute(queries.DELETE_UNUSED_AUTHORS).rowcount)

    async def get_or_set_meta(self, name: str, value: bytes) -> bytes:
        def job(connection: Connection) -> bytes:
            connection.execute("INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, value))
            ((kept,),) = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchall()
            return bytes(kept)

        kept: bytes = await self._run(job)
        return kept

    async def delete_meta(self, name: str, value: bytes) -> None:
        def job(connection: Connection) -> None:
            connection.execute("DELETE FROM meta WHERE name = ? AND value = ?", (name, value))

        await self._run(job)

    async def get_meta(self, name: str) -> bytes | None:
        def job(connection: Connection) -> bytes | None:
            found = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
            return None if found is None else bytes(found[0])

        kept: bytes | None = await self._run(job)
        return kept

    async def close(self) -> None:
        if self._closed:
            return
        await self._stop_writing()
        if self._readers is not None:
            await self._readers.close()
        if self._files is not None:
            self._files.close()


def promise(connection: Connection, revision: int) -> None:
    """Record that history up to a revision must no longer be read."""
    run_or_retry(connection, lambda: connection.execute(queries.PROMISE, {"revision": revision}))


def sweep(connection: Connection, low: int, high: int) -> int:
    """Delete the rows that rows in (low, high] replaced, and deletions among these; return their number.

    It does not sync: rows that a power cut restores are swept again. The next write's commit also syncs the sweep.
    """
    return run_or_retry(connection, lambda: _sweep(connection, {"low": low, "high": high}))  # type: ignore[no-any-return]


def _sweep(connection: Connection, span: dict[str, int]) -> int:
    ((kept,),) = connection.execute("PRAGMA synchronous").fetchall()
    connection.execute(f"PRAGMA synchronous = {min(kept, 1)}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        gone = connection.execute(queries.SWEEP_REPLACED, span).rowcount
        gone += connection.execute(queries.SWEEP_DELETIONS, span).rowcount
        connection.execute(queries.SWEPT, span)
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute(f"PRAGMA synchronous = {kept}")
    return gone
