"""History is dropped when it is too old or too long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver.controlplane.compaction import compact_regularly
from apiserver.storage.log.types import StorageUnavailable

pytestmark = pytest.mark.integration


class Log:
    """A fake log; `done` is set after the first successful compaction."""

    def __init__(self, revision: int, failures: int = 0) -> None:
        self.revision, self.compacted, self.failures, self.is_full = revision, 0, failures, False
        self.asked: list[int] = []
        self.done = asyncio.Event()

    async def compact(self, revision: int) -> int:
        self.asked.append(revision)
        self.revision += 100
        if self.failures:
            self.failures -= 1
            raise StorageUnavailable("gone")
        dropped, self.compacted = revision - self.compacted, revision
        self.done.set()
        return dropped


async def compact(log: Log, **options: Any) -> None:
    """Compact regularly until a compaction has succeeded."""
    task = asyncio.create_task(compact_regularly(log, **options))  # type: ignore[arg-type]
    await log.done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_history_older_than_the_interval_is_dropped() -> None:
    log, retired = Log(50), list[int]()
    await compact(log, interval=0.001, retire=retired.append)
    assert log.asked == [50]
    assert retired[0] == 50, "in memory, too"


async def test_a_busy_server_keeps_only_a_number_of_revisions() -> None:
    log = Log(1000)
    await compact(log, interval=3600.0, kept=300, check=0.001)
    assert log.asked == [700]


async def test_a_failure_is_tried_again() -> None:
    log = Log(1000, failures=1)
    await compact(log, interval=3600.0, kept=300, check=0.001)
    assert log.asked == [700, 800]


async def test_on_a_full_disk_all_history_is_dropped() -> None:
    log = Log(50)
    log.is_full = True
    await compact(log, interval=3600.0, check=0.001)
    assert log.asked == [50]
