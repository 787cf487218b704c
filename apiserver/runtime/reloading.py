"""Reload files when they change, and count the reloads.

Upstream uses file system notifications and a check every minute; here a check every second replaces both.
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

__all__ = ["ReloadedConfiguration", "ReloadedFiles", "digest", "stamp"]

log = logging.getLogger(__name__)
#: Seconds between two checks of a file.
_PAUSE: Final = 1.0


class ReloadedFiles:
    """Files that are loaded together, as a certificate and its key.

    `load` is called with their texts when one of them changes. It raises ValueError or OSError for unusable texts; then
    the previous state stays and the error is logged. Other errors are logged with the traceback.
    """

    def __init__(self, what: str, paths: Sequence[Path], load: Callable[..., object]) -> None:
        """Read the files; `texts` are their contents. Raise OSError."""
        self._what, self._paths, self._load = what, paths, load
        self._stamps = self._stat()
        self.texts = self._read()

    def families(self) -> Iterable[Family]:
        """Return the metric families of the reloads."""
        return ()

    async def follow(self) -> None:
        """Check the files for changes until cancelled."""
        while True:
            with timers(Timer.MACHINE):
                await asyncio.sleep(_PAUSE)
            if await self._changed():
                self.reload()

    async def _changed(self) -> bool:
        return self._stat() != self._stamps

    def reload(self) -> None:
        """Load the present contents, if usable."""
        self._stamps = self._stat()
        where = ", ".join(map(str, self._paths))
        try:
            texts = self._read()
            if texts == self.texts:
                return
            self._load(*texts)
        except Exception as error:
            expected = isinstance(error, OSError | ValueError)
            log.error("%s %s is not taken over: %s", self._what, where, error, exc_info=None if expected else error)
            self._count_reload("failure")
            return
        self.texts = texts
        log.info("%s %s is taken over", self._what, where)
        self._count_reload("success")

    def _count_reload(self, status: str) -> None:
        """Count a successful or failed reload."""

    def _read(self) -> list[bytes]:
        return [path.read_bytes() for path in self._paths]

    def _stat(self) -> list[tuple[int, int, int]]:
        return [stamp(path) for path in self._paths]


class ReloadedConfiguration(ReloadedFiles):
    """A file of `subject` (authorization) whose reloads are counted."""

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

    def _count_reload(self, status: str) -> None:
        self._count.sample(self._server, status).value += 1
        self._times[self._server, status] = now().timestamp()


def stamp(path: Path) -> tuple[int, int, int]:
    """Return a value that changes when a file is written or replaced; the same for all missing files."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def digest(data: bytes) -> str:
    """Return a label value for long or confidential data."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
