"""Slices of drivers that are gone are removed: all of a node's when its kubelet starts, a driver's when none of its
sockets was connected for a while.

Source of facts: Kubernetes 1.36, package pkg/kubelet/cm/dra/plugin.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Final

from apiserver.api.errors.status import StatusError
from controllers.runtime.client import Client, is_reason
from controllers.runtime.kinds import NODES, RESOURCE_SLICES
from controllers.runtime.transport import TransportError

log = logging.getLogger(__name__)
#: Seconds that a driver may be away.
DELAY: Final = 30.0
#: Seconds before a removal is tried again: the first, the longest.
_FIRST, _LONGEST = 1.0, 300.0


class SliceWiper:
    """Removes the slices of one node."""

    def __init__(
        self, client: Client, node: str, delay: float = DELAY, jitter: Callable[[], float] = random.random
    ) -> None:
        self._client, self._node, self._delay, self._jitter = client, node, delay, jitter
        self._pending: dict[str, asyncio.Task[None]] = {}
        self._wiping: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """All slices of the node, now."""
        self._run(self._wipe(""))

    def note(self, driver: str, usable: bool) -> None:
        """A driver came or went. While it is away its time runs on, whatever else is noted."""
        if usable:
            pending = self._pending.pop(driver, None)
            if pending is not None:
                pending.cancel()
        elif driver not in self._pending:
            self._pending[driver] = asyncio.create_task(self._later(driver))

    async def close(self) -> None:
        tasks = (*self._pending.values(), *self._wiping)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._wiping.add(task)
        task.add_done_callback(self._wiping.discard)

    async def _later(self, driver: str) -> None:
        await asyncio.sleep(self._delay)
        del self._pending[driver]
        # From here on nothing stops it: a driver that comes back now publishes anew.
        self._run(self._wipe(driver))

    async def _wipe(self, driver: str) -> None:
        """Tries until it is done, or until the next pause would be too long."""
        pause = _FIRST
        while not await self._removed(driver):
            await asyncio.sleep(pause * (1 + 0.2 * self._jitter()))
            pause *= 2
            if pause > _LONGEST:
                log.warning("slices of node %s are not removed: gave up", self._node)
                return

    async def _removed(self, driver: str) -> bool:
        selector = f"spec.driver={driver},spec.nodeName={self._node}" if driver else f"spec.nodeName={self._node}"
        try:
            # Without its Node object a kubelet is not known to the server, and may not remove anything.
            await self._client.get(NODES, self._node)
        except (StatusError, TransportError) as error:
            log.debug("slices of node %s: %s", self._node, error)
            return False
        try:
            await self._client.delete_collection(RESOURCE_SLICES, field_selector=selector)
        except (StatusError, TransportError) as error:
            if is_reason(error, "NotFound"):
                return True
            log.info("slices (%s) are not removed yet: %s", selector, error)
            return False
        return True
