"""Several servers on one Postgres database, and a database that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from apiserver.storage import (
    Expired,
    Record,
    RevisionLog,
    StorageUnavailable,
    WatchCache,
    Write,
    WriteRefused,
    open_log,
)
from apiserver.storage.log.rows import row_of
from apiserver.storage.postgres.log import PostgresLog
from tests.storage.caches import entry_of
from tests.support.patience import patience

pytestmark = [pytest.mark.integration, pytest.mark.real_time]


@asynccontextmanager
async def servers(url: str, count: int, poll_interval: float = 30.0) -> AsyncIterator[list[RevisionLog]]:
    """Open the logs of several servers; with so long a poll interval only notifications bring rows in time."""
    logs = [await open_log(url, poll_interval=poll_interval) for _ in range(count)]
    try:
        yield logs
    finally:
        await asyncio.gather(*(log.close() for log in logs))


async def reached(log: RevisionLog, revision: int) -> None:
    """Wait for the feed to reach a revision."""
    arrived = asyncio.Event()

    def check(_: Sequence[Record]) -> None:
        if log.revision >= revision:
            arrived.set()

    unsubscribe = log.subscribe(check)
    if log.revision < revision:
        async with patience():
            await arrived.wait()
    unsubscribe()


def end_connections(url: str, which: str = "true") -> None:
    """End the connections of this test's servers, as a restart of the database does."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'kubedra' AND {which}"
        )


async def test_rows_of_all_servers_arrive_everywhere_in_one_order(postgres_schema_url: str) -> None:
    async with servers(postgres_schema_url, 3) as logs:
        seen: list[list[Record]] = [[] for _ in logs]
        for log, rows in zip(logs, seen, strict=True):
            log.subscribe(rows.extend)

        async def writer(log: RevisionLog, rows: list[Record], name: str) -> None:
            expected = 0
            for _ in range(15):
                record = await log.append(Write(name, b"x", expected))
                assert rows[record.revision - 1] == record
                expected = record.revision

        await asyncio.gather(
            *(
                writer(log, rows, f"a/{n}-{m}")
                for n, (log, rows) in enumerate(zip(logs, seen, strict=True))
                for m in "ab"
            )
        )
        for log in logs:
            await reached(log, 90)
        assert [row.revision for row in seen[0]] == list(range(1, 91))
        assert seen[0] == seen[1] == seen[2]


async def test_only_one_server_wins_a_key(postgres_schema_url: str) -> None:
    async with servers(postgres_schema_url, 3) as logs:
        for turn in range(10):
            answers = await asyncio.gather(
                *(log.append(Write(f"a/{turn}", b"", 0)) for log in logs), return_exceptions=True
            )
            assert sorted(type(answer) is Record for answer in answers) == [False, False, True]
            assert all(isinstance(answer, Record | WriteRefused) for answer in answers)
        assert await logs[0].current_revision() == 10


async def test_a_consistent_read_sees_what_another_server_answered(postgres_schema_url: str) -> None:
    async with servers(postgres_schema_url, 2) as (one, two):
        caches = WatchCache(two, bytes)
        cache = caches.add("a/")
        await caches.start()
        for turn in range(10):
            record = await one.append(Write(f"a/{turn}", b'{"metadata":{}}', 0))
            await cache.consistent(timeout=120)
            assert entry_of(cache, record.key).revision == record.revision


async def test_rows_arrive_by_polling_when_notifications_are_lost(postgres_schema_url: str) -> None:
    async with servers(postgres_schema_url, 1, poll_interval=0.05) as (log,):
        with psycopg.connect(postgres_schema_url, autocommit=True) as connection:
            *row, deleted, value, checksum = row_of(Record(1, "a/x", 1, 0, False, b"x"))
            columns = (*row, bool(deleted), value, checksum)
            connection.execute("INSERT INTO log VALUES (%s, %s, %s, %s, %s, %s, %s, 1, 0)", columns)
            connection.execute("UPDATE counter SET revision = 1")  # as log_append does, but without its hint
        await reached(log, 1)


async def test_a_reset_on_one_server_reaches_the_others(postgres_schema_url: str) -> None:
    async with servers(postgres_schema_url, 2) as (one, two):
        await asyncio.gather(*(one.append(Write(f"a/{n}", b"", 0)) for n in range(5)))
        assert await two.reset(["a/0"]) == 4
        await reached(one, 9)
        assert [record.key for record in (await one.state()).records] == ["a/0"]


async def test_the_log_comes_back_after_its_connections_were_ended(postgres_schema_url: str) -> None:
    async with servers(postgres_schema_url, 2) as (one, two):
        seen: list[Record] = []
        two.subscribe(seen.extend)
        for turn in range(1, 4):
            await asyncio.to_thread(end_connections, postgres_schema_url)
            while True:  # what a client does with a retryable error
                try:
                    await one.append(Write(f"a/{turn}", b"", 0))
                    break
                except StorageUnavailable:
                    continue
            found = await two.get(f"a/{turn}")
            assert found is not None
            assert found.revision == turn
            await reached(two, turn)
        assert [record.revision for record in seen] == [1, 2, 3]


async def test_a_write_cut_off_from_the_database_is_unavailable_and_may_be_tried_again(
    postgres_schema_url: str,
) -> None:
    """The counter row is held by a stranger, so the write hangs; its connection is then ended under it."""
    async with servers(postgres_schema_url, 1) as (log,):
        await log.append(Write("a/first", b"", 0))
        stranger = await psycopg.AsyncConnection.connect(postgres_schema_url)
        await stranger.execute("SELECT revision FROM counter WHERE id = 1 FOR UPDATE")
        write = asyncio.ensure_future(log.append(Write("a/x", b"", 0)))
        await blocked(postgres_schema_url)
        await asyncio.to_thread(end_connections, postgres_schema_url, "wait_event_type = 'Lock'")
        with pytest.raises(StorageUnavailable):
            await write
        await stranger.rollback()
        await stranger.close()
        assert (await log.append(Write("a/x", b"", 0))).revision == 2


async def test_a_write_that_was_committed_without_an_answer_comes_by_the_feed(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers(postgres_schema_url, 1) as (log,):
        seen: list[Record] = []
        log.subscribe(seen.extend)
        assert isinstance(log, PostgresLog)
        fetch = log._writer.fetch

        async def lose_the_answer(*args: Any) -> None:
            await fetch(*args)
            raise StorageUnavailable("the answer is lost")

        with monkeypatch.context() as patch:
            patch.setattr(log._writer, "fetch", lose_the_answer)
            with pytest.raises(StorageUnavailable):
                await log.append(Write("a/x", b"1", 0))
        await reached(log, 1)
        assert seen == [Record(1, "a/x", 1, 0, False, b"1")]
        assert (await log.append(Write("a/x", b"2", 1))).revision == 2


async def blocked(url: str) -> None:
    """Return once a connection waits for a lock."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection, patience():
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kubedra' AND wait_event_type = 'Lock'"
        while await (await connection.execute(query)).fetchone() == (0,):
            await asyncio.sleep(0)


async def test_a_server_that_was_away_for_longer_than_history_is_kept_starts_again(postgres_schema_url: str) -> None:
    async with servers(postgres_schema_url, 2) as (one, two):
        assert isinstance(one, PostgresLog)
        caches = WatchCache(one, bytes)
        cache = caches.add("a/")
        await caches.start()
        kept = await two.append(Write("a/kept", b'{"metadata":{}}', 0))
        await caches.wait_for(kept.revision, 120)
        cursor = cache.cursor(0)
        async with one._pulling:  # the feed is held up
            gone = await two.append(Write("a/gone", b'{"metadata":{}}', 0))
            await two.append(Write("a/gone", b'{"metadata":{}}', gone.revision, deleted=True))
            new = await two.append(Write("a/new", b'{"metadata":{}}', 0))
            await two.compact(new.revision)
        await caches.wait_for(new.revision, 120)
        assert [entry.key for entry in cache.list().entries] == ["a/kept", "a/new"]
        with pytest.raises(Expired):
            cursor.next_batch()
