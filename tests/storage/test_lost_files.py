"""A database that is taken away under a running server is noticed, and nothing is answered as if it were kept."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from apiserver.storage import RevisionLog, StorageFull, StorageUnavailable, UnusableDatabase, Write, open_log
from tests.support.patience import become

pytestmark = pytest.mark.integration


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


def on_store(directory: Path, work: Callable[[RevisionLog, Path], Awaitable[None]]) -> None:
    async def run() -> None:
        log = await open_log(str(directory))
        try:
            await log.append(Write("a/x", b"1", 0))
            await work(log, directory)
        finally:
            await log.close()

    asyncio.run(run())


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_no_write_is_answered_after_the_files_are_gone(
    damage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(log: RevisionLog, directory: Path) -> None:
        for number in range(20):  # the guard has seen the write-ahead log
            await log.append(Write(f"b/{number}", b"1", 0))
        await asyncio.to_thread(log._files.watchdog.problem)
        damage(directory)
        reason = await noticed(log)
        assert "under the running server" in reason
        assert "\n" not in reason
        with pytest.raises(StorageUnavailable, match="under the running server"):
            await log.append(Write("a/y", b"1", 0))
        with pytest.raises(StorageUnavailable, match="under the running server"):
            await log.current_revision()

    on_store(tmp_path / "store", work)
    assert "under the running server" in caplog.text


def test_removing_the_lock_file_admits_no_second_server(tmp_path: Path) -> None:
    async def work(log: RevisionLog, directory: Path) -> None:
        (directory / "lock").unlink()
        with pytest.raises(UnusableDatabase, match="is in use by another server"):
            await open_log(str(directory))

    on_store(tmp_path / "store", work)


def test_a_store_that_is_well_has_no_problem(tmp_path: Path) -> None:
    async def work(log: RevisionLog, _: Path) -> None:
        assert log._files.watchdog.problem() == ""
        assert log.problem() == ""

    on_store(tmp_path / "store", work)


def test_a_full_disk_is_a_problem_until_there_is_room(tmp_path: Path) -> None:
    async def work(log: RevisionLog, _: Path) -> None:
        log._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(StorageFull, match="full"):
            await log.append(Write("c/large", b"x" * 500_000, 0))
        assert "full" in log.problem()
        log._connection.execute("PRAGMA max_page_count = 1000000")
        await become(lambda: log.problem() == "", "there is room again")
        await log.append(Write("c/fits", b"x", 0))

    on_store(tmp_path / "store", work)
