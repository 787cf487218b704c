"""Files that accompany a SQLite database in a directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from apiserver.storage.log.types import Durability
from apiserver.storage.sqlite.commit_marker import CommitMarker
from apiserver.storage.sqlite.disk_reserve import Reserve
from apiserver.storage.sqlite.file_watchdog import FileWatchdog


class DatabaseFiles(NamedTuple):
    """Files beside a database: commit marker, watchdog and disk reserve. `release` unlocks the directory."""

    durability: Durability
    marker: CommitMarker
    watchdog: FileWatchdog
    reserve: Reserve
    release: Callable[[], None]

    def close(self) -> None:
        self.marker.close()
        self.watchdog.close()
        self.reserve.release()
        self.release()
