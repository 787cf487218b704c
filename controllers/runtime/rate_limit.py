"""A transport that keeps to a number of requests per second, as clients of Kubernetes' own programs do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from controllers.runtime.transport import Headers, Transport


class Paced:
    """Sends `burst` requests at once and after that `qps` a second, in the order in which they were asked for; the
    beginning of a watch is one of them. What was not used up is saved, up to the burst. Source: client-go,
    util/flowcontrol (a bucket of tokens).
    """

    def __init__(self, transport: Transport, qps: float, burst: int) -> None:
        self._transport = transport
        self._gap, self._saved = 1 / qps, (max(burst, 1) - 1) / qps
        self._next = float("-inf")
        """When the next one has its turn if it comes at once, in the loop's time."""

    async def _turn(self) -> None:
        now = asyncio.get_running_loop().time()
        turn = max(self._next, now - self._saved)
        self._next = turn + self._gap
        if turn > now:
            await asyncio.sleep(turn - now)

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        await self._turn()
        return await self._transport.request(method, path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], deadline: float | None = None
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        await self._turn()
        return await self._transport.stream(method, path, query, headers, deadline)

    async def close(self) -> None:
        await self._transport.close()
