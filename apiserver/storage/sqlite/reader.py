"""Read SQLite in threads, so that a slow disk does not block the loop.

A thread releases the interpreter lock with every row it fetches and waits for it while the loop is busy: thousands of
single rows take forty times as long as on an idle loop, and disturb the loop as often. SQLite therefore packs a page
into one row: a JSON array of numbers and names, and the concatenated values. This module unpacks it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from sqlite3 import Connection
from typing import Any

THREADS = 2
_BLOBS = ("value", "old_value")


class Readers:
    """A thread pool with one connection per reading thread."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._idle: list[Connection] = []
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kubedra-read")

    async def fetch(self, query: str, values: dict[str, Any]) -> list[list[Any]]:
        """Return all rows of a query. Callers limit them to one page."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._fetch, query, values)

    def _fetch(self, query: str, values: dict[str, Any]) -> list[list[Any]]:
        connection = self._idle.pop() if self._idle else self._connect()
        try:
            columns = _columns(connection, query, tuple(values))
            rows, *blobs = connection.execute(_pack(query, columns), values).fetchone()
        finally:
            self._idle.append(connection)
        return _unpack(rows, columns, blobs)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._close_all)
        self._threads.shutdown(wait=False)

    def _close_all(self) -> None:
        while self._idle:
            self._idle.pop().close()


_known_columns: dict[str, tuple[str, ...]] = {}


def _columns(connection: Connection, query: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a query's columns."""
    found = _known_columns.get(query)
    if found is None:
        cursor = connection.execute(f"SELECT * FROM ({query}) LIMIT 0", dict.fromkeys(names, 0))  # noqa: S608
        found = _known_columns[query] = tuple(column[0] for column in cursor.description)
    return found


@lru_cache
def _pack(query: str, columns: tuple[str, ...]) -> str:
    members = ", ".join(f"length({name})" if name in _BLOBS else f'"{name}"' for name in columns)
    blobs = "".join(f", CAST(group_concat({name}, '') AS BLOB)" for name in columns if name in _BLOBS)
    return f"SELECT json_group_array(json_array({members})){blobs} FROM ({query})"  # noqa: S608


def _unpack(packed: str, columns: tuple[str, ...], blobs: list[bytes | None]) -> list[list[Any]]:
    """Unpack the rows: replace the lengths by the bytes."""
    rows: list[list[Any]] = json.loads(packed)
    for column, blob in zip((columns.index(name) for name in _BLOBS if name in columns), blobs, strict=True):
        data, start = blob or b"", 0
        for row in rows:
            length = row[column]
            if length is not None:
                row[column] = data[start : start + length]
                start += length
    return rows
