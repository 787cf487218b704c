"""The write path of SQLite: the queue of writes, and their commits in batches."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from apiserver.runtime.clock import bind_now
from apiserver.storage.log import queries
from apiserver.storage.log.restoring import MOST_EVENTS, Plan, build_rows, plan
from apiserver.storage.log.rows import Authors, Heads, Publisher, micros_of, record_of, row_of
from apiserver.storage.log.types import (
    Record,
    Restore,
    Restored,
    Snapshot,
    StorageError,
    StorageFull,
    StorageUnavailable,
    Write,
    WriteRefused,
)
from apiserver.storage.sqlite.disk_reserve import DiskSpace, retry_after_checkpoint
from apiserver.storage.sqlite.engine import Connection, Engine
from apiserver.storage.sqlite.files import DatabaseFiles

log = logging.getLogger("kubedra.storage")
MAX_BATCH = 256
MAX_BATCH_BYTES = 1 << 20

INSERT = f"INSERT INTO log ({queries.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
INSERT_SIGNED = INSERT.replace(") VALUES", ", written, author) VALUES").replace("?)", "?, ?, ?)")
INSERT_AUTHOR = "INSERT INTO author (id, text) VALUES (?, ?) ON CONFLICT DO NOTHING"
ADVANCE = "UPDATE counter SET revision = ? WHERE id = 1 AND revision = ?"


class Reset:
    """A reset in the queue of writes."""

    __slots__ = ("author", "keep")

    def __init__(self, keep: frozenset[str], author: str) -> None:
        self.keep, self.author = keep, author


class Signature(NamedTuple):
    """Time and authors of a batch: microseconds since 1970, an author's id per row or of all, and the new authors."""

    written: int
    ids: Sequence[int] | int
    unstored: dict[int, str]


Operation = Write | Reset | Restore


def frees(operation: Operation) -> bool:
    """Return whether a write frees space."""
    return isinstance(operation, Reset) or (isinstance(operation, Write) and (operation.deleted or operation.frees))


def resolve_all(answers: Iterable[tuple[asyncio.Future[Any], Any]]) -> None:
    """Resolve the futures of writes with their records or errors."""
    for future, answer in answers:
        if future.done():
            continue  # the caller was cancelled; the commit stays
        if isinstance(answer, WriteRefused):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def fail(futures: Iterable[asyncio.Future[Any]], error: Exception) -> None:
    """Fail each future with its own StorageUnavailable; a shared exception would collect every raiser's traceback."""
    kind = StorageFull if isinstance(error, StorageFull) else StorageUnavailable
    for future in futures:
        if not future.done():
            future.set_exception(kind(str(error)))


class Writer(ABC):
    """The write path of one database: the queue, the running batch and the free space.

    All decisions are made on the loop. `Heads` knows every key's revision, so a batch is checked and numbered without a
    query, and the engine only appends finished rows. At most one batch runs; writes that arrive meanwhile form the next
    one. The longer a commit takes, the more writes share it.

    Invariant: `Heads`, the counter row and the feed's position agree whenever no batch runs.
    """

    def __init__(self, connection: Connection, engine: Engine, position: int, files: DatabaseFiles | None) -> None:
        """Start the write path. `position` is the revision of the last row; `files` is None in memory."""
        self._heads = Heads(connection.execute(queries.HEADS) if position else ())
        self._authors, self._now = Authors(), bind_now()
        self._engine = engine
        self._files = files
        self._publisher = Publisher(position)
        self._waiting: deque[tuple[Operation, asyncio.Future[Any]]] = deque()
        self._under_way = self._scheduled = self._closed = False
        self._drained: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        #: Why no write can succeed any more (the file is gone), and why the last write failed.
        self._broken = self._failing = ""
        self._freeing: asyncio.Task[None] | None = None
        self._space = DiskSpace(engine, None if files is None else files.reserve)
        if files is not None:
            files.watchdog.start(self._report_damage)

    def reset(self, keep: Iterable[str] = (), author: str = "") -> Awaitable[int]:
        return self.append(Reset(frozenset(keep), author))

    def restore(self, wanted: Restore) -> Awaitable[Restored]:
        return self.append(wanted)

    def append(self, write: Operation) -> Awaitable[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._closed or self._broken:
            future.set_exception(StorageUnavailable(self._broken or "the store is closed"))
            return future
        if self._space.reason and not frees(write):
            future.set_exception(StorageFull(self._space.reason))
            return future
        self._waiting.append((write, future))
        if not self._under_way and not self._scheduled:
            self._scheduled = True  # at the end of this loop iteration, so that concurrent writes share the batch
            self._loop.call_soon(self._start)
        return future

    def _start(self) -> None:
        self._scheduled = False
        while self._waiting and not self._under_way:
            operation, future = self._waiting[0]
            if isinstance(operation, Reset):
                self._waiting.popleft()
                self._start_reset(operation, future)
            elif isinstance(operation, Restore):
                self._waiting.popleft()
                self._start_restore(operation, future)
            else:
                self._start_batch()

    def _start_batch(self) -> None:
        base = revision = self._publisher.position
        heads, waiting = self._heads, self._waiting
        rows, advanced, ids = list[Record](), [], list[int]()
        unstored: dict[int, str] = {}
        answers: list[tuple[asyncio.Future[Any], Record | WriteRefused]] = []
        size = 0
        most = 1 if self._space.careful else MAX_BATCH
        while waiting and len(answers) < most and size < MAX_BATCH_BYTES and isinstance(waiting[0][0], Write):
            operation, future = waiting.popleft()
            size += len(operation.value)  # type: ignore[union-attr]
            answer = heads.decide(operation, revision + 1)  # type: ignore[arg-type]
            if isinstance(answer, Record):
                revision += 1
                rows.append(answer)
                advanced.append(heads.advance(answer))
                ids.append(self._authors.id_of(operation.author, unstored))
            answers.append((future, answer))
        if not rows:
            resolve_all(answers)
            return

        def done(_: Any, error: Exception | None) -> None:
            if error is None:
                if unstored:
                    self._authors.mark_stored(unstored)
                self._publish_committed(rows, answers)
            else:
                heads.restore(advanced)
                self._fail_batch([future for future, _ in answers], error)
            self._next()

        self._under_way = True
        signature = Signature(micros_of(self._now()), ids, unstored)
        self._engine.submit(partial(append_rows, rows=rows, base=base, signature=signature), done)

    def _start_reset(self, reset: Reset, future: asyncio.Future[Any]) -> None:
        base = self._publisher.position
        revisions = self._heads.live_revisions(reset.keep)
        if not revisions:
            resolve_all([(future, 0)])
            return

        signature = self._sign_all(reset.author)

        def done(rows: Any, error: Exception | None) -> None:
            if error is None:
                self._authors.mark_stored(signature.unstored)
                for row in rows:
                    self._heads.advance(row)
                self._publish_committed(rows, [(future, len(rows))])
            else:
                self._fail_batch([future], error)
            self._next()

        self._under_way = True
        self._engine.submit(lambda connection: delete_rows(connection, revisions, base, signature), done)

    def _sign_all(self, author: str) -> Signature:
        """Return the signature of rows of one author."""
        unstored: dict[int, str] = {}
        number = self._authors.id_of(author, unstored)
        return Signature(micros_of(self._now()), number, unstored)

    def _start_restore(self, restore: Restore, future: asyncio.Future[Any]) -> None:
        base = self._publisher.position
        planned, signature = plan(self._heads.items(), restore), self._sign_all(restore.author)

        def done(restored: Any, error: Exception | None) -> None:
            if error is None:
                if restored.rows:
                    self._authors.mark_stored(signature.unstored)
                for row in restored.rows:
                    self._heads.advance(row)
                state = restored.snapshot() if len(restored.rows) > MOST_EVENTS else None
                self._publish_committed(restored.rows, [(future, restored)], state)
            else:
                self._fail_batch([future], error)
            self._next()

        self._under_way = True
        self._engine.submit(lambda connection: restore_rows(connection, planned, base, restore, signature), done)

    def _publish_committed(
        self, rows: list[Record], answers: list[tuple[asyncio.Future[Any], Any]], state: Snapshot | None = None
    ) -> None:
        """Publish rows, or the state after them, and resolve the futures of their writes."""
        self._failing = ""
        if rows:
            if self._files is not None:
                self._files.marker.write(rows[-1].revision, self._files.durability)
            if state is None:
                self._publisher.publish(rows)
            else:
                self._publisher.replace(state)
        resolve_all(answers)

    def _fail_batch(self, futures: list[asyncio.Future[Any]], error: Exception) -> None:
        if isinstance(error, StorageFull):
            self._refuse_growth(str(error))
        else:
            if str(error) != self._failing:
                log.error("%s", error)
            self._failing = str(error)
        fail(futures, error)

    def _next(self, *, freed: bool = False) -> None:
        if self._space.careful and not freed and not self._closed:
            self._freeing = self._loop.create_task(self._free_space())
            return
        self._under_way = False
        if self._waiting:
            if not self._scheduled:
                self._scheduled = True
                self._loop.call_soon(self._start)
        elif self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    async def _free_space(self) -> None:
        """Free space between two batches: compact history if the disk is full, then check for free space."""
        try:
            if self._space.reason:
                with suppress(StorageError):
                    await self.compact(self._publisher.position)
        finally:
            self._space.check(partial(self._next, freed=True))

    async def _run(self, job: Callable[[Connection], Any]) -> Any:
        """Run a job between batches."""
        if self._closed:
            raise StorageUnavailable("the store is closed")
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Any, error: Exception | None) -> None:
            if error is None:
                resolve_all([(future, result)])
            else:
                fail([future], error)

        self._engine.submit(job, done)
        return await future

    async def _stop_writing(self) -> None:
        """Commit queued writes and close the connection."""
        self._closed = True
        self._space.close()
        if self._waiting or self._under_way:
            self._drained = self._loop.create_future()
            await self._drained
        await self._engine.close()

    @abstractmethod
    async def compact(self, revision: int) -> int:
        """Delete history before a revision."""

    # Failures

    def _report_damage(self, reason: str) -> None:
        """Handle a failure reported by the watchdog's thread."""
        with suppress(RuntimeError):  # the loop was closed before the log; no caller is waiting
            self._loop.call_soon_threadsafe(self._stop_on_damage, reason)

    def _stop_on_damage(self, reason: str) -> None:
        log.error("%s", reason)
        self._broken = reason
        waiting, self._waiting = self._waiting, deque()
        fail([future for _, future in waiting], StorageUnavailable(reason))

    def problem(self) -> str:
        return self._broken or self._space.reason or self._failing

    @property
    def is_full(self) -> bool:
        return bool(self._space.reason)

    def _refuse_growth(self, reason: str) -> None:
        """Record that the disk is full. Refuse queued writes that free no space."""
        self._space.mark_full(reason)
        waiting, self._waiting = self._waiting, deque(each for each in self._waiting if frees(each[0]))
        fail([future for operation, future in waiting if not frees(operation)], StorageFull(reason))


def append_rows(connection: Connection, rows: Sequence[Record], base: int, signature: Signature | None = None) -> None:
    """Append rows whose revisions follow `base`, in one commit; retry once after a checkpoint if the disk is full.

    If the commit fails, the counter shows whether it happened. Raise only if it did not or if this is unknown.
    """
    inserts: list[tuple[str, Sequence[Any]]]
    if signature is None:
        inserts = [(INSERT, [*map(row_of, rows)])]
    else:
        written, ids, unstored = signature
        if isinstance(ids, int):
            ids = [ids] * len(rows)
        values = [(*row_of(row), written, author) for row, author in zip(rows, ids, strict=True)]
        inserts = [(INSERT_SIGNED, values)]
        if unstored:
            inserts.append((INSERT_AUTHOR, [*unstored.items()]))
    reached = rows[-1].revision
    commit = partial(_commit, connection, inserts, base, reached)
    try:
        try:
            commit()
        except sqlite3.Error as error:
            retry_after_checkpoint(connection, error, commit)
    except (sqlite3.Error, StorageUnavailable) as error:
        (found,) = connection.execute("SELECT revision FROM counter WHERE id = 1").fetchone()
        if found == reached and reached != base:
            return
        if isinstance(error, StorageFull):
            raise
        raise StorageUnavailable(f"the write failed: {error}") from error


def _commit(connection: Connection, inserts: Iterable[tuple[str, Sequence[Any]]], base: int, reached: int) -> None:
    """Insert rows, and move the counter from `base` to the last of them."""
    cursor = connection.cursor()
    try:
        cursor.execute("BEGIN IMMEDIATE")
        for statement, values in inserts:
            cursor.executemany(statement, values)
        if cursor.execute(ADVANCE, (reached, base)).rowcount != 1:
            raise StorageUnavailable("another process changed the database; restart the server")
        cursor.execute("COMMIT")
    except (sqlite3.Error, StorageUnavailable):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


ROWS_AT = """
SELECT revision, log.key, create_revision, prev_revision, deleted, log.value, checksum
FROM json_each(?) listed CROSS JOIN log ON log.revision = listed.value ORDER BY listed.key"""


def delete_rows(connection: Connection, revisions: Sequence[int], base: int, signature: Signature) -> list[Record]:
    """Append a deletion for each row at these revisions, in their order."""
    found = connection.execute(ROWS_AT, (f"[{','.join(map(str, revisions))}]",)).fetchall()
    rows = [
        Record(revision, old.key, old.create_revision, old.revision, True, old.value)
        for revision, old in enumerate(map(record_of, found), base + 1)
    ]
    append_rows(connection, rows, base, signature)
    return rows


def restore_rows(connection: Connection, planned: Plan, base: int, restore: Restore, signature: Signature) -> Restored:
    """Append the rows of a restore."""
    revisions = ",".join(str(change.revision) for change in planned.changed)
    found = map(record_of, connection.execute(ROWS_AT, (f"[{revisions}]",))) if revisions else ()
    restored = build_rows(planned, {row.revision: row.value for row in found}, base, restore)
    if restored.rows:
        append_rows(connection, restored.rows, base, signature)
    return restored


def load_rows(connection: Connection, records: Sequence[Record], revision: int, meta: Mapping[str, bytes]) -> None:
    """Fill an empty store. Raise sqlite3.Error or StorageUnavailable; nothing is written then."""
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    try:
        if cursor.execute("SELECT count(*) FROM log").fetchone() != (0,):
            raise StorageUnavailable("the store is not empty")
        cursor.executemany(INSERT, map(row_of, records))
        cursor.executemany("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", meta.items())
        cursor.execute("UPDATE counter SET revision = ?1, compacted = ?1, swept = ?1 WHERE id = 1", (revision,))
        cursor.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
