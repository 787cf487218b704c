"""The handler that forwards requests to aggregated API servers. It is in the chain only while there are any.

Facts: kube-aggregator, pkg/apiserver/handler_proxy.go.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Final

from apiserver.aggregation.client import RemoteClient, user_headers
from apiserver.aggregation.servers import RemoteServers, Server
from apiserver.api.errors.status import PlainError
from apiserver.api.values.numbers import int64
from apiserver.http.handlers.chain import Handler
from apiserver.request.audit_ids import audit_id
from apiserver.request.connection_upgrade import InvalidResponse
from apiserver.request.messages import Request, Response, Stream
from apiserver.runtime.clock import Timer, timers

if TYPE_CHECKING:
    import httpx

__all__ = ["AggregationHandler"]

#: Headers of one connection, and headers that only this server may set.
_OWN: Final = frozenset(
    {
        "host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "te", "trailer", "upgrade",
        "content-length", "authorization", "x-remote-user", "x-remote-uid", "x-remote-group", "expect",
        "impersonate-user", "impersonate-uid", "impersonate-group",
    }
)  # fmt: skip
#: Prefixes of further such headers.
_OWN_STARTS: Final = ("x-remote-extra-", "impersonate-extra-")
_OF_ANSWER: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "content-type", "date", "audit-id"}
)
#: Longer responses, or those of unknown length, are streamed.
_WHOLE: Final = 1 << 20
#: Maximal seconds until a response begins, except for watches: nothing else ends a request of a lost client.
_LONGEST_SECONDS: Final = 60.0


class AggregationHandler:
    """Forwards requests to the server of a group and version, with the identity of the user."""

    next: Handler

    def __init__(self, servers: RemoteServers, client: RemoteClient) -> None:
        self._servers, self._client = servers, client

    def try_fast(self, request: Request) -> Response | None:
        if (request.info.group, request.info.version) in self._servers.known:
            return None
        return self.next.try_fast(request)

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        server = self._find(request)
        return self.next.handle(request) if server is None else self._forward(request, server)

    def _find(self, request: Request) -> Server | None:
        known, parts = self._servers.known, request.path.strip("/").split("/")
        if parts[:2] == ["openapi", "v3"]:
            parts = parts[2:]
            server = known.get((parts[1], parts[2])) if parts[:1] == ["apis"] and len(parts) == 3 else None
            return server if server is not None and server.available else None
        if parts[0] == "apis" and len(parts) > 2:
            return known.get((parts[1], parts[2]))
        return None

    async def _forward(self, request: Request, server: Server) -> Response | Stream:
        """Forward a request. Raise PlainError (503) while the server is unavailable."""
        if server.place is None or not server.available:
            raise PlainError(503, "service unavailable")
        assert request.user is not None, "the authentication handler runs first"
        import httpx

        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name not in _OWN and not name.startswith(_OWN_STARTS)
        ]
        if "audit-id" not in request.headers:
            headers.append(("Audit-Id", audit_id(request)))
        target = f"{request.path}?{request.query}" if request.query else request.path
        upgrade = request.headers.get("upgrade", "")
        if upgrade:
            headers += [("Connection", "Upgrade"), ("Upgrade", upgrade)]
        try:
            with timers(Timer.MACHINE):
                async with asyncio.timeout(None if request.info.verb == "watch" else _LONGEST_SECONDS):
                    if upgrade:
                        return await self._client.forward_upgrade(
                            server.remote, server.place, request.method, target,
                            [*headers, *user_headers(request.user)], request.body,
                        )  # fmt: skip
                    answer = await self._client.send(
                        server.remote, server.place, request.method, target, [*headers, *user_headers(request.user)],
                        request.body,
                    )  # fmt: skip
                    return await _convert_response(request, answer)
        except TimeoutError:
            raise PlainError(504, f"{server.remote.name}: no answer within {_LONGEST_SECONDS:g} seconds") from None
        except (httpx.HTTPError, OSError, ssl.SSLError, InvalidResponse) as error:
            raise PlainError(503, f"error trying to reach service: {error}") from None


async def _convert_response(request: Request, answer: httpx.Response) -> Response | Stream:
    content_type = answer.headers.get("content-type", "")
    headers = tuple((name, value) for name, value in answer.headers.multi_items() if name.lower() not in _OF_ANSWER)
    length = int64(answer.headers.get("content-length", ""))
    if request.method == "HEAD" or (length is not None and length <= _WHOLE):
        try:
            body = b"".join([piece async for piece in answer.aiter_raw()])
        finally:
            await answer.aclose()
        return Response(answer.status_code, body, content_type, headers)
    stream = Stream(answer.status_code, content_type, headers)
    stream.chunks = _pieces(answer, stream)
    return stream


async def _pieces(answer: httpx.Response, stream: Stream) -> AsyncIterator[bytes]:
    import httpx

    try:
        async for piece in answer.aiter_raw():
            stream.sent += len(piece)
            yield piece
    except httpx.HTTPError:
        return  # the connection ends like the server's
    finally:
        await answer.aclose()
        stream.finish()
