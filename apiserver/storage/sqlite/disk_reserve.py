"""Reserve disk space for deletions on a full disk, and return to normal when space is free.

On a full disk deletions need space as well: a deletion is a row, and compaction writes pages to the write-ahead log,
which need a place in the database. A reserve file beside the database occupies that space and is removed when the disk
is full. From then on only writes that free space are accepted, one at a time with a compaction after each; all others
are refused immediately. All writes are accepted again when the reserve fits on the disk, or when compaction has freed
as much inside the database. Without a reserve, free space is checked after each batch.
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

__all__ = ["RESERVE", "DiskSpace", "FreeSpace", "Reserve", "find_free_space", "retry_after_checkpoint", "run_or_retry"]

#: Bytes of the reserve: more than SQLite's write-ahead log usually holds (1000 pages and one batch). All of its pages
#: may need a place in the database before any space is freed.
RESERVE: Final = 8 << 20
#: Bytes of free pages in the database above which all writes are accepted without a reserve. A full store needs twice
#: as many to accept them again.
ENOUGH: Final = 4 << 20
#: Seconds between two checks for free space on a full disk.
CHECK_SECONDS: Final = 1.0

log = logging.getLogger("kubedra.storage")


class Reserve:
    """The reserve file in a data directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "reserve"

    def allocate(self) -> bool:
        """Allocate the reserve if twice its size is free. Return whether it exists.

        With less free space the next write would fill the disk again.
        """
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
            self.release()
            return False
        return True

    def release(self) -> None:
        """Remove the reserve, which frees its space."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def _allocate(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, RESERVE)
    else:  # macOS
        os.write(descriptor, bytes(RESERVE))


def _is_full(error: BaseException) -> bool:
    """Return whether SQLite failed because the disk is full."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def run_or_retry(connection: sqlite3.Connection, work: Callable[[], Any]) -> Any:
    """Run `work`; on a full disk checkpoint and run it again. Raise StorageFull."""
    try:
        return work()
    except sqlite3.Error as error:
        return retry_after_checkpoint(connection, error, work)


def retry_after_checkpoint(connection: sqlite3.Connection, failed: sqlite3.Error, work: Callable[[], Any]) -> Any:
    """Checkpoint the write-ahead log into the database, then run `work` again.

    Raises:
        sqlite3.Error: `failed`, if its cause is not a full disk.
        StorageFull: The disk is still full.
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


class FreeSpace(Enum):
    """Where free space was found."""

    DISK = auto()
    """On the disk: the reserve exists."""
    DATABASE = auto()
    """Only in the database, in the pages of deleted rows."""
    NONE = auto()


def find_free_space(connection: sqlite3.Connection, reserve: Reserve | None, enough: int) -> FreeSpace:
    """Checkpoint the write-ahead log, which frees its space, and find free space for writes.

    `enough` is in bytes: free pages inside the database count from this size on.
    """
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if reserve is None or reserve.allocate():
        return FreeSpace.DISK
    ((pages,),) = connection.execute("PRAGMA freelist_count").fetchall()
    ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    return FreeSpace.DATABASE if pages * size >= enough else FreeSpace.NONE


class DiskSpace:
    """The free space of a store. `reason` is empty or names why only writes that free space are accepted.

    `careful` is set while there is no reserve. The writer then calls `check` after each batch. While `reason` is set,
    it compacts history first.
    """

    def __init__(self, engine: Engine, reserve: Reserve | None) -> None:
        self.reason = ""
        self.careful = False
        self._engine, self._reserve, self._closed = engine, reserve, False
        self._loop = asyncio.get_running_loop()
        if reserve is not None:
            engine.submit(lambda _: reserve.allocate(), lambda *_: None)

    def mark_full(self, reason: str) -> None:
        """Record that the disk is full, and release the reserve."""
        if not self.reason:
            self.reason = reason
            log.error("%s: only deletions are accepted until space is free", reason)
        if not self.careful:
            self.careful = True
            if self._reserve is not None:
                self._reserve.release()
            self._loop.call_later(CHECK_SECONDS, self._check_again)

    @purpose(Timer.MACHINE)
    def _check_again(self) -> None:
        def done() -> None:
            if self.careful and not self._closed:
                self._loop.call_later(CHECK_SECONDS, self._check_again)

        if not self._closed:
            self.check(done)

    def check(self, done: Callable[[], None]) -> None:
        """Check for free space, then call `done`."""

        def checked(found: Any, error: Exception | None) -> None:
            if error is not None or found is FreeSpace.NONE:
                self.mark_full(f"the disk is full: {error or 'the reserve is used up'}")
            elif self.reason:
                self.reason = ""
                log.warning("the disk has free space again: all writes are accepted")
            if found is FreeSpace.DISK:
                self.careful = False
            done()

        enough = 2 * ENOUGH if self.reason else ENOUGH
        self._engine.submit(lambda connection: find_free_space(connection, self._reserve, enough), checked)

    def close(self) -> None:
        """Stop the checks. Called before the engine closes."""
        self._closed = True
