"""Files that are read again when they change, and what is counted of that.

Upstream is told of changes by the file system and looks every minute besides; here a look every second does for both.
Facts: apiserver, pkg/server/options/authorizationconfig/metrics and authenticationconfig/metrics,
pkg/server/dynamiccertificates.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from apiserver.runtime.clock import Timer, now, timers
from apiserver.runtime.metrics import Counter, Family, Gauge

__all__ = ["Followed", "Reloaded", "digest", "stamp"]

log = logging.getLogger(__name__)
#: Seconds between two looks at a file.
_PAUSE: Final = 1.0


class Followed:
    """Files that hold one thing together, as a certificate and its key: `load` takes over their texts when one of them
    changes. For texts that are of no use it raises ValueError or OSError; then what held before holds on, and a line
    of the log says so; with the traceback where it fails otherwise.
    """

    def __init__(self, what: str, paths: Sequence[Path], load: Callable[..., object]) -> None:
        """Reads the files; `texts` is what they say. Raises OSError."""
        self._what, self._paths, self._load = what, paths, load
        self._mark = self._stat()
        self.texts = self._read()

    def families(self) -> Iterable[Family]:
        """What is counted of it."""
        return ()

    async def follow(self) -> None:
        """Looks at the files again and again."""
        while True:
            with timers(Timer.MACHINE):
                await asyncio.sleep(_PAUSE)
            if await self._changed():
                self.look()

    async def _changed(self) -> bool:
        return self._stat() != self._mark

    def look(self) -> None:
        """Takes over what the files say now, if that can be used."""
        self._mark = self._stat()
        where = ", ".join(map(str, self._paths))
        try:
            texts = self._read()
            if texts == self.texts:
                return
            self._load(*texts)
        except Exception as error:
            expected = isinstance(error, OSError | ValueError)
            log.error("%s %s is not taken over: %s", self._what, where, error, exc_info=None if expected else error)
            self._note("failure")
            return
        self.texts = texts
        log.info("%s %s is taken over", self._what, where)
        self._note("success")

    def _note(self, status: str) -> None:
        """Counts a change that was taken over (success) or not (failure)."""

    def _read(self) -> list[bytes]:
        return [path.read_bytes() for path in self._paths]

    def _stat(self) -> list[tuple[int, int, int]]:
        return [stamp(path) for path in self._paths]


class Reloaded(Followed):
    """A file of `subject` (authorization), whose changes are counted."""

    def __init__(self, subject: str, path: Path, server: str, load: Callable[[bytes], object]) -> None:
        super().__init__(f"{subject} configuration", (path,), load)
        self._server = digest(server.encode())
        self._times: dict[tuple[str, ...], float] = {}
        start = f"apiserver_{subject}_config_controller"
        self._count = Counter(
            f"{start}_automatic_reloads_total", "Reloads by success.", ("apiserver_id_hash", "status")
        )
        self._families: list[Family] = [
            self._count,
            Gauge(
                f"{start}_automatic_reload_last_timestamp_seconds", "The last reload by success.",
                ("apiserver_id_hash", "status"), lambda: self._times,
            ),
            Gauge(
                f"{start}_last_config_info", "The file that is followed.", ("apiserver_id_hash", "hash"),
                lambda: {(self._server, digest(self.texts[0])): 1},
            ),
        ]  # fmt: skip

    def families(self) -> Iterable[Family]:
        return self._families

    def _note(self, status: str) -> None:
        self._count.sample(self._server, status).value += 1
        self._times[self._server, status] = now().timestamp()


def stamp(path: Path) -> tuple[int, int, int]:
    """What differs when a file was written or replaced; the same for all that are not there."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def digest(data: bytes) -> str:
    """How metrics show what may be long, or nobody's business."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
