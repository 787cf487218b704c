"""The record of a running server: `server.json` in its data directory, locked while the server runs.

The kernel releases the lock when the process ends. It also reports the lock's process id, in the reader's own process
id namespace. So the record of a killed server is ignored, even if another process has its id now.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubedra.runtime import private_files as private

__all__ = ["RECORD", "RunningServer", "ServerRecord", "describe_end", "open_record"]

RECORD = "server.json"
#: The end of the last server of a data directory.
END = "server.end.json"
#: fcntl's `struct flock`: Linux has type, whence, start, length, process; macOS start, length, process, type,
#: whence.
_FLOCK, _PID, _TYPE = (struct.Struct("hhqqi0q"), 4, 0) if sys.platform == "linux" else (struct.Struct("qqihh"), 2, 3)


class ServerRecord:
    """The server's side: publish and withdraw the record."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / RECORD
        self._descriptor: int | None = None

    def publish(self, content: Mapping[str, Any]) -> None:
        """Write the record and lock it until the process ends. Raises OSError."""
        private.make_directory(self._path.parent)
        private.write(self._path, json.dumps(content))
        self._path.with_name(END).unlink(missing_ok=True)
        # Closing any descriptor of the file would release the lock. This one stays open, and nothing else opens the
        # file.
        import fcntl  # only Unix has it

        self._descriptor = private.open_file(self._path, os.O_RDWR)
        with contextlib.suppress(OSError):  # on a file system without locks the server runs but cannot be found
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)

    def withdraw(self, reason: str = "") -> None:
        """Remove the record and write why the server ended, unless another server has published its own since.

        The lock stays until the end.
        """
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                self._path.unlink()
                end = {"pid": os.getpid(), "time": int(time.time()), "reason": reason}
                private.write(self._path.with_name(END), json.dumps(end))


class RunningServer:
    """The reader's side: the record of a running server."""

    def __init__(self, descriptor: int, content: dict[str, Any]) -> None:
        self._descriptor, self.content = descriptor, content

    @property
    def pid(self) -> int | None:
        """The process id of the server; None after it ended, 0 if it is in a namespace that is not visible."""
        return _lock_holder(self._descriptor)


def describe_end(data_dir: Path) -> str:
    """Return how the last server of a data directory ended; "" if none ran or one still runs."""
    with open_record(data_dir) as server:
        if server is not None:
            return ""
    try:
        if (data_dir / RECORD).exists():
            pid = json.loads((data_dir / RECORD).read_bytes())["pid"]
            return f"the last server (pid {pid}) ended without a shutdown: it was killed or it crashed"
        end = json.loads((data_dir / END).read_bytes())
        at = datetime.fromtimestamp(end["time"], UTC)
        return f"the last server (pid {end['pid']}) stopped at {at:%Y-%m-%dT%H:%M:%SZ}: {end['reason'] or 'no reason'}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


@contextlib.contextmanager
def open_record(data_dir: Path) -> Iterator[RunningServer | None]:
    """Yield the server that runs on a data directory, or None."""
    try:
        descriptor = os.open(data_dir / RECORD, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield _read_record(descriptor)
    finally:
        os.close(descriptor)


def _read_record(descriptor: int) -> RunningServer | None:
    pid = _lock_holder(descriptor)
    if pid is None:
        return None
    try:
        content = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    except (OSError, ValueError):
        return None
    return RunningServer(descriptor, {**content, "pid": pid or content.get("pid")})


def _lock_holder(descriptor: int) -> int | None:
    """Return the id of the process that has a lock on a file; None if the file is not locked."""
    import fcntl

    question = [0] * 5
    question[_TYPE] = fcntl.F_RDLCK
    answer = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(*question)))
    return None if answer[_TYPE] == fcntl.F_UNLCK else max(answer[_PID], 0)
