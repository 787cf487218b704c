"""A transport with a rate limit of requests per second, as clients of Kubernetes' own programs have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from controllers.runtime.transport import Headers, Transport


class RateLimitedTransport:
    """A token bucket: `burst` requests immediately, then `qps` requests per second, in order.

    Starting a watch is one request. Unused tokens are saved up to the burst. Source: client-go, util/flowcontrol.
    """

    def __init__(self, transport: Transport, qps: float, burst: int) -> None:
        self._transport = transport
        self._gap, self._saved = 1 / qps, (max(burst, 1) - 1) / qps
        self._next = float("-inf")
        """The earliest loop time of the next request without saved tokens."""

    async def _acquire(self) -> None:
        now = asyncio.get_running_loop().time()
        start = max(self._next, now - self._saved)
        self._next = start + self._gap
        if start > now:
            await asyncio.sleep(start - now)

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        await self._acquire()
        return await self._transport.request(method, path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], deadline: float | None = None
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        await self._acquire()
        return await self._transport.stream(method, path, query, headers, deadline)

    async def close(self) -> None:
        await self._transport.close()
