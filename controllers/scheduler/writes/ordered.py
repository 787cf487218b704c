"""Background writes, in order per object."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


class OrderedWrites:
    """Background writes. Failures are logged: no caller waits for them."""

    def __init__(self) -> None:
        self._writing: dict[str, asyncio.Task[None]] = {}

    @property
    def idle(self) -> bool:
        return not self._writing

    def run(self, key: str, write: Callable[[], Awaitable[None]], description: str) -> None:
        """Start a write after earlier writes for that key. `description` names it in the log."""
        before = self._writing.get(key)

        async def run() -> None:
            if before is not None:
                await asyncio.wait((before,))
            try:
                await write()
            except Exception:
                log.exception("%s was not written", description)

        task = self._writing[key] = asyncio.get_running_loop().create_task(run(), name=f"write {key}")
        task.add_done_callback(lambda done: self._writing.pop(key) if self._writing.get(key) is done else None)

    async def close(self) -> None:
        """Cancel the pending writes."""
        tasks = list(self._writing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
