"""Connect to Postgres, reconnect when a connection breaks, and prepare the schema at start.

A link is one connection with a lock: it connects at its first use and again after a failure. Errors of the driver and
the network are raised as StorageUnavailable. Only this module knows the driver's errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import AsyncConnection

from apiserver.runtime.clock import Timer, outside, timers
from apiserver.storage.log import schema
from apiserver.storage.log.types import StorageError, StorageFull, StorageUnavailable, UnusableDatabase

Connection = AsyncConnection[tuple[Any, ...]]

CONNECT_SECONDS = 10
STATEMENT_SECONDS = 30
LOCK_ID = 0x6B756265647261  # advisory lock: one server at a time prepares the schema


async def connect(url: str, *settings: str) -> Connection:
    """Connect in autocommit mode and apply settings such as "synchronous_commit = off"."""
    connection = await AsyncConnection.connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        application_name="kubedra",
        keepalives_idle=10,
        client_encoding="UTF8",  # overrides the environment, the URL and the database
    )
    for setting in settings:
        await connection.execute(f"SET {setting}".encode())
    return connection


@asynccontextmanager
async def translate_errors() -> AsyncIterator[None]:
    """Raise errors of the driver and the network as StorageUnavailable, in one line."""
    try:
        with outside(), timers(Timer.MACHINE):
            async with asyncio.timeout(STATEMENT_SECONDS):
                yield
    except psycopg.errors.DiskFull as error:
        raise StorageFull(f"the database's disk is full: {first_line(error)}") from error
    except (psycopg.Error, OSError) as error:  # TimeoutError is an OSError
        raise StorageUnavailable(f"the database did not answer: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class Link:
    """One connection, for one user at a time."""

    def __init__(self, url: str, *settings: str) -> None:
        self._url = url
        self._settings = settings
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None

    @property
    def pid(self) -> int:
        """The server process of the connection; 0 if there is none."""
        return 0 if self._connection is None or self._connection.closed else self._connection.info.backend_pid

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """Yield the connection. On any failure raise StorageUnavailable and close the connection."""
        async with self._lock, translate_errors():
            if self._connection is None or self._connection.closed:
                self._connection = await connect(self._url, *self._settings)
            try:
                yield self._connection
            except StorageError:
                raise  # an error in the data; the connection is fine
            except BaseException:
                await self._drop()
                raise

    async def fetch(self, query: str, values: Any = None) -> list[tuple[Any, ...]]:
        """Return all rows of one statement."""
        async with self.use() as connection:
            return await fetch(connection, query, values)

    async def retry(self, work: Callable[[Connection], Awaitable[Any]]) -> Any:
        """Run idempotent work. Reconnect and retry once if the idle connection was broken."""
        fresh = self._connection is None or self._connection.closed
        try:
            async with self.use() as connection:
                return await work(connection)
        except StorageUnavailable:
            if fresh:
                raise
        async with self.use() as connection:
            return await work(connection)

    async def close(self) -> None:
        async with self._lock:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


async def fetch(connection: Connection, query: str, values: Any = None) -> list[tuple[Any, ...]]:
    """Return all rows of one statement, in binary form.

    The query is passed as bytes because the driver's types accept only literals as text.
    """
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(query.encode(), values, prepare=True)
        return await cursor.fetchall() if cursor.description is not None else []


async def first_connection(url: str) -> Connection:
    """Connect to a database that may be starting, shutting down for a restart or recovering from a crash."""
    end = monotonic() + CONNECT_SECONDS
    while True:
        try:
            return await connect(url)
        except psycopg.OperationalError as error:
            # The driver has no error code before a connection exists. An unreachable server is a mistake, which is
            # reported immediately.
            if "the database system is" not in str(error) or monotonic() > end:
                raise
        with timers(Timer.MACHINE):
            await asyncio.sleep(0.1)


async def prepare_schema(url: str) -> None:
    """Create or migrate the schema. Servers that start at the same time wait for each other."""
    place = printable(url)
    try:
        async with translate_errors():
            connection = await first_connection(url)
        async with connection:
            async with translate_errors():
                await connection.execute("SELECT pg_advisory_lock(%s)", (LOCK_ID,))
                older = await _create_schema(connection, place)
            if older is not None:
                from apiserver.storage.log.upgrade import upgrade_database

                # No time limit: the connection holds the lock.
                await asyncio.to_thread(upgrade_database, url, place, older)
    except StorageUnavailable as error:
        raise UnusableDatabase(f"{place} cannot be used: {first_line(error)}") from error


async def _create_schema(connection: Connection, place: str) -> str | None:
    """Create the schema in an empty database. Return the version of a schema that must be migrated, else None.

    Raises:
        UnusableDatabase: The database has another encoding, or its tables are not of this release or an older one.
    """
    ((version, occupied, encoding),) = await fetch(
        connection,
        "SELECT to_regclass('alembic_version')::text, to_regclass('log')::text, current_setting('server_encoding')",
    )
    if encoding != "UTF8":
        # Object names may contain any letter, and they are ordered by their bytes.
        raise UnusableDatabase(
            f"{place} has the encoding {encoding}; kubedra needs one with UTF8:"
            " CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )
    if version is None and occupied is None:
        async with connection.transaction():
            for statement in schema.POSTGRES:
                await connection.execute(statement.encode())
        return None
    rows = await fetch(connection, "SELECT version_num FROM alembic_version") if version else []
    found: str | None = rows[0][0] if rows else None
    if reason := schema.foreign_version(found, place):
        raise UnusableDatabase(reason)
    return found if found != schema.HEAD else None


def printable(url: str) -> str:
    """Return the URL without user, password and options."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2] or "localhost"
    return f"postgresql://{host}{parts.path}"
