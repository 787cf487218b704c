"""Relay requests for FastAPI's paths through ASGI, and collect the whole response.

All of them are small, and none is a stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import unquote

from apiserver.request.messages import MAX_BODY, Request, Response

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]

#: Prefixes of FastAPI's paths.
ADMIN_PATHS: Final = ("/-/", "/docs", "/openapi.json")
_ADMIN_PATHS: Final = tuple(path.encode() for path in ADMIN_PATHS)
#: Headers that the connection sets itself.
_OF_CONNECTION: Final = frozenset({b"content-length", b"transfer-encoding", b"connection"})


def is_admin_path(raw_path: bytes) -> bool:
    """Return whether FastAPI serves a path, as it was sent."""
    return raw_path.startswith(_ADMIN_PATHS) or (b"%" in raw_path and unquote(raw_path).startswith(ADMIN_PATHS))


async def relay(app: AsgiApp, request: Request, raw_path: bytes, transport: asyncio.BaseTransport) -> Response:
    """Return the response to one request. A failing application gives 500."""
    if len(request.body) > MAX_BODY:
        return Response(413, b"Request entity too large", "text/plain; charset=utf-8")
    body: list[Message] = [{"type": "http.request", "body": request.body, "more_body": False}]
    status, headers, parts = 0, [], []

    async def receive() -> Message:
        if body:
            return body.pop()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in message.get("headers", ())
                if name not in _OF_CONNECTION
            ]
        else:
            parts.append(message.get("body", b""))

    try:
        await app(_scope(request, raw_path, transport), receive, send)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        status = 0
    if not status:
        return Response(500, b"Internal Server Error", "text/plain; charset=utf-8")
    return Response(status, b"".join(parts), "", tuple(headers))


def _scope(request: Request, raw_path: bytes, transport: asyncio.BaseTransport) -> Message:
    """Build the ASGI scope. Its state holds the request itself, since headers do not contain the whole identity."""
    server = client = None
    if not transport.is_closing():  # uvloop has no addresses of a closed connection
        server, client = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "https" if server and transport.get_extra_info("sslcontext") else "http",
        "path": unquote(raw_path),
        "raw_path": raw_path,
        "root_path": "",
        "query_string": request.query.encode("latin-1"),
        "server": server[:2] if isinstance(server, tuple) else None,
        "client": client[:2] if isinstance(client, tuple) else None,
        "state": {"kube_request": request},
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()],
    }
