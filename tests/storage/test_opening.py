"""Stores that cannot be served are refused in one line."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from apiserver.storage import UnusableDatabase, Write, open_log
from apiserver.storage.log import schema
from tests.storage.caches import opened_log

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

ROOT = Path(__file__).resolve().parents[2]


async def refusal(target: str | Path) -> str:
    """Return the one-line error of opening a store."""
    with pytest.raises(UnusableDatabase) as refused:
        await open_log(str(target))
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def write_row(directory: Path) -> Path:
    """Make a store with one row; return the path of its database."""
    async with opened_log(directory) as log:
        await log.append(Write("a/x", b"1", 0))
    return directory / "kubedra.db"


async def test_a_second_server_on_a_data_directory_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    async with opened_log(tmp_path):
        assert await refusal(tmp_path) == f"{tmp_path} is in use by another server (pid {os.getpid()})"
    await (await open_log(str(tmp_path))).close()


def test_the_lock_goes_with_the_process_that_held_it(tmp_path: Path) -> None:
    script = f"""
import asyncio, os
from apiserver.storage import open_log
async def main():
    await open_log({str(tmp_path)!r})
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == -9
    asyncio.run(write_row(tmp_path))


async def test_a_file_that_is_not_sqlite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kubedra.db").write_bytes(b"these are the notes of a gardener")
    assert await refusal(tmp_path) == f"{tmp_path / 'kubedra.db'} is not a SQLite database"


async def test_a_torn_sqlite_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kubedra.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    assert (await refusal(tmp_path)).startswith(f"{tmp_path / 'kubedra.db'} cannot be used: ")


async def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "kubedra.db") as connection:
        connection.execute("CREATE TABLE flowers (name TEXT)")
    connection.close()
    assert await refusal(tmp_path) == f"{tmp_path / 'kubedra.db'} holds tables that are not kubedra's"


async def test_a_database_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    path = await write_row(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    known = f"schema 9999, this release knows up to {schema.HEAD}"
    assert await refusal(tmp_path) == f"{path} was written by a newer release of kubedra ({known})"


async def test_a_file_in_place_of_the_data_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert (await refusal(tmp_path / "data")).startswith(f"{tmp_path / 'data'} cannot be the data directory: ")


async def test_an_unreachable_postgres_is_named_without_its_password(tmp_path: Path) -> None:
    line = await refusal(f"postgresql://me:secret@localhost/kube?host={tmp_path}")
    assert line.startswith("postgresql://localhost/kube cannot be used: the database did not answer: ")
    assert "secret" not in line


async def test_a_newer_and_a_foreign_postgres_schema_are_refused(postgres_schema_url: str) -> None:
    await (await open_log(postgres_schema_url)).close()
    with psycopg.connect(postgres_schema_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        assert "was written by a newer release of kubedra (schema 9999" in await refusal(postgres_schema_url)
        connection.execute("DROP TABLE alembic_version")
    assert (await refusal(postgres_schema_url)).endswith(" holds tables that are not kubedra's")


@pytest.mark.parametrize("target", ["memory:", "file"])
def test_a_fresh_or_current_store_opens_without_sqlalchemy_and_alembic(target: str, tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
from apiserver.storage import open_log
async def main():
    for _ in range(2):
        log = await open_log({target if target != "file" else str(tmp_path)!r})
        await log.close()
asyncio.run(main())
heavy = {{"sqlalchemy", "alembic", "psycopg"}} & set(sys.modules)
sys.exit(f"imported: {{heavy}}" if heavy else 0)
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


async def test_a_postgres_url_without_the_driver_is_one_line_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "apiserver.storage.postgres.log", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'kubedra[postgres]'" in await refusal("postgresql://somewhere/kubedra")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_in_another_encoding_is_refused_in_one_line_that_says_which_it_needs(
    postgres_url: str, encoding: str
) -> None:
    name = f"in_{encoding.lower()}_{os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        made = f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        connection.execute(made.encode())
        line = await refusal(urlsplit(postgres_url)._replace(path=f"/{name}").geturl())
        connection.execute(f"DROP DATABASE {name}".encode())  # so that nothing is connected to it any more
    assert f"/{name} has the encoding {encoding}; kubedra needs one with UTF8" in line


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_the_encoding_that_a_client_is_set_to_does_not_matter(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)

    for _ in range(2):
        async with opened_log(postgres_schema_url) as log:
            await log.append(Write(f"a/{log.revision}–€", b"1", 0))
