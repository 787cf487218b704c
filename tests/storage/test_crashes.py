"""Answered writes survive a crash, and the history has no holes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apiserver.storage import Durability, Record, RevisionLog, StorageFull, Write, open_log
from apiserver.storage.sqlite.log import SqliteLog
from tests.storage.caches import opened_log
from tests.support.patience import become

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

ROOT = Path(__file__).resolve().parents[2]
KILLS = {"sqlite-file": 25, "sqlite-off": 10, "postgres": 10}


def answered_before_kill(target: str, durability: Durability, lines: int) -> list[list[str]]:
    """Kill a writing child after this number of answers; return all its answers."""
    child = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/storage/answering_writer.py"), target, durability],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    head = [child.stdout.readline() for _ in range(lines)]
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().splitlines(keepends=True)
    child.stdout.close()
    child.wait()
    return [line.decode().split() for line in head + rest if line.endswith(b"\n")]


async def check(log: RevisionLog, answers: list[list[str]]) -> None:
    """Assert that each answered row exists unless it may be compacted, and that revisions have no holes."""
    rows = {row.revision: row for row in await log.after(log.compacted, 1 << 30)}
    assert sorted(rows) == list(range(log.compacted + 1, log.revision + 1))
    last: dict[str, tuple[int, bool]] = {}
    for text, key, turn, flag in answers:
        revision, deleted = int(text), flag == "1"
        assert revision <= log.revision
        row = rows.get(revision)
        if row is not None:
            assert (row.key, row.deleted) == (key, deleted)
            assert row.value.startswith(turn.encode() + b"x")
        last[key] = (revision, deleted)
    for key, (revision, deleted) in last.items():
        now = await log.get(key)
        # One more write of each writer may have been committed without its answer being heard.
        assert now is None or now.revision >= revision
        assert now is not None or deleted or any(row.key == key and row.revision > revision for row in rows.values())


@pytest.mark.parametrize("kind", KILLS)
async def test_a_killed_server_loses_no_answered_write(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    target = request.getfixturevalue("postgres_schema_url") if kind == "postgres" else str(tmp_path)
    durability = Durability.OFF if kind == "sqlite-off" else Durability.FULL
    reached = 0
    for kill in range(KILLS[kind]):
        answers = answered_before_kill(target, durability, lines=1 + kill * 7)
        async with opened_log(target, durability) as log:
            assert log.revision > reached
            await check(log, answers)
            reached = log.revision


@pytest.mark.parametrize("durability", [Durability.FULL, Durability.OFF])
async def test_a_full_disk_refuses_writes_and_leaves_no_hole(durability: Durability, tmp_path: Path) -> None:
    """SQLite's bound on pages stands for the disk."""
    log = await open_log(str(tmp_path), durability=durability)
    assert isinstance(log, SqliteLog)
    seen: list[Record] = []
    log.subscribe(seen.extend)
    await log.append(Write("a/first", b"", 0))
    await log._run(lambda connection: connection.execute("PRAGMA max_page_count = 1"))  # which means: no more
    writes = [log.append(Write(f"a/{number}", b"x" * 9000, 0)) for number in range(5)]
    for write in writes:
        with pytest.raises(StorageFull, match="full"):
            await write
    await log._run(lambda connection: connection.execute("PRAGMA max_page_count = 1000000"))
    await become(lambda: not log.is_full, "there is room again")
    assert (await log.append(Write("a/0", b"x" * 9000, 0))).revision == 2
    gone = await log.append(Write("a/first", b"", 1, deleted=True))
    # What was history made way.
    assert await log.after(log.compacted, 10) == seen[log.compacted :]
    assert log.compacted <= 1
    await log.close()
    async with opened_log(tmp_path) as again:
        assert again.revision == gone.revision == 3
