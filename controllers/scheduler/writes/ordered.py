"""Writes that go on while the scheduler decides; those about one object in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


class InOrder:
    """A write that fails is logged: nobody waits for it."""

    def __init__(self) -> None:
        self._writing: dict[str, asyncio.Task[None]] = {}

    @property
    def idle(self) -> bool:
        return not self._writing

    def run(self, key: str, write: Callable[[], Awaitable[None]], what: str) -> None:
        """Begins when what was begun before for that key has ended. `what` is written, for the log."""
        before = self._writing.get(key)

        async def run() -> None:
            if before is not None:
                await asyncio.wait((before,))
            try:
                await write()
            except Exception:
                log.exception("%s was not written", what)

        task = self._writing[key] = asyncio.get_running_loop().create_task(run(), name=f"write {key}")
        task.add_done_callback(lambda done: self._writing.pop(key) if self._writing.get(key) is done else None)

    async def close(self) -> None:
        """Ends what is still going on."""
        tasks = list(self._writing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
