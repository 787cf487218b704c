"""Waiting for the nodes of a start: a server is announced when they are Ready and their slices are published."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

#: Seconds without a further ready node until a start no longer waits.
_PATIENCE: Final = 10.0


class NodeReadiness:
    """The nodes that this process has reconciled at least once."""

    def __init__(self) -> None:
        self._ready: set[str] = set()
        self._missing: set[str] = set()
        self._complete = asyncio.Event()
        #: Set once the nodes of the options exist.
        self.provisioned = asyncio.Event()

    def mark(self, name: str) -> None:
        """Record that a node is Ready and its slices are published."""
        self._ready.add(name)
        self._settle(name)

    def remove(self, name: str) -> None:
        """Drop a deleted node."""
        self._ready.discard(name)
        self._settle(name)

    def clear(self) -> None:
        """Drop all nodes after the store was emptied."""
        self._ready.clear()

    async def wait(self, names: Iterable[str]) -> tuple[int, list[str]]:
        """Wait until these nodes are ready; give up after 10 s without progress.

        Return the number of ready nodes and a warning about the others.
        """
        wanted = set(names)
        self._missing = wanted - self._ready
        while self._missing:
            before = len(self._missing)
            self._complete.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._complete.wait(), _PATIENCE)
            if len(self._missing) == before:
                shown = ", ".join(sorted(self._missing)[:5])
                return len(wanted) - before, [f"{before} of {len(wanted)} nodes are not Ready yet: {shown}"]
        return len(wanted), []

    def _settle(self, name: str) -> None:
        self._missing.discard(name)
        if not self._missing:
            self._complete.set()
