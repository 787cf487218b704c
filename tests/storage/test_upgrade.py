"""Data directories of an older release are migrated whole at the start, and a copy is kept."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from apiserver.storage import UnusableDatabase, Write, open_log
from apiserver.storage.log import schema, upgrade
from tests.storage.caches import opened_log

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

ROOT = Path(__file__).resolve().parents[2]
#: A release after this one: a table that is altered (on SQLite: copied), one that is made, rows that are moved.
NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "{new}"
down_revision = "{old}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("owners", sa.Column("name", sa.String(64), primary_key=True))
    with op.batch_alter_table("meta") as table:
        table.add_column(sa.Column("note", sa.Text, nullable=False, server_default=""))
    op.execute("UPDATE meta SET note = 'moved'")
    {accident}
    op.execute("INSERT INTO owners VALUES ('nobody')")
"""
OLD, NEW = schema.HEAD, "9001"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Make the migrations directory of a later release."""
    there = tmp_path / "release" / "migrations"
    shutil.copytree(upgrade.MIGRATIONS, there, ignore=shutil.ignore_patterns("__pycache__"))
    write_migration(there, "")
    return there


def write_migration(release: Path, accident: str) -> None:
    (release / "versions" / f"{NEW}_next.py").write_text(NEXT.format(new=NEW, old=OLD, accident=accident or "pass"))


@pytest.fixture
def later(release: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this process that later release."""
    monkeypatch.setattr(upgrade, "MIGRATIONS", release)
    monkeypatch.setattr(schema, "CHAIN", (*schema.CHAIN, NEW))
    monkeypatch.setattr(schema, "HEAD", NEW)
    return release


async def write(target: str | Path, *keys: str) -> int:
    """Write the keys; return the revision after that."""
    async with opened_log(target) as log:
        for key in keys:
            await log.append(Write(key, b"1", 0))
        return log.revision


def read(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Make a data directory of this release, with three rows in it."""
    data = tmp_path / "a directory? 100% #1"
    asyncio.run(write(data, "a/x", "a/y", "a/z"))
    return data


def version_of(older: Path) -> str:
    return str(read(older / "kubedra.db", "SELECT version_num FROM alembic_version")[0][0])


KEYS = "SELECT key FROM log ORDER BY revision"
THREE = [("a/x",), ("a/y",), ("a/z",)]


async def test_an_older_directory_is_migrated_at_start_and_goes_on_where_it_was(
    older: Path, later: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await write(older, "a/new") == 4
    assert version_of(older) == NEW
    assert read(older / "kubedra.db", KEYS) == [*THREE, ("a/new",)]
    assert read(older / "kubedra.db", "SELECT name FROM owners") == [("nobody",)]
    kept = older / f"kubedra.db.schema-{OLD}"
    database = older / "kubedra.db"
    assert caplog.messages == [
        f"{database}: upgraded from schema {OLD} to {NEW}",
        f"{database}: a backup of the old schema is in {kept}",
    ]


async def test_the_file_as_it_was_is_kept_under_the_name_of_its_schema(older: Path, later: Path) -> None:
    await write(older, "a/new")
    kept = older / f"kubedra.db.schema-{OLD}"
    assert sorted(path.name for path in older.iterdir() if path.name.startswith("kubedra.db.")) == [kept.name]
    assert read(kept, KEYS) == THREE
    assert read(kept, "SELECT version_num FROM alembic_version") == [(OLD,)]
    assert read(kept, "PRAGMA integrity_check") == [("ok",)]


async def test_the_kept_file_can_be_served_by_the_older_release(older: Path, release: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upgrade, "MIGRATIONS", release)
        patch.setattr(schema, "CHAIN", (*schema.CHAIN, NEW))
        patch.setattr(schema, "HEAD", NEW)
        await write(older, "a/new")
    with pytest.raises(
        UnusableDatabase,
        match=f"was written by a newer release of kubedra .schema {NEW}, this release knows up to {OLD}",
    ):
        await write(older)
    back = tmp_path / "back"
    back.mkdir()
    shutil.copy(older / f"kubedra.db.schema-{OLD}", back / "kubedra.db")
    assert await write(back, "a/again") == 4


def test_what_stood_only_in_the_write_ahead_log_is_kept_and_migrated(tmp_path: Path, later: Path) -> None:
    """The process that wrote was killed, so nothing was brought from the log into the file."""
    data = tmp_path / "data"
    script = f"""
import asyncio, os
from apiserver.storage import open_log, Write
async def main():
    log = await open_log({str(data)!r})
    for key in ("a/x", "a/y", "a/z"):
        await log.append(Write(key, b"1", 0))
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == -signal.SIGKILL
    assert (data / "kubedra.db-wal").stat().st_size > 0
    assert asyncio.run(write(data, "a/new")) == 4
    (kept,) = data.glob("kubedra.db.schema-*")
    assert read(kept, KEYS) == THREE


async def test_a_migration_that_fails_leaves_everything_as_it_was_and_says_so_in_one_line(
    older: Path, later: Path
) -> None:
    write_migration(later, "op.execute('INSERT INTO nowhere VALUES (1)')")
    with pytest.raises(UnusableDatabase) as refused:
        await write(older)
    line = str(refused.value)
    assert line.startswith(
        f"{older / 'kubedra.db'} could not be upgraded from schema {OLD} to {NEW} and is as it was: "
    )
    assert "nowhere" in line
    assert "\n" not in line
    as_it_was(older, OLD)


def as_it_was(older: Path, version: str) -> None:
    database = older / "kubedra.db"
    assert version_of(older) == version
    assert read(database, KEYS) == THREE
    assert (
        read(
            database, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN ('owners', '_alembic_tmp_meta')"
        )
        == []
    )
    assert "note" not in [row[1] for row in read(database, "PRAGMA table_info(meta)")]


def test_a_crash_in_the_middle_leaves_the_old_file_usable_and_the_next_start_migrates_it(
    older: Path, release: Path, later: Path
) -> None:
    write_migration(release, "import os; os.kill(os.getpid(), 9)")
    script = f"""
import asyncio
from pathlib import Path
from apiserver.storage import open_log
from apiserver.storage.log import schema, upgrade
upgrade.MIGRATIONS = Path({str(release)!r})
schema.CHAIN, schema.HEAD = (*schema.CHAIN, {NEW!r}), {NEW!r}
asyncio.run(open_log({str(older)!r}))
"""
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == -signal.SIGKILL
    as_it_was(older, OLD)
    write_migration(release, "")
    assert asyncio.run(write(older, "a/new")) == 4
    assert version_of(older) == NEW


async def test_a_backup_that_cannot_be_written_stops_the_upgrade(older: Path, later: Path) -> None:
    (older / f"kubedra.db.schema-{OLD}").mkdir()
    with pytest.raises(UnusableDatabase) as refused:
        await write(older)
    assert str(refused.value).startswith(f"{older / 'kubedra.db'} was not upgraded from schema {OLD}: its backup ")
    as_it_was(older, OLD)


@pytest.fixture
def older_postgres(postgres_schema_url: str) -> str:
    """Make a database of this release, with a row in it."""
    asyncio.run(write(postgres_schema_url, "a/x"))
    return str(postgres_schema_url)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    import psycopg

    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


async def test_an_older_postgres_schema_is_migrated_at_start(older_postgres: str, later: Path) -> None:
    assert await write(older_postgres, "a/y") == 2
    assert rows(older_postgres, "SELECT version_num FROM alembic_version") == [(NEW,)]
    assert rows(older_postgres, "SELECT name FROM owners") == [("nobody",)]


async def test_servers_that_start_at_once_migrate_postgres_once(
    older_postgres: str, later: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = await asyncio.gather(*(open_log(older_postgres) for _ in range(3)))
    assert [log.revision for log in logs] == [1, 1, 1]
    for log in logs:
        await log.close()
    assert len([message for message in caplog.messages if "upgraded from" in message]) == 1


async def test_a_migration_that_fails_on_postgres_leaves_it_as_it_was_and_says_so_in_one_line(
    older_postgres: str, later: Path
) -> None:
    write_migration(later, "op.execute('INSERT INTO nowhere VALUES (1)')")
    with pytest.raises(UnusableDatabase) as refused:
        await write(older_postgres)
    assert f" could not be upgraded from schema {OLD} to {NEW} and is as it was: " in str(refused.value)
    assert "\n" not in str(refused.value)
    assert rows(older_postgres, "SELECT version_num FROM alembic_version") == [(OLD,)]
    assert rows(older_postgres, "SELECT to_regclass('owners')::text") == [(None,)]
