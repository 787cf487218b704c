"""Files that are read again when they change, and what is counted of that.

Facts: apiserver, pkg/server/options/authorizationconfig/metrics and authenticationconfig/metrics.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from apiserver.api.metrics import Counter, Family, Gauge
from apiserver.clock import Timer, now, timers

__all__ = ["Reloaded", "digest"]

log = logging.getLogger(__name__)
#: Seconds between two looks at a file.
_PAUSE: Final = 1.0


class Reloaded:
    """A file of `subject` (authorization), which `load` takes over. For a text that is of no use it raises ValueError,
    and what held before holds on.
    """

    def __init__(self, subject: str, path: Path, server: str, load: Callable[[bytes], object]) -> None:
        self._subject, self._path, self._load = subject, path, load
        self._text = path.read_bytes()
        self._mark = self._stat()
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
                lambda: {(self._server, digest(self._text)): 1},
            ),
        ]  # fmt: skip

    def families(self) -> Iterable[Family]:
        return self._families

    async def follow(self) -> None:
        """Looks at the file again and again."""
        while True:
            with timers(Timer.MACHINE):
                await asyncio.sleep(_PAUSE)
            if self._stat() != self._mark:
                self.look()

    def look(self) -> None:
        """Takes over what the file says now, if that can be used."""
        self._mark = self._stat()
        try:
            text = self._path.read_bytes()
            if text == self._text:
                return
            self._load(text)
        except (OSError, ValueError) as error:
            log.error("%s configuration %s is not taken over: %s", self._subject, self._path, error)
            self._note("failure")
            return
        self._text = text
        log.info("%s configuration %s is taken over", self._subject, self._path)
        self._note("success")

    def _note(self, status: str) -> None:
        self._count.sample(self._server, status).value += 1
        self._times[self._server, status] = now().timestamp()

    def _stat(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)


def digest(data: bytes) -> str:
    """How metrics show what may be long, or nobody's business."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
