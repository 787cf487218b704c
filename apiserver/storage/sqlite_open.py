"""Opening SQLite: the lock on the data directory, the checks of what lies there, the schema, the connections.

Every refusal is one line that names the directory or file. The lock is the kernel's (flock), so it goes with the
process that held it; the pid in the file only serves the message.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from apiserver.storage import schema
from apiserver.storage.sqlite import SqliteLog
from apiserver.storage.sqlite_engine import Connection, Engine, LoopEngine, ThreadEngine
from apiserver.storage.types import Durability, UnusableDatabase

DATABASE = "kubedra.db"
LOCK = "lock"
_MAGIC = b"SQLite format 3\0"
_SYNCHRONOUS = {Durability.FULL: "FULL", Durability.NORMAL: "NORMAL", Durability.OFF: "OFF"}


def open_memory() -> SqliteLog:
    """A store that ends with the process."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _create(connection)
    return SqliteLog(connection, LoopEngine(connection), None, lambda: None)


async def open_directory(directory: str, durability: Durability) -> SqliteLog:
    """The store in a data directory, which is made if it does not exist."""
    release = lock_directory(Path(directory))
    try:
        path = Path(directory) / DATABASE
        if older := _older(path):
            from apiserver.storage.upgrade import upgrade_file

            await asyncio.to_thread(upgrade_file, path, older)
        connection = _connect(path, durability)
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
            _create(connection)
        engine: Engine = LoopEngine(connection) if durability is Durability.OFF else ThreadEngine(connection)
        return SqliteLog(connection, engine, lambda: _connect_reader(path), release)
    except sqlite3.Error as error:
        release()
        raise UnusableDatabase(f"{directory} cannot be used: {error}") from error
    except BaseException:
        release()
        raise


def lock_directory(directory: Path) -> Callable[[], None]:
    """Takes the directory for this process; returns what lets go of it."""
    import fcntl

    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UnusableDatabase(f"{directory} cannot be the data directory: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise UnusableDatabase(f"{directory} is in use by another server (pid {holder})") from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    return lambda: os.close(lock)


def _older(path: Path) -> str | None:
    """The schema of a database that must be migrated; None for a new or current one. Raises UnusableDatabase if it is
    none of ours.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableDatabase(f"{path} cannot be read: {error.strerror}") from error
    if not magic:
        return None
    if magic != _MAGIC:
        raise UnusableDatabase(f"{path} is not a SQLite database")
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if not tables:
            return None
        row = "alembic_version" in tables and connection.execute("SELECT version_num FROM alembic_version").fetchone()
        version: str | None = row[0] if row else None
    except sqlite3.Error as error:
        raise UnusableDatabase(f"{path} cannot be used: {error}") from error
    finally:
        connection.close()
    if reason := schema.foreign_version(version, str(path)):
        raise UnusableDatabase(reason)
    return version if version != schema.HEAD else None


def _connect(path: Path, durability: Durability) -> Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
    return connection


def _connect_reader(path: Path) -> Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA query_only = 1")
    return connection


def _create(connection: Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in schema.SQLITE:
        connection.execute(statement)
    connection.execute("COMMIT")
