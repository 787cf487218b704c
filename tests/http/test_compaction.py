"""History is dropped when it is too old or too long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver.controlplane.compaction import compact_regularly
from apiserver.options.retention import Retention, parse_retention
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
    await compact(log, retention=Retention(0.001), retire=retired.append)
    assert log.asked == [50]
    assert retired[0] == 50, "in memory, too"


async def test_a_busy_server_keeps_only_a_number_of_revisions() -> None:
    log = Log(1000)
    await compact(log, retention=Retention(3600.0, 300), check=0.001)
    assert log.asked == [700]


async def test_a_failure_is_tried_again() -> None:
    log = Log(1000, failures=1)
    await compact(log, retention=Retention(3600.0, 300), check=0.001)
    assert log.asked == [700, 800]


async def test_on_a_full_disk_all_history_is_dropped() -> None:
    log = Log(50)
    log.is_full = True
    await compact(log, retention=Retention(3600.0), check=0.001)
    assert log.asked == [50]


async def test_the_history_of_an_hour_is_kept_and_dropped_in_small_steps() -> None:
    log = Log(50)
    task = asyncio.create_task(compact_regularly(log, Retention(3600.0, None, steps=10)))  # type: ignore[arg-type]
    loop, begin = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    await asyncio.sleep(1700)
    log.revision = 500
    await log.done.wait()
    assert (log.asked, round(loop.time() - begin)) == ([50], 3600)
    log.done.clear()
    log.revision = 900
    await asyncio.sleep(1700)
    assert log.asked == [50], "what was written half an hour before is kept"
    await log.done.wait()
    assert (log.asked[-1], round(loop.time() - begin)) == (500, 5400)
    task.cancel()


@pytest.mark.parametrize(
    ("text", "retention"),
    [
        ("all", Retention(None, None)),
        ("5000", Retention(None, 5000)),
        ("1h30m", Retention(5400.0, None, 10)),
        ("", Retention(300.0)),
    ],
)
def test_the_flag_keeps_all_a_number_or_a_duration(text: str, retention: Retention) -> None:
    assert parse_retention(text, 300.0) == retention


def test_without_an_interval_nothing_is_compacted() -> None:
    assert parse_retention("", 0.0) is None


@pytest.mark.parametrize("text", ["0", "0s", "some", "-1h", "1.5"])
def test_other_values_of_the_flag_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=rf"^--history {text}: write all, a number of revisions"):
        parse_retention(text, 300.0)
