"""Connections to one webhook, in small pools.

A pool of httpcore looks at each waiting request and each connection whenever a request begins or ends: 300 calls of a
webhook that hangs took seconds of the event loop. Its work stays small because no pool has many requests.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx

__all__ = ["Connections"]

#: Requests of one pool at a time, and pools that stay open without requests.
REQUESTS: Final = 16
_KEPT: Final = 4


class _Pool:
    """A pool with its number of running requests."""

    __slots__ = ("requests", "transport")

    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        self.transport, self.requests = transport, 0


class Connections:
    """The connections with one context. There are transports, not clients: cookies and redirects cost a fifth."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        self._trust = trust
        self._pools: list[_Pool] = []

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[httpx.AsyncHTTPTransport]:
        """Lend a transport for one request."""
        pool = next((each for each in self._pools if each.requests < REQUESTS), None) or self._open()
        pool.requests += 1
        try:
            yield pool.transport
        finally:
            pool.requests -= 1
            if not pool.requests and pool not in self._pools[:_KEPT]:
                if pool in self._pools:
                    self._pools.remove(pool)
                await pool.transport.aclose()

    def _open(self) -> _Pool:
        import httpx

        pool = _Pool(httpx.AsyncHTTPTransport(verify=self._trust, trust_env=False))
        self._pools.append(pool)
        return pool

    async def aclose(self) -> None:
        """Close all connections."""
        pools, self._pools = self._pools, []
        for pool in pools:
            await pool.transport.aclose()
