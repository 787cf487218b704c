"""What belongs to a SQLite database in a directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from apiserver.storage.log.types import Durability
from apiserver.storage.sqlite.commit_marker import Mark
from apiserver.storage.sqlite.disk_reserve import Reserve
from apiserver.storage.sqlite.file_watchdog import Guard


class Place(NamedTuple):
    """What belongs to a database in a directory: the answered revision outside of it, the look-out for its files, the
    room that is kept back, and what lets go of the directory.
    """

    durability: Durability
    mark: Mark
    guard: Guard
    reserve: Reserve
    release: Callable[[], None]

    def close(self) -> None:
        self.mark.close()
        self.guard.close()
        self.reserve.give()
        self.release()
