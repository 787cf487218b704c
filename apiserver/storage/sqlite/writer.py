"""The writer's side of SQLite: what waits to be written, and how batches of it are committed."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from apiserver.storage.log import queries
from apiserver.storage.log.rows import Heads, Publisher, record_of, row_of
from apiserver.storage.log.types import Record, StorageError, StorageFull, StorageUnavailable, Write, WriteRefused
from apiserver.storage.sqlite.disk_reserve import Room, again
from apiserver.storage.sqlite.engine import Connection, Engine
from apiserver.storage.sqlite.files import Place

log = logging.getLogger("kubedra.storage")
MAX_BATCH = 256
MAX_BATCH_BYTES = 1 << 20

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


class Writer(ABC):
    """The writes of one database: what waits, the batch that is under way, and whether there is room for more.

    All decisions are made on the loop: `Heads` knows where every key is, so a batch of writes is checked and numbered
    without asking the database, and the engine only has to append finished rows. At most one batch is under way; what
    arrives meanwhile is the next batch, so the longer a commit takes the more writes share it.

    Invariant: `Heads`, the counter row and the feed's position agree whenever no batch is under way.
    """

    def __init__(self, connection: Connection, engine: Engine, position: int, place: Place | None) -> None:
        """`position` is the revision of the last row; `place` what there is besides the database; None in memory."""
        self._heads = Heads(connection.execute(queries.HEADS) if position else ())
        self._engine = engine
        self._place = place
        self._publisher = Publisher(position)
        self._waiting: deque[tuple[Write | Reset, asyncio.Future[Any]]] = deque()
        self._under_way = self._scheduled = self._closed = False
        self._drained: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        #: Why nothing can be written any more (the file is gone), and why the last write failed.
        self._broken = self._failing = ""
        self._tidying: asyncio.Task[None] | None = None
        self._room = Room(engine, None if place is None else place.reserve)
        if place is not None:
            place.guard.start(self._notice)

    def reset(self, keep: Iterable[str] = ()) -> Awaitable[int]:
        return self.append(Reset(tuple(keep)))

    def append(self, write: Write | Reset) -> Awaitable[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._closed or self._broken:
            future.set_exception(StorageUnavailable(self._broken or "the store is closed"))
            return future
        if self._room.reason and not frees(write):
            future.set_exception(StorageFull(self._room.reason))
            return future
        self._waiting.append((write, future))
        if not self._under_way and not self._scheduled:
            self._scheduled = True  # at the end of this turn of the loop: whoever is about to write comes along
            self._loop.call_soon(self._start)
        return future

    def _start(self) -> None:
        self._scheduled = False
        while self._waiting and not self._under_way:
            operation, future = self._waiting[0]
            if isinstance(operation, Reset):
                self._waiting.popleft()
                self._start_reset(operation, future)
            else:
                self._start_batch()

    def _start_batch(self) -> None:
        base = revision = self._publisher.position
        heads, waiting = self._heads, self._waiting
        rows, taken = list[Record](), []
        answers: list[tuple[asyncio.Future[Any], Record | WriteRefused]] = []
        size = 0
        most = 1 if self._room.careful else MAX_BATCH
        while waiting and len(answers) < most and size < MAX_BATCH_BYTES and isinstance(waiting[0][0], Write):
            operation, future = waiting.popleft()
            size += len(operation.value)  # type: ignore[union-attr]
            answer = heads.decide(operation, revision + 1)  # type: ignore[arg-type]
            if isinstance(answer, Record):
                revision += 1
                rows.append(answer)
                taken.append(heads.take(answer))
            answers.append((future, answer))
        if not rows:
            answer_all(answers)
            return

        def done(_: Any, error: Exception | None) -> None:
            if error is None:
                self._committed(rows, answers)
            else:
                heads.put_back(taken)
                self._refused([future for future, _ in answers], error)
            self._next()

        self._under_way = True
        self._engine.submit(partial(append_rows, rows=rows, base=base), done)

    def _start_reset(self, reset: Reset, future: asyncio.Future[Any]) -> None:
        base = self._publisher.position
        revisions = self._heads.alive(reset.keep)
        if not revisions:
            answer_all([(future, 0)])
            return

        def done(rows: Any, error: Exception | None) -> None:
            if error is None:
                for row in rows:
                    self._heads.take(row)
                self._committed(rows, [(future, len(rows))])
            else:
                self._refused([future], error)
            self._next()

        self._under_way = True
        self._engine.submit(lambda connection: delete_rows(connection, revisions, base), done)

    def _committed(self, rows: list[Record], answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
        self._failing = ""
        if self._place is not None:
            self._place.mark.write(rows[-1].revision, self._place.durability)
        self._publisher.publish(rows)
        answer_all(answers)

    def _refused(self, futures: list[asyncio.Future[Any]], error: Exception) -> None:
        if isinstance(error, StorageFull):
            self._fill(str(error))
        else:
            if str(error) != self._failing:
                log.error("%s", error)
            self._failing = str(error)
        fail(futures, error)

    def _next(self, *, tidied: bool = False) -> None:
        if self._room.careful and not tidied and not self._closed:
            self._tidying = self._loop.create_task(self._tidy())
            return
        self._under_way = False
        if self._waiting:
            if not self._scheduled:
                self._scheduled = True
                self._loop.call_soon(self._start)
        elif self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    async def _tidy(self) -> None:
        """Between two batches where room is short: history goes when there is none, and room is looked for."""
        try:
            if self._room.reason:
                with suppress(StorageError):
                    await self.compact(self._publisher.position)
        finally:
            self._room.look(partial(self._next, tidied=True))

    async def _run(self, job: Callable[[Connection], Any]) -> Any:
        """Runs a job between batches."""
        if self._closed:
            raise StorageUnavailable("the store is closed")
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Any, error: Exception | None) -> None:
            if error is None:
                answer_all([(future, result)])
            else:
                fail([future], error)

        self._engine.submit(job, done)
        return await future

    async def _stop_writing(self) -> None:
        """Commits what waits, and lets go of the connection."""
        self._closed = True
        self._room.close()
        if self._waiting or self._under_way:
            self._drained = self._loop.create_future()
            await self._drained
        await self._engine.close()

    @abstractmethod
    async def compact(self, revision: int) -> int:
        """Removes history before a revision."""

    # Trouble

    def _notice(self, reason: str) -> None:
        """Called by the guard's thread."""
        with suppress(RuntimeError):  # the loop was closed without closing the log; nobody waits any more
            self._loop.call_soon_threadsafe(self._break, reason)

    def _break(self, reason: str) -> None:
        log.error("%s", reason)
        self._broken = reason
        waiting, self._waiting = self._waiting, deque()
        fail([future for _, future in waiting], StorageUnavailable(reason))

    def problem(self) -> str:
        return self._broken or self._room.reason or self._failing

    @property
    def cramped(self) -> bool:
        return bool(self._room.reason)

    def _fill(self, reason: str) -> None:
        """The disk is full: what waits and frees nothing is refused."""
        self._room.fill(reason)
        waiting, self._waiting = self._waiting, deque(each for each in self._waiting if frees(each[0]))
        fail([future for operation, future in waiting if not frees(operation)], StorageFull(reason))


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
