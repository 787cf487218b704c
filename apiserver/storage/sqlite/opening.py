"""Open SQLite: lock the data directory, check its files, create the schema and the connections.

Every error is one line that names the directory or file. The lock is the kernel's (flock), on the directory itself:
it ends with the process, and no file can be removed to bypass it. The file `lock` only names the process for the
message.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from apiserver.runtime.clock import is_virtual
from apiserver.storage.log import queries, schema
from apiserver.storage.log.types import Durability, UnusableDatabase
from apiserver.storage.sqlite.commit_marker import CommitMarker
from apiserver.storage.sqlite.disk_reserve import Reserve
from apiserver.storage.sqlite.engine import Connection, Engine, LoopEngine, ThreadEngine
from apiserver.storage.sqlite.file_watchdog import FileWatchdog
from apiserver.storage.sqlite.files import DatabaseFiles
from apiserver.storage.sqlite.log import SqliteLog
from kubedra.runtime import private_files as private

DATABASE = "kubedra.db"
LOCK = "lock"
_ADVICE = "see `kubedra data check"
log = logging.getLogger("kubedra.storage")
_MAGIC = b"SQLite format 3\0"
_SYNCHRONOUS = {Durability.FULL: "FULL", Durability.NORMAL: "NORMAL", Durability.OFF: "OFF"}


def open_memory() -> SqliteLog:
    """Open a store that ends with the process."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _create(connection)
    return SqliteLog(connection, LoopEngine(connection), None)


async def open_directory(directory: str, durability: Durability) -> SqliteLog:
    """Open the store in a data directory, which is created if it is missing."""
    release = lock_directory(Path(directory))
    path = Path(directory) / DATABASE
    closing = ExitStack()
    closing.callback(release)
    try:
        _close_files(Path(directory))
        if older := _older(path):
            from apiserver.storage.log.upgrade import upgrade_file

            await asyncio.to_thread(upgrade_file, path, older)
        watchdog = FileWatchdog(path)
        closing.callback(watchdog.close)
        connection = connect(path, durability)
        closing.callback(connection.close)
        check_file(connection, Path(directory))
        marker = CommitMarker(Path(directory), identity_of(connection))
        closing.callback(marker.close)
        check_answered(connection, marker, Path(directory))
        # In virtual time no threads are used, so that the order of events is deterministic.
        on_loop = is_virtual()
        engine: Engine = (LoopEngine if on_loop or durability is Durability.OFF else ThreadEngine)(connection)
        reader = None if on_loop else lambda: _connect_reader(path)
        log = SqliteLog(
            connection, engine, reader, DatabaseFiles(durability, marker, watchdog, Reserve(Path(directory)), release)
        )
    except (sqlite3.Error, OSError) as error:
        closing.close()
        raise UnusableDatabase(f"{directory} cannot be used: {error}") from error
    except BaseException:
        closing.close()
        raise
    closing.pop_all()
    return log


def _close_files(directory: Path) -> None:
    """Restrict the database and its companion files to their owner; older releases left them open to other users."""
    for file in directory.glob(f"{DATABASE}*"):
        if file.is_file() and not file.is_symlink():
            private.close_file(file)


def lock_directory(directory: Path) -> Callable[[], None]:
    """Lock the directory for this process. Return a function that unlocks it."""
    import fcntl

    try:
        private.make_directory(directory)
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UnusableDatabase(f"{directory} cannot be the data directory: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        private.write(directory / LOCK, b"%d\n" % os.getpid())
    except OSError as error:
        os.close(lock)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise UnusableDatabase(f"{directory} cannot be the data directory: {error.strerror}") from error
        raise UnusableDatabase(f"{directory} is in use by another server (pid {_holder(directory)})") from error
    return lambda: os.close(lock)


def _holder(directory: Path) -> str:
    """Return the process id in a directory's lock file."""
    try:
        return (directory / LOCK).read_text(errors="replace")[:20].strip() or "unknown"
    except OSError:
        return "unknown"


def _older(path: Path) -> str | None:
    """Return the schema of a database that must be migrated; None for a new or current one.

    Raises:
        UnusableDatabase: The file is not a database of kubedra.
    """
    if path.is_symlink():
        raise UnusableDatabase(f"{path} is a symbolic link; give the directory that it leads to")
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


def connect(path: Path, durability: Durability) -> Connection:
    """Open the writer's connection. Create the tables of a new store and give the store its identity."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
    if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
        connection.execute(f"PRAGMA user_version = {secrets.randbits(30) + 1}")
        _create(connection)
    connection.execute("PRAGMA journal_mode = WAL")
    if not identity_of(connection):  # an older release set none
        connection.execute(f"PRAGMA user_version = {secrets.randbits(30) + 1}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return connection


def identity_of(connection: Connection) -> int:
    """Return a store's random number, which its other files refer to."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    return int(number)


def check_file(connection: Connection, directory: Path) -> None:
    """Raise UnusableDatabase if the file's own structure is damaged."""
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise UnusableDatabase(f"{directory / DATABASE} is damaged: {' '.join(found.split())}; {_ADVICE} {directory}`")


def check_answered(connection: Connection, marker: CommitMarker, directory: Path) -> None:
    """Compare the database with the newest acknowledged revision.

    If a power cut may have lost the last revisions, the log continues after them: no revision is used twice, and
    clients restart their watches.

    Raises:
        UnusableDatabase: Revisions are missing that were acknowledged as durable.
    """
    revision, _, _ = connection.execute(queries.COUNTER).fetchone()
    answered, full = marker.read()
    if answered <= revision:
        return
    lost = f"revisions {revision + 1} to {answered}" if answered - revision > 1 else f"revision {answered}"
    if full:
        raise UnusableDatabase(
            f"{directory / DATABASE} is damaged: {lost} were acknowledged but are missing, because its write-ahead log"
            f" is damaged or gone; {_ADVICE} {directory}`"
        )
    log.warning("%s: %s are lost; durability normal and off allow this after a power cut", directory, lost)
    connection.execute("UPDATE counter SET revision = ?, compacted = ? WHERE id = 1", (answered, answered))


def _connect_reader(path: Path) -> Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA query_only = 1")
    return connection


def _create(connection: Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in schema.SQLITE:
        connection.execute(statement)
    connection.execute("COMMIT")
