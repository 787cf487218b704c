"""HTTP/1.1 on a connection: requests parsed by httptools, handed to the dispatcher, and each answer written as one
buffer.

uvicorn listens and makes one `Protocol` per connection; a Kubernetes request then passes neither ASGI nor, where the
dispatcher can answer at once, a task (docs/adr/0009-wire-protocol.md). What belongs to FastAPI is asked through ASGI,
its answer gathered and written like any other.

One request is answered at a time, in the order of their coming. Those sent ahead wait in a queue; when it is full, or
the client does not read its answers, no more is read from the connection. A stream (a watch) is the connection's until
it ends: by itself, or because the client goes.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

import httptools

from apiserver.api.status import method_not_allowed
from apiserver.clock import Timer, purpose
from apiserver.http.formats.negotiation import JSON, encode
from apiserver.http.handlers.requestinfo import undecoded
from apiserver.http.server import heads
from apiserver.http.server.relay import is_ours, relay
from apiserver.messages import Request, Response, Stream, joined

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from apiserver.http.server.asgi import Application

log = logging.getLogger(__name__)

#: What is kept of a body: enough to see that it is larger than the dispatcher allows.
_MAX_BODY: Final = 3 * 1024 * 1024
#: Bytes of a request line and its header fields, as in Go's server.
_MAX_HEAD: Final = 1024 * 1024
#: Requests sent ahead that wait on one connection before it is read no further.
_MAX_AHEAD: Final = 64
#: Requests of one connection answered in a row before others have their turn.
_IN_A_ROW: Final = 16
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_TEXT: Final = "text/plain; charset=utf-8"
#: Methods that the parser has never heard of, where a Kubernetes path is asked for.
_WORD: Final = re.compile(rb"[A-Z]+ /apis?/[!-~]+ HTTP/1\.[01]\r\n")


class _Asked:
    """A request in the order of a connection. `answer` is set where it is refused before anybody is asked."""

    __slots__ = ("answer", "keep", "old", "raw_path", "request")

    def __init__(
        self,
        request: Request,
        raw_path: bytes = b"",
        *,
        keep: bool = False,
        old: bool = False,
        answer: Response | None = None,
    ) -> None:
        self.request, self.raw_path, self.keep, self.answer = request, raw_path, keep, answer
        #: HTTP/1.0, which knows no chunks.
        self.old = old


class Protocol(asyncio.Protocol):
    """One connection. The arguments are those that uvicorn gives."""

    transport: asyncio.Transport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._app = cast("Application", config.loaded_app)
        self._at_once, self._handle = self._app.dispatcher.at_once, self._app.dispatcher.handle
        self._loop = _loop or asyncio.get_running_loop()
        self._connections, self._tasks = server_state.connections, server_state.tasks
        self._patience = config.timeout_keep_alive
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._parser: Any = httptools.HttpRequestParser(self)
        # What follows a request that closes the connection is nobody's; it must not spoil the answer.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._ahead: deque[_Asked] = deque()
        self._busy: asyncio.Task[None] | None = None
        self._streaming = self._stopping = self._deaf = self._full = self._expecting = False
        self._turns = _IN_A_ROW
        self._writable: asyncio.Future[None] | None = None
        # The request that is being parsed.
        self._in_head, self._head_size = False, 0
        self._taken = False  # one of the present data is complete
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_size = 0

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._connections.add(self)  # type: ignore[arg-type]
        self._heard = monotonic()
        self._timer = self._loop.call_later(self._patience, self._look_whether_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._deaf = True
        self._ahead.clear()
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        # A write under way is carried out, whoever hears of it; a stream has nobody to tell.
        if self._streaming and self._busy is not None:
            self._busy.cancel()
        self._parser = None

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set_result(None)
            self._go_on()

    def shutdown(self) -> None:
        """The server ends: what is under way is answered, then the connection closes."""
        self._stopping = True
        if self._busy is None and not self._ahead:
            self._close()

    def _close(self) -> None:
        self._deaf = True
        self._ahead.clear()
        self.transport.close()

    @purpose(Timer.MACHINE)
    def _look_whether_idle(self) -> None:
        """One timer a connection, not one a request: it looks how long nothing was heard."""
        left: float = self._patience
        if self.transport.is_closing():
            self.transport.abort()  # what it was still to hear it does not read
            return
        if self._busy is None and not self._ahead:
            left -= monotonic() - self._heard
        if left <= 0:
            self._close()
            left = self._patience
        self._timer = self._loop.call_later(left, self._look_whether_idle)

    # Parsing

    def data_received(self, data: bytes) -> None:
        self._heard = monotonic()
        self._turns, self._taken = _IN_A_ROW, False
        try:
            rest = data
            while rest and not self._deaf:
                rest = self._feed(rest)
        except httptools.HttpParserError as error:
            if isinstance(error, httptools.HttpParserCallbackError) and not isinstance(
                error.__context__, (httptools.HttpParserError, ValueError)
            ):
                log.error("a request could not be taken", exc_info=error)
            self._refuse(self._odd(data))
            return
        if self._in_head:
            self._head_size += len(data)
            if self._head_size > _MAX_HEAD:
                self._refuse(Response(431, b"431 Request Header Fields Too Large", _TEXT))

    def _feed(self, data: bytes) -> bytes:
        """What is left to parse: of a request for another protocol, which nobody here speaks, what follows it."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return data[upgrade.args[0] :]
        return b""

    def _odd(self, data: bytes) -> Response:
        """The answer to what is no request: 400, but 405 for a method that nobody knows where a Kubernetes path is
        asked for.
        """
        if self._url or self._taken or not _WORD.match(data):
            return Response(400, b"Invalid HTTP request received.", _TEXT)
        return Response(405, encode(JSON, method_not_allowed().to_dict()))

    def on_message_begin(self) -> None:
        self._in_head, self._head_size = True, 0
        self._url, self._headers, self._body, self._body_size = b"", {}, [], 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # after the body: nothing that counts may come so late
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = joined(key, self._headers[key], text) if key in self._headers else text

    def on_headers_complete(self) -> None:
        self._in_head = False
        if "expect" in self._headers and self._headers["expect"].lower() == "100-continue":
            self._expecting = True
            self._permit()

    def on_body(self, body: bytes) -> None:
        if self._body_size <= _MAX_BODY:
            self._body.append(body)
            self._body_size += len(body)

    def on_message_complete(self) -> None:
        self._expecting, self._taken = False, True
        if self._deaf:
            return
        parser = self._parser
        raw_path, query = _split(self._url)
        path = raw_path.decode("ascii") if b"%" not in raw_path else undecoded(raw_path)
        body = b"".join(self._body) if self._body else b""
        request = Request(parser.get_method().decode("ascii"), path, query.decode("latin-1"), self._headers, body)
        old = parser.get_http_version() == "1.0"
        self._take(_Asked(request, raw_path, keep=not old and parser.should_keep_alive(), old=old))

    # One answer after the other

    def _take(self, asked: _Asked) -> None:
        if self._busy is None and self._writable is None and not self._ahead and self._turns:
            self._turns -= 1
            self._answer(asked)
            return
        self._ahead.append(asked)
        if not self._turns and self._busy is None:
            self._loop.call_soon(self._go_on)
        if len(self._ahead) >= _MAX_AHEAD and not self._full:
            self._full = True
            self.transport.pause_reading()

    def _refuse(self, answer: Response) -> None:
        """The last answer of a connection whose bytes make no sense any more."""
        if not self._deaf:
            self._take(_Asked(Request("", "", "", {}, b""), answer=answer))
            self._deaf = True

    def _go_on(self) -> None:
        """Answer what waits, as long as nothing is under way and the client reads."""
        self._turns = _IN_A_ROW
        while self._ahead and self._busy is None and self._writable is None:
            if not self._turns:
                self._loop.call_soon(self._go_on)
                break
            self._turns -= 1
            self._answer(self._ahead.popleft())
        if self._full and len(self._ahead) < _MAX_AHEAD // 2 and not self.transport.is_closing():
            self._full = False
            self.transport.resume_reading()
        self._permit()

    def _permit(self) -> None:
        """Let a client send the body for which it waits, once all before it are answered."""
        if self._expecting and self._busy is None and not self._ahead and not self._deaf:
            self._expecting = False
            self.transport.write(_CONTINUE)

    def _answer(self, asked: _Asked) -> None:
        answer = asked.answer
        if answer is None and not is_ours(asked.raw_path):
            answer = self._at_once(asked.request)
        if answer is not None:
            self._write(asked, answer)
            return
        self._busy = task = self._loop.create_task(self._work(asked))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _work(self, asked: _Asked) -> None:
        if is_ours(asked.raw_path):
            answer: Response | Stream = await relay(self._app, asked.request, asked.raw_path, self.transport)
        else:
            answer = await self._handle(asked.request)
        if isinstance(answer, Response):
            self._write(asked, answer)
        elif self.transport.is_closing():
            await _close_stream(answer)
        else:
            self._streaming = True
            await self._stream(asked, answer)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._busy, self._streaming = None, False
        self._heard = monotonic()
        if task.cancelled():
            self.transport.abort()
        elif (error := task.exception()) is not None:
            # An answer that has begun: only its abrupt end can tell the client.
            log.error("%s failed", "a stream", exc_info=error)
            self.transport.abort()
        self._go_on()

    def _write(self, asked: _Asked, answer: Response) -> None:
        if self.transport.is_closing():
            return
        close = not asked.keep or self._stopping
        for part in heads.whole(answer, head=asked.request.method == "HEAD", close=close):
            self.transport.write(part)
        if close:
            self._close()

    async def _stream(self, asked: _Asked, answer: Stream) -> None:
        """Chunks until they end or the client goes; either way the iterator is closed.

        All streams keep one pace, by which what happens in a few milliseconds goes into one chunk."""
        transport, pace = self.transport, self._app.pace
        transport.write(heads.of_stream(answer, chunked=not asked.old, close=not asked.keep))
        try:
            async for chunk in answer.chunks:
                transport.write(chunk if asked.old else pace.frame(chunk))
                if self._writable is not None:
                    await asyncio.shield(self._writable)
                await pace.rest()
        finally:
            await _close_stream(answer)
        if not asked.old:
            transport.write(b"0\r\n\r\n")
        if not asked.keep or self._stopping:
            self._close()


async def _close_stream(answer: Stream) -> None:
    close = getattr(answer.chunks, "aclose", None)
    if close is not None:
        await close()


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target. Raises httptools.HttpParserInvalidURLError."""
    if url[:1] == b"/" and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""
