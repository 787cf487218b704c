"""The transport over HTTP, on httpx (imported when the first connection is made).

Requests go through httpx's transports, one per connection, without its client and pool: cookies, redirects and
authentication flows are not needed here, and the pool's work grows with every connection that is open or waited for
(docs/adr/0004). A watch has a connection of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from controllers.runtime.kubeconfig import Cluster
from controllers.runtime.transport import Headers, TransportError

if TYPE_CHECKING:
    import httpx

_CONNECTIONS = 16
_TIMEOUTS: Mapping[str, float | None] = {"connect": 10.0, "read": 60.0, "write": 60.0, "pool": None}
_WATCH_TIMEOUTS: Mapping[str, float | None] = {**_TIMEOUTS, "read": None}
_KEPT_SECONDS = 60.0


class HttpTransport:
    """Keep-alive connections to one server, sixteen at most, and one more for each watch."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tls: SSLContext | None = None
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._free = asyncio.Semaphore(_CONNECTIONS)
        self._started = False

    def _connection(self) -> httpx.AsyncHTTPTransport:
        import httpx

        if not self._started:
            self._started = True
            self._tls = self._cluster.tls_context()
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_KEPT_SECONDS)
        return httpx.AsyncHTTPTransport(verify=self._tls or False, limits=limits)

    def _request(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        timeouts: Mapping[str, float | None],
    ) -> httpx.Request:
        import httpx

        url = f"{self._cluster.server}{path}?{query}" if query else f"{self._cluster.server}{path}"
        sent = {**self._cluster.headers(), **headers}
        return httpx.Request(method, url, headers=sent, content=body or None, extensions={"timeout": timeouts})

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        async with self._free:
            connection = self._idle.pop() if self._idle else self._connection()
            import httpx

            try:
                answer = await connection.handle_async_request(
                    self._request(method, path, query, headers, body, _TIMEOUTS)
                )
                content = await answer.aread()
                await answer.aclose()
            except httpx.TransportError as error:
                await connection.aclose()
                raise TransportError(f"{self._cluster.server}: {_text(error)}") from error
            except BaseException:
                await connection.aclose()
                raise
            self._idle.append(connection)
        return answer.status_code, answer.headers.multi_items(), content

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        connection = self._connection()
        import httpx

        try:
            answer = await connection.handle_async_request(
                self._request(method, path, query, headers, b"", _WATCH_TIMEOUTS)
            )
        except httpx.TransportError as error:
            await connection.aclose()
            raise TransportError(f"{self._cluster.server}: {_text(error)}") from error
        return answer.status_code, answer.headers.multi_items(), _chunks(answer, connection)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()


async def _chunks(answer: Any, connection: Any) -> AsyncIterator[bytes]:
    import httpx

    try:
        async for chunk in answer.aiter_bytes():
            yield chunk
    except httpx.TransportError as error:
        raise TransportError(f"the stream broke: {_text(error)}") from error
    finally:
        await answer.aclose()
        await connection.aclose()


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
