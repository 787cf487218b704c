"""Notices when the database is taken away under a running server.

A process that has a file open goes on writing to it after somebody removed or replaced it: every write succeeds and
nothing is kept. A thread looks twice a second (by the system's time: files change in it) whether the names still lead
to the files that were opened and whether the database's header is still its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kubedra.runtime import private_files as private

__all__ = ["Guard"]

INTERVAL: Final = 0.5
_HEADER: Final = 100
#: Where SQLite's header has the magic text and the number that is free for applications (PRAGMA user_version).
_MAGIC, _IDENTITY = slice(0, 16), slice(60, 64)


class Guard:
    """Looks after a database file. `failed(reason)` is called once, from the guard's thread.

    Made before SQLite opens the file and closed after SQLite closed it: closing a descriptor of a file gives up all
    locks that the process has on it (POSIX), SQLite's included.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._wal = database.with_name(database.name + "-wal")
        self._descriptor = private.open_file(database)
        opened = os.fstat(self._descriptor)
        self._inode = opened.st_dev, opened.st_ino
        self._header = b""
        self._wal_seen = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, failed: Callable[[str], None]) -> None:
        """Begins to look, once the database has its header."""
        self._header = os.pread(self._descriptor, _HEADER, 0)
        self._thread = threading.Thread(target=self._look, args=(failed,), name="kubedra-guard", daemon=True)
        self._thread.start()

    def _look(self, failed: Callable[[str], None]) -> None:
        while not self._ended.wait(INTERVAL):
            if reason := self.problem():
                failed(reason)
                return

    def problem(self) -> str:
        """What happened to the files, in one line that names the file; "" if nothing did."""
        try:
            found = self._database.stat()
        except OSError as error:
            return f"{self._database} is gone under the running server ({error.strerror}): nothing is kept any more"
        if (found.st_dev, found.st_ino) != self._inode:
            return f"{self._database} was replaced under the running server: nothing is kept any more"
        header = os.pread(self._descriptor, _HEADER, 0)
        if (header[_MAGIC], header[_IDENTITY]) != (self._header[_MAGIC], self._header[_IDENTITY]):
            return f"{self._database} was overwritten under the running server"
        if self._wal.exists():
            self._wal_seen = True
        elif self._wal_seen:
            return f"{self._wal} is gone under the running server: what it held is lost with the process"
        return ""

    def close(self) -> None:
        """Ends the looking and lets go of the file."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        os.close(self._descriptor)
