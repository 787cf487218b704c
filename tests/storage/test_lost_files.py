"""A server notices that its database is removed, and acknowledges no more writes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apiserver.storage import RevisionLog, StorageFull, StorageUnavailable, UnusableDatabase, Write, open_log
from apiserver.storage.sqlite.file_watchdog import FileWatchdog
from apiserver.storage.sqlite.log import SqliteLog
from tests.storage.caches import opened_log
from tests.support.patience import become

pytestmark = [pytest.mark.integration, pytest.mark.real_time]


def _remove(store: Path) -> None:
    (store / "kubedra.db").unlink()


def _remove_all(store: Path) -> None:
    shutil.rmtree(store)


def _replace(store: Path) -> None:
    (store / "other").write_bytes((store / "kubedra.db").read_bytes())
    (store / "other").rename(store / "kubedra.db")


def _overwrite(store: Path) -> None:
    with (store / "kubedra.db").open("r+b") as file:
        file.write(b"\0" * 4096)


def _truncate(store: Path) -> None:
    (store / "kubedra.db").open("wb").close()


def _remove_log(store: Path) -> None:
    (store / "kubedra.db-wal").unlink()


DAMAGES = (_remove, _remove_all, _replace, _overwrite, _truncate, _remove_log)


async def noticed(log: RevisionLog) -> str:
    """Return the store's problem once it reports one; pytest's time limit bounds the wait."""
    while not (problem := log.problem()):
        await asyncio.sleep(0.01)
    return problem


@asynccontextmanager
async def opened_sqlite(directory: Path) -> AsyncIterator[SqliteLog]:
    """Open a store with a row."""
    async with opened_log(directory) as log:
        assert isinstance(log, SqliteLog)
        await log.append(Write("a/x", b"1", 0))
        yield log


def watchdog_of(log: SqliteLog) -> FileWatchdog:
    assert log._files is not None
    return log._files.watchdog


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
async def test_no_write_is_answered_after_the_files_are_gone(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "store"
    async with opened_sqlite(directory) as log:
        for number in range(20):  # the watchdog has seen the write-ahead log
            await log.append(Write(f"b/{number}", b"1", 0))
        await asyncio.to_thread(watchdog_of(log).problem)
        damage(directory)
        reason = await noticed(log)
        assert "under the running server" in reason
        assert "\n" not in reason
        with pytest.raises(StorageUnavailable, match="under the running server"):
            await log.append(Write("a/y", b"1", 0))
        with pytest.raises(StorageUnavailable, match="under the running server"):
            await log.current_revision()
    assert "under the running server" in caplog.text


async def test_removing_the_lock_file_admits_no_second_server(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    async with opened_sqlite(directory):
        (directory / "lock").unlink()
        with pytest.raises(UnusableDatabase, match="is in use by another server"):
            await open_log(str(directory))


async def test_a_store_that_is_well_has_no_problem(tmp_path: Path) -> None:
    async with opened_sqlite(tmp_path) as log:
        assert watchdog_of(log).problem() == ""
        assert log.problem() == ""


async def test_a_full_disk_is_a_problem_until_there_is_room(tmp_path: Path) -> None:
    async with opened_sqlite(tmp_path) as log:
        log._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(StorageFull, match="full"):
            await log.append(Write("c/large", b"x" * 500_000, 0))
        assert "full" in log.problem()
        log._connection.execute("PRAGMA max_page_count = 1000000")
        await become(lambda: log.problem() == "", "there is room again")
        await log.append(Write("c/fits", b"x", 0))
