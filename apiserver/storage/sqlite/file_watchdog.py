"""Detect that the database was removed or replaced under a running server.

A process continues to write to an open file after its removal or replacement: every write succeeds and is lost. A
thread checks twice a second, by the system's clock, that the names still lead to the opened files and that the
database's header is unchanged.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kubedra.runtime import private_files as private

__all__ = ["FileWatchdog"]

INTERVAL: Final = 0.5
_HEADER: Final = 100
#: Positions of the magic text and of the application's number (PRAGMA user_version) in SQLite's header.
_MAGIC, _IDENTITY = slice(0, 16), slice(60, 64)


class FileWatchdog:
    """Checks a database file. `failed(reason)` is called once, from the watchdog's thread.

    It is created before SQLite opens the file and closed after SQLite closes it: closing a descriptor of a file
    releases all locks of the process on it (POSIX), including SQLite's.
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
        """Start the checks, once the database has its header."""
        self._header = os.pread(self._descriptor, _HEADER, 0)
        self._thread = threading.Thread(target=self._watch, args=(failed,), name="kubedra-watchdog", daemon=True)
        self._thread.start()

    def _watch(self, failed: Callable[[str], None]) -> None:
        while not self._ended.wait(INTERVAL):
            if reason := self.problem():
                failed(reason)
                return

    def problem(self) -> str:
        """Return one line that names the file and what happened to it; "" if it is unchanged."""
        try:
            found = self._database.stat()
        except OSError as error:
            return f"{self._database} was removed under the running server ({error.strerror}): writes are lost"
        if (found.st_dev, found.st_ino) != self._inode:
            return f"{self._database} was replaced under the running server: writes are lost"
        header = os.pread(self._descriptor, _HEADER, 0)
        if (header[_MAGIC], header[_IDENTITY]) != (self._header[_MAGIC], self._header[_IDENTITY]):
            return f"{self._database} was overwritten under the running server"
        if self._wal.exists():
            self._wal_seen = True
        elif self._wal_seen:
            return f"{self._wal} was removed under the running server: its contents are lost when the process ends"
        return ""

    def close(self) -> None:
        """Stop the checks and close the file."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        os.close(self._descriptor)
