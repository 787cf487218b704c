"""Servers to hold conversations with: in this process, on a real socket, one per profile and storage.

Their time stands still except for the time that a conversation lets pass. Only a few run at a time: the least recently
used one is stopped.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from tests.conformance.conversation import Profile
from tests.support.postgres import fresh_schema
from tests.support.server import HeldTime, Running, serve

STORAGES: Final = ("memory", "sqlite", "postgres")
#: So many servers run at a time.
KEPT: Final = 4


class Servers:
    """A context manager that starts servers on first use.

    `postgres_url` is called for the first server on Postgres. With `standing`, timers stand still, too; only a
    caller that advances them may leave it set.
    """

    def __init__(self, tokens: Path, postgres_url: Callable[[], str], *, standing: bool = True) -> None:
        self._tokens, self._postgres_url, self._standing = tokens, postgres_url, standing
        self._running: OrderedDict[tuple[Profile, str], tuple[Running, contextlib.ExitStack]] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._running:
            self._end_oldest()

    def get(self, profile: Profile, storage: str) -> Running:
        """Return a server of this profile on this storage, empty but for the objects that each server has."""
        key = (profile, storage)
        if key not in self._running:
            while len(self._running) >= KEPT:
                self._end_oldest()
            stack = contextlib.ExitStack()
            flags = (*profile.flags(self._tokens), *self._storage_flags(storage))
            time = None if self._standing else HeldTime()
            running = stack.enter_context(serve(*flags, time=time, standing=self._standing))
            self._running[key] = (running, stack)
        self._running.move_to_end(key)
        return self._running[key][0]

    def _storage_flags(self, storage: str) -> tuple[str, ...]:
        if storage == "postgres":
            return (f"--storage={fresh_schema(self._postgres_url())}",)
        return (f"--storage={storage}", "--durability=off") if storage == "sqlite" else (f"--storage={storage}",)

    def _end_oldest(self) -> None:
        _, (_, stack) = self._running.popitem(last=False)
        stack.close()
