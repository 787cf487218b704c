"""Writing to the log on Postgres: appends in batches, resets, restores and the first state of an empty log."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from apiserver.runtime.clock import bind_now
from apiserver.storage.log import queries
from apiserver.storage.log.restoring import MOST_EVENTS, build_rows, plan
from apiserver.storage.log.rows import (
    Authors,
    Publisher,
    content_checksum,
    micros_of,
    record_of,
    refusal,
    row_of,
)
from apiserver.storage.log.types import (
    Record,
    Restore,
    Restored,
    StorageFull,
    StorageUnavailable,
    Write,
    WriteRefused,
)
from apiserver.storage.postgres import statements as sql
from apiserver.storage.postgres.connections import Connection, Link, fetch

MAX_BATCH = 256
MAX_BATCH_BYTES = 1 << 20


class _Reset(NamedTuple):
    """A reset in the queue of writes."""

    keep: frozenset[str]
    author: str


Operation = Write | _Reset | Restore


class Writer(ABC):
    """The writing half of `PostgresLog`: one commit at a time, in the order of the calls."""

    def __init__(self, writer: Link, publisher: Publisher) -> None:
        self._writer, self._publisher = writer, publisher
        self._compacted = 0
        self._authors, self._now = Authors(), bind_now()
        self._waiting: deque[tuple[Operation, asyncio.Future[Any]]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._hint = asyncio.Event()
        self._closed = False

    @abstractmethod
    async def _pull(self) -> int:
        """Publish the table's rows beyond the position. Return the table's revision."""

    def append(self, write: Write) -> Awaitable[Record]:
        return self._enqueue(write)

    def reset(self, keep: Iterable[str] = (), author: str = "") -> Awaitable[int]:
        return self._enqueue(_Reset(frozenset(keep), author))

    def restore(self, wanted: Restore) -> Awaitable[Restored]:
        return self._enqueue(wanted)

    def _enqueue(self, operation: Operation) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(StorageUnavailable("the store is closed"))
            return future
        self._waiting.append((operation, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return future

    async def _write(self) -> None:
        """Commit batches until the queue is empty. Writes that arrive during a commit form the next batch."""
        waiting = self._waiting
        while waiting:
            operation, future = waiting[0]
            batch = [waiting.popleft()]
            if isinstance(operation, Write):
                size = len(operation.value)
                while (
                    waiting and len(batch) < MAX_BATCH and size < MAX_BATCH_BYTES and isinstance(waiting[0][0], Write)
                ):
                    batch.append(waiting.popleft())
                    size += len(batch[-1][0].value)  # type: ignore[union-attr]
            try:
                if isinstance(operation, Write):
                    answers = await self._append([each for each, _ in batch])  # type: ignore[misc]
                elif isinstance(operation, Restore):
                    answers = [await self._restore(operation)]
                else:
                    answers = [await self._reset(operation)]
            except Exception as error:  # noqa: BLE001  every writer must get an answer
                kind = StorageFull if isinstance(error, StorageFull) else StorageUnavailable
                answers = [kind(str(error)) for _ in batch]
                self._hint.set()  # rows committed in spite of the error are in the table
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue  # the caller was cancelled; the commit stays
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._writing = None

    async def _author_ids(self, texts: Iterable[str]) -> list[int]:
        """Return the ids of authors; store those that this server has not stored yet."""
        unstored: dict[int, str] = {}
        ids = [self._authors.id_of(text, unstored) for text in texts]
        if unstored:
            await self._writer.fetch(sql.INSERT_AUTHORS, ([*unstored], [*unstored.values()]))
            self._authors.mark_stored(unstored)
        return ids

    async def _append(self, writes: list[Write]) -> list[Any]:
        columns = (
            [write.key for write in writes],
            [write.value for write in writes],
            [write.expected for write in writes],
            [write.deleted for write in writes],
            [content_checksum(write.key, write.value) for write in writes],
            await self._author_ids(write.author for write in writes),
            micros_of(self._now()),
        )
        answers: list[Record | WriteRefused] = [
            Record(revision, write.key, created, previous, write.deleted, write.value)
            if revision
            else refusal(write, previous)
            for write, (revision, created, previous) in zip(
                writes, await self._writer.fetch(sql.APPEND, columns), strict=True
            )
        ]
        await self._publish([answer for answer in answers if isinstance(answer, Record)])
        return answers

    async def _reset(self, reset: _Reset) -> int:
        (author,) = await self._author_ids([reset.author])
        signed = {"keep": [*reset.keep], "author": author, "written": micros_of(self._now())}
        async with self._writer.use() as connection, connection.transaction():
            ((base,),) = await fetch(connection, sql.LOCK_COUNTER)
            rows = sorted(record_of(row) for row in await fetch(connection, sql.RESET, {"base": base, **signed}))
            if rows:
                reached = {"revision": rows[-1].revision}
                await fetch(connection, sql.ADVANCE, reached)
                await fetch(connection, sql.NOTIFY, reached)
        await self._publish(rows)
        return len(rows)

    async def _restore(self, restore: Restore) -> Restored:
        (author,) = await self._author_ids([restore.author])
        async with self._writer.use() as connection, connection.transaction():
            ((base,),) = await fetch(connection, sql.LOCK_COUNTER)
            heads = await fetch(connection, queries.HEADS)
            planned = plan(((key, (revision, created)) for key, revision, created in heads), restore)
            revisions = [change.revision for change in planned.changed]
            found = await fetch(connection, sql.ROWS_AT, {"revisions": revisions}) if revisions else []
            restored = build_rows(planned, {row[0]: record_of(row).value for row in found}, base, restore)
            if restored.rows:
                await self._insert(connection, restored.rows, micros_of(self._now()), author)
                reached = {"revision": restored.rows[-1].revision}
                await fetch(connection, sql.ADVANCE, reached)
                await fetch(connection, sql.NOTIFY, reached)
        if len(restored.rows) > MOST_EVENTS:
            while restored.rows[0].revision - 1 > self._publisher.position:
                await self._pull()
            self._publisher.replace(restored.snapshot())
        else:
            await self._publish(restored.rows)
        return restored

    async def load(self, records: Sequence[Record], revision: int, meta: Mapping[str, bytes]) -> None:
        async with self._writer.use() as connection, connection.transaction():
            ((reached,),) = await fetch(connection, sql.LOCK_COUNTER)
            if reached:
                raise StorageUnavailable("the store is not empty")
            await self._insert(connection, records)
            for name, value in meta.items():
                await fetch(connection, sql.PUT_META, {"name": name, "value": value})
            await fetch(connection, sql.BEGIN_AT, {"revision": revision})
            await fetch(connection, sql.NOTIFY, {"revision": revision})
        self._publisher.position = self._compacted = revision

    @staticmethod
    async def _insert(
        connection: Connection, records: Sequence[Record], written: int | None = None, author: int | None = None
    ) -> None:
        """Insert finished rows of one time and author."""
        async with connection.cursor() as cursor, cursor.copy(sql.COPY.encode()) as copy:
            copy.set_types(sql.COPY_TYPES)
            for record in records:
                row = row_of(record)
                await copy.write_row((*row[:4], record.deleted, *row[5:], written, author))

    async def _publish(self, records: list[Record]) -> None:
        """Publish own rows, after the rows of other servers that precede them."""
        if records:
            while records[0].revision - 1 > self._publisher.position:
                await self._pull()
            self._publisher.publish(records)
