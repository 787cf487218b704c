"""Upgrade an older store to this release's schema. Only this module imports alembic and sqlalchemy at run time.

All missing migrations run in one transaction: a store has its old schema or this release's, whatever happens in
between. A SQLite file is first copied beside itself, named after its schema: `kubedra.db.schema-0001`. An older
release can serve the copy under its old name.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Connection, Engine, create_engine, event

from apiserver.storage.log import schema
from apiserver.storage.log.types import UnusableDatabase
from kubedra.runtime import private_files as private

MIGRATIONS = Path(__file__).resolve().parents[3] / "migrations"
log = logging.getLogger("kubedra.storage")


def upgrade_file(path: Path, version: str) -> None:
    """Back up a SQLite file of schema `version`, then migrate it.

    Raises:
        UnusableDatabase: The file is unchanged.
    """
    kept = path.with_name(f"{path.name}.schema-{version}")
    try:
        _copy(path, kept)
    except (OSError, sqlite3.Error) as error:
        raise UnusableDatabase(
            f"{path} was not upgraded from schema {version}: its backup {kept} could not be written: {error}"
        ) from error
    upgrade_database(URL.create("sqlite", database=str(path)), str(path), version)
    log.warning("%s: a backup of the old schema is in %s", path, kept)


def upgrade_database(url: str | URL, place: str, version: str) -> None:
    """Migrate a store of schema `version`, which messages call `place`.

    Raises:
        UnusableDatabase: The store is unchanged.
    """
    try:
        upgrade(url)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnusableDatabase(
            f"{place} could not be upgraded from schema {version} to {schema.HEAD} and is as it was: {reason}"
        ) from error
    log.warning("%s: upgraded from schema %s to %s", place, version, schema.HEAD)


def _copy(path: Path, kept: Path) -> None:
    """Copy the committed contents of `path`, including its write-ahead log. `kept` is complete or missing."""
    draft = kept.with_name(f"{kept.name}.part")
    draft.unlink(missing_ok=True)
    os.close(private.open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(draft)) as target:
        source.backup(target)
    _sync(draft)
    draft.replace(kept)
    _sync(kept.parent)


def _sync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def upgrade(url: str | URL, revision: str = "head") -> None:
    """Run the missing migrations in one transaction. `url` is "sqlite:///path" or "postgresql://...".

    It blocks. The caller holds the store's lock.
    """
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    engine = create_engine(alchemy_url(url) if isinstance(url, str) else url)
    if engine.dialect.name == "sqlite":
        _transact(engine)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    finally:
        engine.dispose()


def _transact(engine: Engine) -> None:
    """Begin transactions explicitly.

    Python's driver begins one only before INSERT, UPDATE and DELETE, so that each CREATE or ALTER would commit
    immediately.
    """

    @event.listens_for(engine, "connect")
    def disable_implicit_transactions(connection: Any, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def alchemy_url(url: str) -> str:
    """Add the driver's name to a URL, as SQLAlchemy requires."""
    scheme, separator, rest = url.partition("://")
    return "postgresql+psycopg" + separator + rest if scheme in ("postgres", "postgresql") else url
