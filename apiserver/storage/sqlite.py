"""The revision log on SQLite, in a file or in memory. One server owns the database.

All decisions are made on the loop: `Heads` knows where every key is, so a batch of writes is checked and numbered
without asking the database, and the engine only has to append finished rows. At most one batch is under way; what
arrives meanwhile is the next batch, so the longer a commit takes the more writes share it.

Invariant: `Heads`, the counter row and the feed's position agree whenever no batch is under way.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from apiserver.storage import queries
from apiserver.storage.keys import end_of
from apiserver.storage.rows import Heads, Publisher, check_past, record_of
from apiserver.storage.sqlite_engine import (
    Connection,
    Engine,
    Reset,
    answer_all,
    append_rows,
    delete_rows,
    fail,
    frees,
    promise,
    sweep,
)
from apiserver.storage.sqlite_place import Place
from apiserver.storage.sqlite_read import Readers
from apiserver.storage.sqlite_room import Room
from apiserver.storage.types import (
    Compacted,
    Feed,
    FutureRevision,
    HistoryEvent,
    Lost,
    Record,
    Snapshot,
    StorageError,
    StorageFull,
    StorageUnavailable,
    Write,
    WriteRefused,
)

log = logging.getLogger("kubedra.storage")
MAX_BATCH = 256
MAX_BATCH_BYTES = 1 << 20
SWEEP_REVISIONS = 250
SWEEP_REST = 2.0  # how much longer than a step the writers have for themselves before the next, if there are any
PAGE = 250  # rows read at once: on the loop, the time it is held up; in a thread, the memory that a page takes


class SqliteLog:
    """RevisionLog on one SQLite database; made by `opening.open_sqlite`.

    `connect_reader` opens a further connection for reading in threads; None where there can be none (in memory): then
    `connection` is read on the loop in small pages. `place` is what there is besides the database; None in memory.
    """

    def __init__(
        self,
        connection: Connection,
        engine: Engine,
        connect_reader: Callable[[], Connection] | None,
        place: Place | None = None,
    ) -> None:
        revision, compacted, swept = connection.execute(queries.COUNTER).fetchone()
        self._heads = Heads(connection.execute(queries.HEADS) if revision else ())
        self._connection = connection
        self._engine = engine
        self._readers = None if connect_reader is None else Readers(connect_reader)
        self._place = place
        self._publisher = Publisher(revision)
        self._compacted: int = compacted
        self._swept: int = swept
        self._waiting: deque[tuple[Write | Reset, asyncio.Future[Any]]] = deque()
        self._under_way = self._scheduled = self._closed = False
        self._compaction = asyncio.Lock()
        self._drained: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        #: Why nothing can be written any more (the file is gone), and why the last write failed.
        self._broken = self._failing = ""
        self._tidying: asyncio.Task[None] | None = None
        self._room = Room(engine, None if place is None else place.reserve)
        if place is not None:
            place.guard.start(self._notice)

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

    @property
    def revision(self) -> int:
        return self._publisher.position

    @property
    def compacted(self) -> int:
        return self._compacted

    def subscribe(self, feed: Feed, lost: Lost | None = None) -> Callable[[], None]:
        return self._publisher.subscribe(feed, lost)

    # Writing

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
            reached = self._publisher.position  # a commit that is not published yet is not to be seen
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

    def _check(self, revision: int | None) -> int:
        """The revision to read at. Checked before a read and after it: compaction promises before it removes."""
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
                    step = max(step // 8, 1)  # a smaller step needs less room
                    continue
                self._swept = high
                self._heads.bury(high)
                busy = self._publisher.position != position
                await asyncio.sleep((self._loop.time() - begin) * SWEEP_REST if busy else 0)
            return gone

    async def remember(self, name: str, value: bytes) -> bytes:
        def job(connection: Connection) -> bytes:
            connection.execute("INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, value))
            ((kept,),) = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchall()
            return bytes(kept)

        kept: bytes = await self._run(job)
        return kept

    async def recall(self, name: str) -> bytes | None:
        def job(connection: Connection) -> bytes | None:
            found = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
            return None if found is None else bytes(found[0])

        kept: bytes | None = await self._run(job)
        return kept

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

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._room.close()
        if self._waiting or self._under_way:
            self._drained = self._loop.create_future()
            await self._drained
        await self._engine.close()
        if self._readers is not None:
            await self._readers.close()
        if self._place is not None:
            self._place.close()
