"""History goes when it is old, or when there is too much of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver.controlplane.compaction import compact_regularly
from apiserver.storage.log.types import StorageUnavailable

pytestmark = pytest.mark.integration


class Log:
    """What compaction needs of a log; `until` says when the test has seen enough."""

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


def run(log: Log, **options: Any) -> None:
    async def main() -> None:
        task = asyncio.create_task(compact_regularly(log, **options))  # type: ignore[arg-type]
        await log.done.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_what_was_history_an_interval_ago_is_dropped() -> None:
    log, retired = Log(50), []
    run(log, interval=0.001, retire=retired.append)
    assert log.asked == [50]
    assert retired[0] == 50, "in memory, too"


def test_a_busy_server_keeps_a_number_of_revisions_however_young_they_are() -> None:
    log = Log(1000)
    run(log, interval=3600.0, kept=300, check=0.001)
    assert log.asked == [700]


def test_a_failure_is_tried_again() -> None:
    log = Log(1000, failures=1)
    run(log, interval=3600.0, kept=300, check=0.001)
    assert log.asked == [700, 800]


def test_on_a_full_disk_all_history_goes() -> None:
    log = Log(50)
    log.is_full = True
    run(log, interval=3600.0, check=0.001)
    assert log.asked == [50]
