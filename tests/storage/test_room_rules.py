"""A full disk: retries, free space, and the writes that a full store accepts."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import pytest

from apiserver.storage import Write, open_log
from apiserver.storage.log.types import Record, StorageFull, StorageUnavailable
from apiserver.storage.sqlite.disk_reserve import (
    DiskSpace,
    FreeSpace,
    find_free_space,
    retry_after_checkpoint,
    run_or_retry,
)
from apiserver.storage.sqlite.salvage import Findings, _check_counter, _check_structure, _report, _unused_path
from apiserver.storage.watchcache.keys import SortedKeys
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


def failure(code: int = sqlite3.SQLITE_FULL) -> sqlite3.Error:
    error = sqlite3.OperationalError("no room" if code == sqlite3.SQLITE_FULL else "other")
    error.sqlite_errorcode = code
    return error


def failing(*errors: sqlite3.Error | None) -> Any:
    """Work that fails so each time it is done, and then succeeds; None succeeds at once."""
    left = [each for each in errors if each is not None]

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


def test_work_that_finds_no_room_is_done_once_more_when_the_log_was_worked_off() -> None:
    connection, other = sqlite3.connect(":memory:"), failure(sqlite3.SQLITE_BUSY)
    assert run_or_retry(connection, failing(None)) == run_or_retry(connection, failing(failure())) == "done"
    with pytest.raises(StorageFull, match="the disk is full: no room"):
        run_or_retry(connection, failing(failure(), failure()))
    with pytest.raises(sqlite3.OperationalError, match="other"):
        run_or_retry(connection, failing(failure(), other))
    with pytest.raises(sqlite3.OperationalError, match="other"):
        run_or_retry(connection, failing(other))
    connection.close()
    with pytest.raises(StorageFull, match="no room"):
        retry_after_checkpoint(connection, failure(), failing(None))


class Reserved:
    def __init__(self, *, there: bool) -> None:
        self.there, self.given = there, 0

    def allocate(self) -> bool:
        return self.there

    def release(self) -> None:
        self.given += 1


def test_room_is_on_the_disk_or_in_pages_of_deleted_rows(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x", isolation_level=None)
    connection.execute("CREATE TABLE t (v)")
    assert find_free_space(connection, None, 1) is FreeSpace.DISK
    assert find_free_space(connection, Reserved(there=True), 1) is FreeSpace.DISK  # type: ignore[arg-type]
    none: Any = Reserved(there=False)
    assert find_free_space(connection, none, 1) is FreeSpace.NONE
    connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    connection.execute("DELETE FROM t")
    free = (
        connection.execute("PRAGMA freelist_count").fetchone()[0] * connection.execute("PRAGMA page_size").fetchone()[0]
    )
    assert free > 0
    assert (find_free_space(connection, none, free), find_free_space(connection, none, free + 1)) == (
        FreeSpace.DATABASE,
        FreeSpace.NONE,
    )
    connection.close()


class ScriptedEngine:
    """An engine whose checks for free space return scripted results."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.asked = 0

    def submit(self, job: Any, done: Any) -> None:
        self.asked += 1
        if self.found:
            found = self.found.pop(0)
            done(*((None, found) if isinstance(found, Exception) else (found, None)))


@pytest.mark.closed_loop
async def test_a_store_without_room_looks_each_second_until_there_is_a_reserve_again() -> None:
    engine, reserve = ScriptedEngine(), Reserved(there=True)
    room = DiskSpace(engine, reserve)  # type: ignore[arg-type]
    assert (engine.asked, room.reason, room.careful) == (1, "", False), "the reserve is taken at the start"
    engine.found = [FreeSpace.NONE, OSError("bad"), FreeSpace.DATABASE, FreeSpace.DISK]
    room.mark_full("full")
    room.mark_full("again")
    assert (room.reason, room.careful, reserve.given) == ("full", True, 1)
    seen = []
    for _ in range(5):
        await passes(1)
        seen.append((engine.asked, room.reason, room.careful))
    assert seen == [(2, "full", True), (3, "full", True), (4, "", True), (5, "", False), (5, "", False)]
    room.mark_full("once more")
    room.close()
    await passes(9)
    assert engine.asked == 5, "a store that is closed looks no more"
    bare = DiskSpace(engine, None)  # type: ignore[arg-type]
    bare.mark_full("full")
    bare.close()
    assert engine.asked == 5


async def test_a_sweep_without_room_takes_smaller_steps_and_gives_up_at_one() -> None:
    log: Any = await open_log("memory:")
    for number in range(40):
        await log.append(Write(f"k{number}", b"v", 0))
        await log.append(Write(f"k{number}", b"w", 2 * number + 1))
    run_job, steps = log._run, []

    async def short(job: Any) -> Any:
        keywords = getattr(job, "keywords", {})
        if "high" not in keywords:
            return await run_job(job)
        steps.append(keywords["high"] - keywords["low"])
        if steps[-1] > most:
            raise StorageFull("no room")
        return await run_job(job)

    log._run, most = short, 20
    assert await log.compact(80) == 40
    refused = [step for step in steps if step > most]
    assert steps[: len(refused)] == refused == sorted(refused, reverse=True)
    assert (steps[0], len(refused)) == (80, 2)
    assert sum(step for step in steps if step <= most) == 80
    most = 0
    await log.append(Write("x", b"v", 0))
    with pytest.raises(StorageFull):
        await log.compact(81)
    await log.close()
    log._run = run_job
    with pytest.raises(StorageUnavailable, match="the store is closed"):
        await log.get_meta("x")


def test_sorted_keys_stay_sorted_while_their_pieces_grow_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apiserver.storage.watchcache.keys.PIECE", 2)
    random, there, ordered = Random(5), set[str](), SortedKeys()
    for _ in range(300):
        key = f"{random.randrange(40):02}"
        if key in there:
            ordered.remove(key)
            there.remove(key)
        else:
            ordered.add(key)
            there.add(key)
        expected = sorted(there)
        assert ordered.range("", None) == expected
        assert (len(ordered), ordered.rank(None)) == (len(there), len(there))
        assert all(
            0 < len(piece) <= 4 and piece[-1] == last
            for piece, last in zip(ordered._pieces, ordered._last, strict=True)
        )
        assert ordered.rank(key) == sum(each < key for each in expected)
        assert ordered.range("10", "30", 3) == [each for each in expected if "10" <= each < "30"][:3]


def test_what_is_damaged_is_told_with_what_is_left_of_it(tmp_path: Path) -> None:
    found = Findings(newest={"a": Record(5, "a", 1, 0, False, b"")})
    assert [_report(found, revision, key) for revision, key in ((3, ""), (3, "b"), (4, "a"), (6, "a"))] == [
        "revision 3: unreadable, key unknown",
        "b: the row at revision 3 is damaged; no other row is left",
        "a: an older row (revision 4) is damaged",
        "a: the row at revision 6 is damaged; the newest intact row is revision 5",
    ]
    connection = sqlite3.connect(":memory:")
    _check_counter(connection, found)
    _check_structure(connection, found)
    assert found.problems == ["counter: unreadable; the revision is taken from the rows"]
    connection.close()
    closed = Findings()
    _check_structure(connection, closed)
    assert closed.problems == ["file: Cannot operate on a closed database."]
    names = []
    for _ in range(3):
        names.append(_unused_path(tmp_path).name)
        (tmp_path / names[-1]).touch()
    assert names == ["kubedra.db.damaged-1", "kubedra.db.damaged-2", "kubedra.db.damaged-3"]
