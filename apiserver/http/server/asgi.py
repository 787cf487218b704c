"""The ASGI application: Kubernetes paths to the dispatcher, `/-/` and `/docs` to FastAPI.

Our own server asks it for FastAPI's paths only (apiserver/http/server/protocol.py); to any other ASGI server it is
everything.

The switch stands before FastAPI, so that a Kubernetes request passes none of its routing and middleware
(docs/adr/0003-dispatcher.md). FastAPI is imported when the first of its paths is asked for, in a thread: its import
takes longer than the rest of the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from apiserver.http.handlers.dispatch import Dispatcher
from apiserver.http.handlers.requestinfo import undecoded
from apiserver.http.server.pace import Pace
from apiserver.http.server.relay import OURS, AsgiApp, Message, Receive, Send
from apiserver.messages import Request, Response, Stream, joined

_NO_CACHE: Final = (b"cache-control", b"no-cache, private")
_MAX_BODY: Final = 3 * 1024 * 1024
#: Answers without a body.
_EMPTY: Final = (204, 304)
_BODILESS: Final = frozenset({"GET", "HEAD"})


class Application:
    """What is served. `dispatcher` answers Kubernetes requests; `make_admin` imports and builds the FastAPI
    application.
    """

    def __init__(self, dispatcher: Dispatcher, make_admin: Callable[[], AsgiApp]) -> None:
        self.dispatcher = dispatcher
        self._make_admin = make_admin
        self._admin: asyncio.Future[AsgiApp] | None = None
        self._content_types: dict[str, tuple[bytes, bytes]] = {}
        self.pace = Pace()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path.startswith(OURS):
            app = await self.admin()
            await app(scope, receive, send)
            return
        method = scope["method"]
        headers = _headers(scope["headers"])
        body = b"" if method in _BODILESS and "content-length" not in headers else await _read(receive)
        if body is None:
            return
        if scope["raw_path"] is not None and b"%" in scope["raw_path"]:
            path = undecoded(scope["raw_path"].partition(b"?")[0])
        answer = await self.dispatcher.handle(
            Request(method, path, scope["query_string"].decode("latin-1"), headers, body)
        )
        if isinstance(answer, Response):
            await self._respond(answer, send, head=method == "HEAD")
        else:
            await self._stream(answer, receive, send)

    async def admin(self) -> AsgiApp:
        """The FastAPI application; the first to ask waits for its import."""
        if self._admin is None:
            self._admin = asyncio.ensure_future(asyncio.to_thread(self._make_admin))
        return await asyncio.shield(self._admin)

    def _type(self, content_type: str) -> tuple[bytes, bytes]:
        pair = self._content_types.get(content_type)
        if pair is None:
            pair = self._content_types[content_type] = (b"content-type", content_type.encode("latin-1"))
        return pair

    async def _respond(self, answer: Response, send: Send, *, head: bool) -> None:
        if answer.status in _EMPTY:
            headers = [_header(name, value) for name, value in answer.headers]
        else:
            headers = [(b"content-length", b"%d" % len(answer.body)), _NO_CACHE]
            if answer.content_type:
                headers.append(self._type(answer.content_type))
            if answer.headers:
                headers += [_header(name, value) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if head else answer.body})

    async def _stream(self, answer: Stream, receive: Receive, send: Send) -> None:
        """Chunks until they end or the client goes; either way the iterator is closed."""
        headers = [
            self._type(answer.content_type),
            _NO_CACHE,
            *(_header(name, value) for name, value in answer.headers),
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        # An empty chunk sends the head now: a watch may have nothing to say for long.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        pump = asyncio.ensure_future(self._pump(answer, send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pump, gone):
                task.cancel()
            failure, _ = await asyncio.gather(pump, gone, return_exceptions=True)
        if failure is None:
            with suppress(OSError):
                await send({"type": "http.response.body", "body": b""})
        elif not isinstance(failure, asyncio.CancelledError):
            # The answer has begun: only its abrupt end can tell the client.
            raise failure

    async def _pump(self, answer: Stream, send: Send) -> None:
        """Send chunk by chunk, at the pace of all streams."""
        chunks = answer.chunks
        try:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await self.pace.rest()
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read(receive: Receive) -> bytes | None:
    """The whole body; of one that is too large, enough to see that it is. None when the client went before its end."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        return body
    parts, size = [], 0
    while message["type"] == "http.request":
        part = message.get("body", b"")
        if size <= _MAX_BODY:
            parts.append(part)
            size += len(part)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    return None


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw, value in pairs:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        headers[name] = joined(name, headers[name], text) if name in headers else text
    return headers


def _header(name: str, value: str) -> tuple[bytes, bytes]:
    return name.lower().encode("latin-1"), value.encode("utf-8")
