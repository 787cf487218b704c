"""The writer's side of SQLite: what waits to be written, and one connection, one job at a time, in a thread or on the
loop.

A file that must reach the disk is written by a thread of its own. A store in memory, or one that need not survive a
power cut, is written on the loop: the hand-over to a thread and back costs more than the write (ADR 0002).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol

from apiserver.storage import queries
from apiserver.storage.rows import record_of, row_of
from apiserver.storage.sqlite_room import again, with_room
from apiserver.storage.types import Record, StorageFull, StorageUnavailable, Write, WriteRefused

Connection = sqlite3.Connection
Job = Callable[[Connection], Any]
Done = Callable[[Any, Exception | None], None]

INSERT = f"INSERT INTO log ({queries.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
ADVANCE = "UPDATE counter SET revision = ? WHERE id = 1 AND revision = ?"


class Reset:
    """A reset's place among the waiting writes."""

    __slots__ = ("keep",)

    def __init__(self, keep: tuple[str, ...]) -> None:
        self.keep = keep


def frees(operation: Write | Reset) -> bool:
    """Whether a write is for having less afterwards."""
    return isinstance(operation, Reset) or operation.deleted or operation.frees


def answer_all(answers: Iterable[tuple[asyncio.Future[Any], Any]]) -> None:
    """Gives those who wait for writes their records, or the reasons for which they were refused."""
    for future, answer in answers:
        if future.done():
            continue  # the asker went away; what was committed stays committed
        if isinstance(answer, WriteRefused):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def fail(futures: Iterable[asyncio.Future[Any]], error: Exception) -> None:
    """The error as StorageUnavailable, one for each: an exception gathers a traceback where it is raised."""
    made = StorageFull if isinstance(error, StorageFull) else StorageUnavailable
    for future in futures:
        if not future.done():
            future.set_exception(made(str(error)))


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


def append_rows(connection: Connection, rows: Sequence[Record], base: int) -> None:
    """Appends rows whose revisions follow `base`, in one commit; again where there was no room.

    If the commit fails, the table says whether it happened: raises only when it did not, or when that cannot be told.
    """
    values = list(map(row_of, rows))
    reached = rows[-1].revision
    try:
        try:
            _commit(connection, values, base, reached)
        except sqlite3.Error as error:
            again(connection, error, lambda: _commit(connection, values, base, reached))
    except (sqlite3.Error, StorageUnavailable) as error:
        (found,) = connection.execute("SELECT revision FROM counter WHERE id = 1").fetchone()
        if found == reached and reached != base:
            return
        if isinstance(error, StorageFull):
            raise
        raise StorageUnavailable(f"the write failed: {error}") from error


def _commit(connection: Connection, values: Sequence[Any], base: int, reached: int) -> None:
    """Writes rows, and moves the counter from `base` to the last of them."""
    cursor = connection.cursor()
    try:
        cursor.execute("BEGIN IMMEDIATE")
        cursor.executemany(INSERT, values)
        if cursor.execute(ADVANCE, (reached, base)).rowcount != 1:
            raise StorageUnavailable("the database was changed by somebody else; restart the server")
        cursor.execute("COMMIT")
    except (sqlite3.Error, StorageUnavailable):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


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
