"""The revision log on Postgres, shared by any number of servers.

The counter row's lock puts all servers' batches in one order. Revisions are therefore dense in commit order, and every
reader of the table sees a prefix of the history. Each server has one position in it. A server's own rows are published
when their commit is acknowledged. Rows of other servers are read from the table: before own rows that follow them,
after a notification, or at the latest when the poll interval has passed. A lost notification costs time, never rows.

A write whose acknowledgement is lost fails with StorageUnavailable. If it was committed, the feed brings its row like
another server's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg

from apiserver.runtime.clock import Timer, timers
from apiserver.storage.log import queries
from apiserver.storage.log.rows import (
    Publisher,
    check_past,
    record_of,
    signed_row_of,
)
from apiserver.storage.log.types import (
    Compacted,
    Durability,
    Feed,
    FutureRevision,
    HistoryEvent,
    Lost,
    Record,
    SignedRow,
    Snapshot,
    StorageUnavailable,
    UnusableDatabase,
)
from apiserver.storage.postgres import statements as sql
from apiserver.storage.postgres.connections import Connection, Link, connect, fetch, prepare_schema
from apiserver.storage.postgres.writer import Writer
from apiserver.storage.watchcache.keys import end_of

PULL_ROWS = 1000
SWEEP_REVISIONS = 1000
RETRY_SECONDS = 0.2
SWEEP_ID = 0x6B7564737765  # advisory lock of the running sweep


async def open_postgres(url: str, durability: Durability, poll_interval: float) -> PostgresLog:
    """Connect, prepare the schema, and start to follow the other servers."""
    await prepare_schema(url)
    log = PostgresLog(url, durability, poll_interval)
    try:
        await log.start()
    except StorageUnavailable as error:
        await log.close()
        raise UnusableDatabase(f"the database went away during the start: {error}") from error
    return log


class PostgresLog(Writer):
    """RevisionLog on one Postgres database.

    It has five connections: write, follow, listen, read the past, sweep.
    """

    def __init__(self, url: str, durability: Durability, poll_interval: float) -> None:
        commit = "off" if durability is Durability.OFF else "on"
        self._url = url
        super().__init__(Link(url, f"synchronous_commit = {commit}"), Publisher(0))
        self._follower = Link(url)
        self._reader = Link(url, "default_transaction_isolation = 'repeatable read'")
        # A sweep can be repeated, so it need not wait for the disk.
        self._sweeper = Link(url, "synchronous_commit = off")
        self._compacting = asyncio.Lock()
        self._poll_interval = poll_interval
        self._pulling = asyncio.Lock()
        self._revision_task: asyncio.Task[int] | None = None
        self._revision_lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        ((revision, self._compacted, _),) = await self._follower.fetch(queries.COUNTER)
        self._publisher.position = revision
        with timers(Timer.MACHINE):
            self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._follow())]

    @property
    def revision(self) -> int:
        return self._publisher.position

    @property
    def compacted(self) -> int:
        return self._compacted

    def subscribe(self, feed: Feed, lost: Lost | None = None) -> Callable[[], None]:
        return self._publisher.subscribe(feed, lost)

    # Following the other servers

    async def _listen(self) -> None:
        """Set the hint on notifications of other servers' commits."""
        while True:
            with suppress(psycopg.Error, OSError):
                async with await connect(self._url) as connection:
                    await connection.execute("LISTEN kubedra_log")
                    self._hint.set()
                    async for notification in connection.notifies():
                        if notification.pid != self._writer.pid:
                            self._hint.set()
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_interval):
                    await self._hint.wait()
            self._hint.clear()
            try:
                await self._pull()
            except StorageUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001  a server that stops following would stay behind
                context = {"message": "following the other servers failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
                await asyncio.sleep(RETRY_SECONDS)

    async def _pull(self) -> int:
        """Publish the table's rows beyond the position. Return the table's revision."""
        async with self._pulling:
            while True:
                position = self._publisher.position
                values = {"after": position, "limit": PULL_ROWS}
                rows = await self._follower.retry(partial(fetch, query=sql.PULL, values=values))
                current, self._compacted = rows[0][:2]
                records = [record_of(row[2:]) for row in rows if row[2] is not None]
                if records and records[-1].revision - position == len(records):
                    self._publisher.publish(records)
                    if len(records) == PULL_ROWS:
                        continue
                elif current != position == self._publisher.position:
                    await self._replace_state()
                return int(current)

    async def _replace_state(self) -> None:
        """Replace the state: rows after the position were compacted, or the database was restored to an older state."""
        while True:
            with suppress(Compacted):
                self._publisher.replace(await self.state())
                return

    # Reading

    @property
    def is_full(self) -> bool:
        return False  # the database manages its own disk

    def problem(self) -> str:
        return ""  # `current_revision` queries the database

    async def current_revision(self) -> int:
        """Return the table's revision; callers during a query share the next one, which is newer than their calls.

        The query also pulls the rows, so that they are published before it returns.
        """
        if self._revision_task is None:
            self._revision_task = asyncio.create_task(self._request_revision())
        return await asyncio.shield(self._revision_task)

    async def _request_revision(self) -> int:
        async with self._revision_lock:
            self._revision_task = None
            return await self._pull()

    async def get(self, key: str, at: int | None = None) -> Record | None:
        async def read(connection: Connection, revision: int) -> list[tuple[Any, ...]]:
            return await fetch(connection, sql.GET, {"key": key, "at": revision})

        _, rows = await self._read(at, read)
        return None if not rows or rows[0][4] else record_of(rows[0])

    async def state(
        self, prefix: str = "", at: int | None = None, *, start: str = "", limit: int | None = None
    ) -> Snapshot:
        # Postgres' text cannot contain NUL, so "a\1" replaces the bound "a\0".
        low = max(prefix, start.partition("\0")[0] + "\1" if "\0" in start else start)
        span = {"low": low, "high": end_of(prefix) or queries.NO_END}
        wanted = queries.NO_LIMIT if limit is None else limit

        async def read(connection: Connection, revision: int) -> tuple[list[tuple[Any, ...]], int]:
            rows = await fetch(connection, sql.STATE, {**span, "at": revision, "limit": wanted})
            if len(rows) < wanted:
                return rows, 0
            rest = {**span, "at": revision, "low": rows[-1][1] + "\1"} if rows else {**span, "at": revision}
            ((remaining,),) = await fetch(connection, sql.STATE_COUNT, rest)
            return rows, remaining

        revision, (rows, remaining) = await self._read(at, read)
        return Snapshot(revision, [record_of(row) for row in rows], remaining)

    async def after(self, revision: int, limit: int) -> list[Record]:
        async def read(connection: Connection, _: int) -> list[tuple[Any, ...]]:
            return await fetch(connection, sql.AFTER, {"after": revision, "limit": limit})

        return [record_of(row) for row in (await self._read(revision, read))[1]]

    async def history(self, prefix: str, after: int, through: int, limit: int) -> list[HistoryEvent]:
        span = {"low": prefix, "high": end_of(prefix) or queries.NO_END, "after": after, "through": through}

        async def read(connection: Connection, _: int) -> list[tuple[Any, ...]]:
            return await fetch(connection, sql.HISTORY, {**span, "limit": limit})

        rows = (await self._read(after, read))[1]
        return [HistoryEvent(record_of(row[:7]), None if row[7] is None else record_of(row[7:])) for row in rows]

    async def signed_rows(self, low: str, high: str, limit: int) -> list[SignedRow]:
        span = {"low": low, "high": high, "limit": limit}

        async def read(connection: Connection, revision: int) -> list[tuple[Any, ...]]:
            return await fetch(connection, sql.SIGNED, {**span, "at": revision})

        return [signed_row_of(row) for row in (await self._read(None, read))[1]]

    async def revision_at(self, written: int) -> int:
        async def read(connection: Connection, revision: int) -> list[tuple[Any, ...]]:
            span = {"low": self._compacted - 1, "high": revision, "written": written}
            return await fetch(connection, sql.AT_TIME, span)

        rows = (await self._read(None, read))[1]
        return int(rows[0][0]) if rows else 0

    async def time_of(self, revision: int) -> int:
        async def read(connection: Connection, current: int) -> list[tuple[Any, ...]]:
            return await fetch(connection, sql.TIME_OF, {"revision": revision, "at": current})

        rows = (await self._read(None, read))[1]
        return (rows[0][0] or 0) if rows else 0

    async def _read(self, at: int | None, read: Callable[[Connection, int], Awaitable[Any]]) -> tuple[int, Any]:
        """Read at a revision (None: the current one), in one snapshot with the counter that allows or forbids it."""

        async def work(connection: Connection) -> tuple[int, Any]:
            async with connection.transaction():
                ((current, self._compacted, _),) = await fetch(connection, queries.COUNTER)
                revision = current if at is None else at
                check_past(revision, self._compacted, current)
                return revision, await read(connection, revision)

        if self._closed:
            raise StorageUnavailable("the store is closed")
        answer: tuple[int, Any] = await self._reader.retry(work)
        return answer

    # Upkeep

    async def compact(self, revision: int) -> int:
        """Compact up to a revision. One server sweeps at a time; the next sweep covers the others' promises."""
        async with self._compacting:
            async with self._sweeper.use() as connection:
                ((current, compacted, _),) = await fetch(connection, queries.COUNTER)
                if revision > current:
                    raise FutureRevision(revision, current)
                if revision < compacted:
                    raise Compacted(revision, compacted)
                await fetch(connection, sql.PROMISE, {"revision": revision})
                ((alone,),) = await fetch(connection, "SELECT pg_try_advisory_lock(%(id)s)", {"id": SWEEP_ID})
            self._compacted = max(self._compacted, revision)
            return await self._sweep(revision) if alone else 0

    async def _sweep(self, revision: int) -> int:
        """Sweep in steps. Each step locks the counter only at its end, and nothing else that writers need."""
        gone = 0
        async with self._sweeper.use() as connection:
            ((_, _, swept),) = await fetch(connection, queries.COUNTER)
        while swept < revision:
            span = {"low": swept, "high": min(swept + SWEEP_REVISIONS, revision)}
            async with self._sweeper.use() as connection, connection.transaction():
                for statement in (sql.SWEEP_REPLACED, sql.SWEEP_DELETIONS):
                    gone += (await connection.execute(statement.encode(), span)).rowcount
                await fetch(connection, sql.SWEPT, span)
            swept = span["high"]
        async with self._sweeper.use() as connection:
            await fetch(connection, "SELECT pg_advisory_unlock(%(id)s)", {"id": SWEEP_ID})
        return gone

    async def get_or_set_meta(self, name: str, value: bytes) -> bytes:
        async def work(connection: Connection) -> bytes:
            values = {"name": name, "value": value}
            insert = "INSERT INTO meta (name, value) VALUES (%(name)s, %(value)s) ON CONFLICT DO NOTHING"
            found: list[Any] = []
            while not found:  # the present row may be deleted between the statements
                await fetch(connection, insert, values)
                found = await fetch(connection, "SELECT value FROM meta WHERE name = %(name)s", values)
            return bytes(found[0][0])

        kept: bytes = await self._follower.retry(work)
        return kept

    async def delete_meta(self, name: str, value: bytes) -> None:
        async def work(connection: Connection) -> None:
            delete = "DELETE FROM meta WHERE name = %(name)s AND value = %(value)s"
            await fetch(connection, delete, {"name": name, "value": value})

        await self._follower.retry(work)

    async def get_meta(self, name: str) -> bytes | None:
        async def work(connection: Connection) -> bytes | None:
            found = await fetch(connection, "SELECT value FROM meta WHERE name = %(name)s", {"name": name})
            return bytes(found[0][0]) if found else None

        kept: bytes | None = await self._follower.retry(work)
        return kept

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._writing is not None:
            await self._writing
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in (self._writer, self._follower, self._reader, self._sweeper):
            await link.close()
