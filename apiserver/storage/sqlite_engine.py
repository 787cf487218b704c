"""The writer's side of SQLite: one connection, one job at a time, in a thread or on the loop.

A file that must reach the disk is written by a thread of its own. A store in memory, or one that need not survive a
power cut, is written on the loop: the hand-over to a thread and back costs more than the write (ADR 0002).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from apiserver.storage import queries
from apiserver.storage.integrity import record_of, row_of
from apiserver.storage.sqlite_room import with_room
from apiserver.storage.types import Record, StorageFull, StorageUnavailable

Connection = sqlite3.Connection
Job = Callable[[Connection], Any]
Done = Callable[[Any, Exception | None], None]

INSERT = f"INSERT INTO log ({queries.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
ADVANCE = "UPDATE counter SET revision = ? WHERE id = 1 AND revision = ?"


class Engine(Protocol):
    """Runs jobs on the writer connection, one after the other, and calls `done` on the loop with result or error."""

    def submit(self, job: Job, done: Done) -> None: ...

    async def close(self) -> None: ...


class LoopEngine:
    """Runs a job at once, on the loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def submit(self, job: Job, done: Done) -> None:
        """Runs a job and hands its result or its error to `done`, before this returns."""
        try:
            result = job(self._connection)
        except Exception as error:  # noqa: BLE001
            done(None, error)
        else:
            done(result, None)

    async def close(self) -> None:
        self._connection.close()


class ThreadEngine:
    """Runs jobs in a thread that owns the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._ended = self._loop.create_future()
        threading.Thread(target=self._run, name="kubedra-log", daemon=True).start()

    def submit(self, job: Job, done: Done) -> None:
        self._jobs.put((job, done))

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                result, error = job(self._connection), None
            except Exception as raised:  # noqa: BLE001
                result, error = None, raised
            self._tell(done, result, error)
        self._connection.close()
        self._tell(self._ended.set_result, None)

    def _tell(self, callback: Callable[..., Any], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed without closing the log; nobody waits any more
            self._loop.call_soon_threadsafe(callback, *args)

    async def close(self) -> None:
        self._jobs.put(None)
        await self._ended


def in_transaction(connection: Connection, base: int, revision: int, write: Callable[[], Any]) -> Any:
    """Runs `write`, again where there was no room, and moves the counter from `base` to `revision`, in one commit.

    If the commit fails, the table says whether it happened: raises only when it did not, or when that cannot be told.
    """
    result = None

    def attempt() -> None:
        nonlocal result
        cursor = connection.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE")
            result = write()
            if cursor.execute(ADVANCE, (revision, base)).rowcount != 1:
                raise StorageUnavailable("the database was changed by somebody else; restart the server")
            cursor.execute("COMMIT")
        except (sqlite3.Error, StorageUnavailable):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    try:
        with_room(connection, attempt)
    except (sqlite3.Error, StorageUnavailable) as error:
        (reached,) = connection.execute("SELECT revision FROM counter WHERE id = 1").fetchone()
        if reached == revision and revision != base:
            return result
        if isinstance(error, StorageFull):
            raise
        raise StorageUnavailable(f"the write failed: {error}") from error
    return result


def append_rows(connection: Connection, rows: Sequence[Record], base: int) -> None:
    """Appends rows whose revisions follow `base`."""
    values = list(map(row_of, rows))  # a list, as it may be written twice: where there is no room at first
    in_transaction(connection, base, rows[-1].revision, partial(connection.executemany, INSERT, values))


ROWS_AT = """
SELECT revision, log.key, create_revision, prev_revision, deleted, log.value, checksum
FROM json_each(?) listed CROSS JOIN log ON log.revision = listed.value ORDER BY listed.key"""


def delete_rows(connection: Connection, revisions: Sequence[int], base: int) -> list[Record]:
    """Appends a deletion for each of the rows at these revisions, in their order."""
    found = connection.execute(ROWS_AT, (f"[{','.join(map(str, revisions))}]",)).fetchall()
    rows = [
        Record(revision, old.key, old.create_revision, old.revision, True, old.value)
        for revision, old in enumerate(map(record_of, found), base + 1)
    ]
    append_rows(connection, rows, base)
    return rows


def promise(connection: Connection, revision: int) -> None:
    """Says that history up to a revision is not to be read any more."""
    with_room(connection, lambda: connection.execute(queries.PROMISE, {"revision": revision}))


def sweep(connection: Connection, low: int, high: int) -> int:
    """Removes the rows that rows in (low, high] replaced, and deletions among these; says how many.

    The disk is not waited for: what a power cut undoes is swept again, and the next write's commit takes the sweep
    along.
    """
    return with_room(connection, lambda: _sweep(connection, {"low": low, "high": high}))  # type: ignore[no-any-return]


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
