"""Room on the disk: what is kept back for the day when there is none, and how a store comes by some again.

On a full disk deleting needs room as well: a deletion is a row, and compaction writes pages to the write-ahead log,
whose pages need a place in the database. So a file beside the database takes up room that nobody else gets, and is
given up when the disk is full. From then on only what frees room is written, one write at a time with a compaction
after each; the rest is refused at once. Everything is written again when so much is free that the file can be there
again, or when compaction has left that much inside the database; then carefully, with a look after each batch.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apiserver.runtime.clock import Timer, purpose
from apiserver.storage.log.types import StorageFull
from kubedra.runtime import private_files as private

if TYPE_CHECKING:
    from apiserver.storage.sqlite.engine import Engine

__all__ = ["RESERVE", "Found", "Reserve", "Room", "again", "find_room", "with_room"]

#: Bytes kept back: more than SQLite's write-ahead log usually holds (1000 pages and one batch), as all of its pages may
#: have to find a place in the database before any room comes of it.
RESERVE: Final = 8 << 20
#: Bytes of free pages in the database with which everything is written without a reserve; to begin with that again,
#: twice as many.
ENOUGH: Final = 4 << 20
#: How often a store on a full disk looks for room.
LOOK_SECONDS: Final = 1.0

log = logging.getLogger("kubedra.storage")


class Reserve:
    """The file in a data directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "reserve"

    def take(self) -> bool:
        """Makes it, if twice its size is free: else the first write would end there again. Whether it is there."""
        try:
            if self._path.stat().st_size == RESERVE:
                return True
        except OSError:
            pass
        try:
            found = os.statvfs(self._path.parent)
            if found.f_bavail * found.f_frsize < 2 * RESERVE:
                return False
            descriptor = private.open_file(self._path)
            try:
                _allocate(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            self.give()
            return False
        return True

    def give(self) -> None:
        """Gives its room to whoever needs it."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def _allocate(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, RESERVE)
    else:  # macOS
        os.write(descriptor, bytes(RESERVE))


def _is_full(error: BaseException) -> bool:
    """Whether SQLite failed because there is no room."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def with_room(connection: sqlite3.Connection, work: Callable[[], Any]) -> Any:
    """Does the work, and what `again` does where there is no room for it. Raises StorageFull."""
    try:
        return work()
    except sqlite3.Error as error:
        return again(connection, error, work)


def again(connection: sqlite3.Connection, failed: sqlite3.Error, work: Callable[[], Any]) -> Any:
    """Does work again that found no room: the write-ahead log is worked off, which finds its pages their places in the
    database. Raises `failed` where that was not the reason, and StorageFull.
    """
    if not _is_full(failed):
        raise failed
    full = StorageFull(f"the disk is full: {failed}")
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise full from error
    try:
        return work()
    except sqlite3.Error as error:
        if _is_full(error):
            raise full from error
        raise


class Found(Enum):
    """Where there is room."""

    DISK = auto()
    """On the disk: the reserve is there."""
    INSIDE = auto()
    """In the database alone, whose pages of deleted rows are used again."""
    NOWHERE = auto()


def find_room(connection: sqlite3.Connection, reserve: Reserve | None, enough: int) -> Found:
    """Works off the write-ahead log, which gives its room back, and looks for more: for so many bytes where they are
    inside.
    """
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if reserve is None or reserve.take():
        return Found.DISK
    ((pages,),) = connection.execute("PRAGMA freelist_count").fetchall()
    ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    return Found.INSIDE if pages * size >= enough else Found.NOWHERE


class Room:
    """Whether a store has room. `reason` says why not: then only what frees room is to be written. `careful`: there is
    no reserve, so after each batch `look` is to be called, and before it, without room, history to be compacted.
    """

    def __init__(self, engine: Engine, reserve: Reserve | None) -> None:
        self.reason = ""
        self.careful = False
        self._engine, self._reserve, self._closed = engine, reserve, False
        self._loop = asyncio.get_running_loop()
        if reserve is not None:
            engine.submit(lambda _: reserve.take(), lambda *_: None)

    def fill(self, reason: str) -> None:
        """A write found no room: what is kept back is given up."""
        if not self.reason:
            self.reason = reason
            log.error("%s: nothing is written but deletions until there is room", reason)
        if not self.careful:
            self.careful = True
            if self._reserve is not None:
                self._reserve.give()
            self._loop.call_later(LOOK_SECONDS, self._look_again)

    @purpose(Timer.MACHINE)
    def _look_again(self) -> None:
        def done() -> None:
            if self.careful and not self._closed:
                self._loop.call_later(LOOK_SECONDS, self._look_again)

        if not self._closed:
            self.look(done)

    def look(self, done: Callable[[], None]) -> None:
        """Looks for room, then calls `done`."""

        def looked(found: Any, error: Exception | None) -> None:
            if error is not None or found is Found.NOWHERE:
                self.fill(f"the disk is full: {error or 'nothing is left that was kept back'}")
            elif self.reason:
                self.reason = ""
                log.warning("there is room again: everything is written")
            if found is Found.DISK:
                self.careful = False
            done()

        enough = 2 * ENOUGH if self.reason else ENOUGH
        self._engine.submit(lambda connection: find_room(connection, self._reserve, enough), looked)

    def close(self) -> None:
        """Ends the looking, before the engine closes."""
        self._closed = True
