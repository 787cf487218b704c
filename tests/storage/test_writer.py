"""The writer of a SQLite store: shared commits, failed commits, a full disk and a lost file.

Its engine waits until a test sets the outcome of a job.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from apiserver.storage import Durability, StorageUnavailable, Write
from apiserver.storage.log.types import Record, StorageFull
from apiserver.storage.sqlite.commit_marker import CommitMarker
from apiserver.storage.sqlite.engine import LoopEngine, ThreadEngine
from apiserver.storage.sqlite.opening import connect
from apiserver.storage.sqlite.writer import append_rows, fail
from tests.storage.caches import opened_log

pytestmark = pytest.mark.integration


class StepEngine:
    """An engine whose jobs wait until a test runs or fails them."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.waiting: list[tuple[Any, Any]] = []

    def submit(self, job: Any, done: Any) -> None:
        self.waiting.append((job, done))

    def go(self) -> None:
        self._engine.submit(*self.waiting.pop(0))

    def fail(self, error: Exception) -> None:
        self.waiting.pop(0)[1](None, error)

    async def close(self) -> None:
        await self._engine.close()


def with_steps(test: Callable[[Any, StepEngine], Awaitable[None]]) -> Callable[[], Coroutine[Any, Any, None]]:
    """Give a coroutine test a log in memory whose commits wait for the test."""

    async def run() -> None:
        log: Any
        async with opened_log("memory:") as log:
            log._engine = StepEngine(log._engine)
            await test(log, log._engine)

    return run


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def write(name: str, expected: int = 0, **more: Any) -> Write:
    return Write(name, b"v", expected, **more)


def outcome(future: asyncio.Future[Any]) -> Any:
    """Return a write's revision or the reason for its refusal; None while it is under way."""
    if not future.done():
        return None
    error = future.exception()
    return f"{type(error).__name__}: {error}" if error is not None else future.result().revision


@with_steps
async def test_writes_of_one_turn_are_one_commit_and_later_ones_wait_for_it(log: Any, engine: StepEngine) -> None:
    first = [log.append(write(name)) for name in ("a", "b", "a")]
    await turns()
    assert len(engine.waiting) == 1
    later = log.append(write("c"))
    await turns()
    assert (len(engine.waiting), [outcome(each) for each in first]) == (1, [None] * 3)
    engine.go()
    assert [outcome(each) for each in first] == [1, 2, "KeyExists: a: expected revision 0, found 1"]
    await turns()
    engine.go()
    assert (outcome(later), log.revision) == (3, 3)


@with_steps
async def test_refused_writes_alone_need_no_commit(log: Any, engine: StepEngine) -> None:
    refused = [log.append(write("a", 7)), log.append(write("b", 7))]
    await turns()
    assert engine.waiting == []
    assert [outcome(each)[:10] for each in refused] == ["KeyMissing"] * 2
    after = log.append(write("a"))
    await turns()
    engine.go()
    assert outcome(after) == 1


@with_steps
async def test_a_commit_that_failed_has_changed_nothing_and_says_so_until_one_succeeds(
    log: Any, engine: StepEngine
) -> None:
    made = log.append(write("a"))
    await turns()
    engine.go()
    failed = [log.append(write("a", 1)), log.append(write("b")), log.append(write("a", 1, deleted=True))]
    await turns()
    gone = failed[1]
    gone.cancel()
    engine.fail(StorageUnavailable("the write failed: x"))
    assert (outcome(made), log.revision, log.problem()) == (1, 1, "the write failed: x")
    assert outcome(failed[0]) == outcome(failed[2]) == "StorageUnavailable: the write failed: x"
    again = [log.append(write("a", 1)), log.append(write("b"))]
    await turns()
    engine.go()
    assert ([outcome(each) for each in again], log.problem()) == ([2, 3], "")


@with_steps
async def test_on_a_full_disk_only_what_frees_room_is_written_one_at_a_time(log: Any, engine: StepEngine) -> None:
    made = [log.append(write("a")), log.append(write("b"))]
    await turns()
    engine.go()
    assert [outcome(each) for each in made] == [1, 2]
    full = log.append(write("c"))
    await turns()
    waiting = [
        log.append(write("d")),
        log.append(write("a", 1, deleted=True)),
        log.append(write("b", 2, frees=True)),
    ]
    engine.fail(StorageFull("no room"))
    assert outcome(full) == outcome(waiting[0]) == "StorageFull: no room"
    assert (log.is_full, log.problem()) == (True, "no room")
    assert outcome(log.append(write("e"))) == "StorageFull: no room"
    assert [outcome(each) for each in waiting[1:]] == [None, None]
    log._space.reason, log._space.careful = "", False
    log._next(freed=True)
    await turns()
    engine.go()
    assert [outcome(each) for each in waiting[1:]] == [3, 4]


@with_steps
async def test_once_the_file_is_gone_nothing_is_written(log: Any, engine: StepEngine) -> None:
    under_way = log.append(write("a"))
    await turns()
    waiting = log.append(write("b"))
    log._stop_on_damage("the file is gone")
    assert (outcome(under_way), outcome(waiting)) == (None, "StorageUnavailable: the file is gone")
    assert outcome(log.append(write("c"))) == "StorageUnavailable: the file is gone"
    assert log.problem() == "the file is gone"
    engine.go()
    assert outcome(under_way) == 1


@with_steps
async def test_a_store_that_is_closed_has_answered_what_was_asked_before(log: Any, engine: StepEngine) -> None:
    first = log.append(write("a"))
    await turns()
    second = log.append(write("b"))
    closing = asyncio.ensure_future(log.close())
    await turns()
    assert outcome(log.append(write("c"))) == "StorageUnavailable: the store is closed"
    assert not closing.done()
    engine.go()
    await turns()
    assert (outcome(first), closing.done()) == (1, False)
    engine.go()
    await closing
    assert outcome(second) == 2


@with_steps
async def test_a_reset_is_one_commit_of_its_own_and_spares_what_it_is_told_to(log: Any, engine: StepEngine) -> None:
    log.append(write("keep/a"))
    log.append(write("b"))
    reset, after = log.reset(["keep/a"]), log.append(write("b"))
    await turns()
    engine.go()
    await turns()
    assert len(engine.waiting) == 1
    engine.fail(StorageUnavailable("x"))
    with pytest.raises(StorageUnavailable, match="x"):
        await reset
    await turns()
    assert (outcome(after), engine.waiting) == ("KeyExists: b: expected revision 0, found 2", [])
    again = log.reset(["keep/a"])
    await turns()
    while engine.waiting:
        engine.go()
        await turns()
    assert (await again, log.revision) == (1, 3)
    assert await log.reset(["keep/a"]) == 0


def rows(*revisions: int) -> list[Record]:
    return [Record(revision, f"k{revision}", revision, 0, False, b"v") for revision in revisions]


def test_a_commit_counts_as_done_where_the_table_says_so(tmp_path: Path) -> None:
    connection = connect(tmp_path / "x.db", Durability.OFF)
    append_rows(connection, rows(1, 2), 0)
    assert connection.execute("SELECT count(*) FROM log").fetchone() == (2,)
    append_rows(connection, rows(1, 2), 1)  # whose answer was lost: the counter has reached it
    for base, new in ((5, rows(6)), (2, rows(2))):
        with pytest.raises(StorageUnavailable, match=r"^the write failed: "):
            append_rows(connection, new, base)
        assert not connection.in_transaction
    append_rows(connection, rows(3), 2)
    assert connection.execute("SELECT count(*), max(revision) FROM log").fetchone() == (3, 3)
    connection.close()


async def test_every_engine_hands_over_results_and_errors_in_order_and_ends() -> None:
    async def run(kind: Any) -> list[Any]:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        engine, told = kind(connection), []
        engine.submit(lambda found: found.execute("SELECT 1").fetchone(), lambda *said: told.append(said))
        engine.submit(lambda _: 1 // 0, lambda result, error: told.append((result, type(error))))
        engine.submit(lambda _: 3, lambda *said: told.append(said))
        await engine.close()
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
        return told

    for kind in (LoopEngine, ThreadEngine):
        assert await run(kind) == [((1,), None), (None, ZeroDivisionError), (3, None)]


async def test_each_who_waits_gets_an_error_of_its_own() -> None:
    for error, kind in ((StorageFull("x"), StorageFull), (sqlite3.OperationalError("x"), StorageUnavailable)):
        futures = [asyncio.get_running_loop().create_future() for _ in range(3)]
        futures[1].set_result(5)
        fail(futures, error)
        errors = [futures[0].exception(), futures[2].exception()]
        assert [type(each) for each in errors] == [kind, kind]
        assert errors[0] is not errors[1]
        assert (str(errors[0]), futures[1].result()) == ("x", 5)


def test_a_mark_is_of_one_store_and_whole(tmp_path: Path) -> None:
    mark = CommitMarker(tmp_path, 7)
    assert mark.read() == (0, False)
    mark.write(5, Durability.FULL)
    assert mark.read() == (5, True)
    mark.write(6, Durability.NORMAL)
    mark.close()
    again, other = CommitMarker(tmp_path, 7), CommitMarker(tmp_path, 8)
    assert (again.read(), other.read()) == ((6, False), (0, False))
    again.close()
    other.close()
    file = tmp_path / "revision"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    torn = CommitMarker(tmp_path, 7)
    assert torn.read() == (0, False)
    torn.close()
