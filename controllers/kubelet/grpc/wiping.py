"""The deletion of ResourceSlices of vanished drivers.

All slices of a node are deleted when its kubelet starts. The slices of one driver are deleted after all its sockets
were disconnected for a while. Source of facts: Kubernetes 1.36, package pkg/kubelet/cm/dra/plugin.
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
#: Grace period of a disconnected driver in seconds.
DELAY: Final = 30.0
#: First and longest delay in seconds before a deletion is retried.
_FIRST, _LONGEST = 1.0, 300.0


class SliceWiper:
    """The deletion of one node's slices."""

    def __init__(
        self, client: Client, node: str, delay: float = DELAY, jitter: Callable[[], float] = random.random
    ) -> None:
        self._client, self._node, self._delay, self._jitter = client, node, delay, jitter
        self._pending: dict[str, asyncio.Task[None]] = {}
        self._wiping: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Delete all slices of the node now."""
        self._run(self._wipe(""))

    def set_connected(self, driver: str, usable: bool) -> None:
        """Record the connection state of a driver. Repeated losses do not restart the grace period."""
        if usable:
            pending = self._pending.pop(driver, None)
            if pending is not None:
                pending.cancel()
        elif driver not in self._pending:
            self._pending[driver] = asyncio.create_task(self._wipe_later(driver))

    async def close(self) -> None:
        tasks = (*self._pending.values(), *self._wiping)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._wiping.add(task)
        task.add_done_callback(self._wiping.discard)

    async def _wipe_later(self, driver: str) -> None:
        await asyncio.sleep(self._delay)
        del self._pending[driver]
        # The deletion is no longer cancelled: a driver that reconnects now publishes again.
        self._run(self._wipe(driver))

    async def _wipe(self, driver: str) -> None:
        """Retry the deletion until it succeeds or the next pause is too long."""
        pause = _FIRST
        while not await self._delete(driver):
            await asyncio.sleep(pause * (1 + 0.2 * self._jitter()))
            pause *= 2
            if pause > _LONGEST:
                log.warning("cannot delete the slices of node %s: gave up", self._node)
                return

    async def _delete(self, driver: str) -> bool:
        selector = f"spec.driver={driver},spec.nodeName={self._node}" if driver else f"spec.nodeName={self._node}"
        try:
            # Without its Node object the kubelet is not authorized to delete anything.
            await self._client.get(NODES, self._node)
        except (StatusError, TransportError) as error:
            log.debug("slices of node %s: %s", self._node, error)
            return False
        try:
            await self._client.delete_collection(RESOURCE_SLICES, field_selector=selector)
        except (StatusError, TransportError) as error:
            if is_reason(error, "NotFound"):
                return True
            log.info("cannot delete slices (%s) yet: %s", selector, error)
            return False
        return True
