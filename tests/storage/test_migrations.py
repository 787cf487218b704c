"""The migrations, the tables and the texts a fresh store is made from are one schema."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from sqlalchemy.dialects import postgresql, sqlite

from apiserver.storage import open_log
from apiserver.storage.log import schema, tables
from apiserver.storage.log.upgrade import MIGRATIONS, alchemy_url, upgrade

pytestmark = pytest.mark.integration


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'kubedra.db'}"
    url: str = request.getfixturevalue("postgres_schema_url")
    return url


def differences(url: str) -> list[Any]:
    """Return the changes that a new migration would have to make."""
    engine = create_engine(alchemy_url(url))
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        found: list[Any] = compare_metadata(MigrationContext.configure(connection, opts=options), tables.metadata)
    engine.dispose()
    return found


def test_the_texts_are_what_the_tables_compile_to() -> None:
    assert tables.create_statements(sqlite.dialect()) == schema.SQLITE_TABLES
    postgres = postgresql.dialect()  # type: ignore[no-untyped-call]
    assert tables.create_statements(postgres) == schema.POSTGRES_TABLES


def test_the_chain_names_the_migrations_that_there_are() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    assert tuple(script.revision for script in scripts.walk_revisions())[::-1] == schema.CHAIN
    assert scripts.get_current_head() == schema.HEAD


def test_the_migrations_arrive_at_the_tables(empty_url: str) -> None:
    upgrade(empty_url)
    assert differences(empty_url) == []


def test_a_fresh_store_has_the_tables(empty_url: str) -> None:
    make_fresh(empty_url)
    assert differences(empty_url) == []


def test_the_comparison_sees_a_missing_column(empty_url: str) -> None:
    upgrade(empty_url)
    engine = create_engine(alchemy_url(empty_url))
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE meta DROP COLUMN value"))
    engine.dispose()
    assert [difference[0] for difference in differences(empty_url)] == ["add_column"]


def test_a_migrated_store_can_be_served(empty_url: str, tmp_path: Path) -> None:
    upgrade(empty_url)
    make_fresh(empty_url)  # which only opens what is there


def make_fresh(url: str) -> None:
    async def run() -> None:
        target = str(Path(url.removeprefix("sqlite:///")).parent) if url.startswith("sqlite") else url
        log = await open_log(target)
        assert log.revision == 0
        await log.close()

    asyncio.run(run())


def test_migrated_and_fresh_sqlite_databases_are_alike(tmp_path: Path) -> None:
    layouts = []
    for name, make in (("migrated", upgrade), ("fresh", make_fresh)):
        path = tmp_path / name / "kubedra.db"
        path.parent.mkdir()
        make(f"sqlite:///{path}")
        connection = sqlite3.connect(path)
        tables_there = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        layout = {
            table: (
                sorted(connection.execute(f"PRAGMA table_info({table})").fetchall()),
                sorted(row[2:] for row in connection.execute(f"PRAGMA index_list({table})").fetchall()),
            )
            for table in tables_there
        }
        rows = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("counter", "alembic_version")]
        layouts.append((layout, rows))
        connection.close()
    assert layouts[0] == layouts[1]


def test_migrated_and_fresh_postgres_have_the_same_function(postgres_url: str) -> None:
    bodies = []
    for name, make in (("migrated_f", upgrade), ("fresh_f", make_fresh)):
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        url = f"{postgres_url}&options=-csearch_path%3D{name}"
        make(url)
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT pg_get_functiondef('log_append'::regproc)").fetchone()
            assert row is not None
            bodies.append(row[0].replace(name, ""))
    assert bodies[0] == bodies[1]
