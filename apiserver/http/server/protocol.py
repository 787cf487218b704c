"""HTTP/1.1 on a connection: parse requests with httptools, call the chain, and write each response as one buffer.

uvicorn listens and creates one `Protocol` per connection; a Kubernetes request then passes neither ASGI nor, if the
chain can answer it without waiting, a task (docs/adr/0009-wire-protocol.md). FastAPI's paths are called through ASGI;
their responses are collected and written like any other (`relay.py`).

One request is answered at a time, in order of arrival, and connections take turns (`turns.py`). Input is parsed in
pieces; pipelined requests are queued. While input waits, or the client does not read its responses, reading pauses. A
stream (a watch) occupies the connection until it ends, by itself or with the client's connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

import httptools

from apiserver.api.errors.status import timed_out
from apiserver.authentication.x509.client_certificates import PresentedCertificates
from apiserver.http.formats.encoding import encode
from apiserver.http.formats.negotiation import JSON
from apiserver.http.server import heads
from apiserver.http.server.frontend import FrontEnd
from apiserver.http.server.incoming import Pending, RequestReader
from apiserver.http.server.relay import is_admin_path, relay
from apiserver.http.server.strictness import PLAIN_TEXT
from apiserver.request.messages import ConnectionClosed, Request, Response, Stream
from apiserver.runtime.clock import Timer, purpose

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

log = logging.getLogger(__name__)

#: Maximal bytes of a request line and its header fields, as in Go's server, and of trailers and chunk extensions.
_MAX_HEAD: Final = 1024 * 1024
#: Further bytes that frame chunks, for each byte of the body.
_FRAMING: Final = 16
#: Pipelined requests per connection before reading pauses, and bytes of their bodies.
_MAX_PIPELINED: Final = 64
_MAX_WAITING: Final = 256 * 1024
#: Bytes of input that are parsed in one turn.
_PIECE: Final = 4096
#: The status of a response after which the connection uses another protocol.
SWITCHING: Final = 101
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
#: Paths of load balancers; their requests start immediately.
_HEALTH: Final = (b"/readyz", b"/livez", b"/healthz")


class Protocol(RequestReader, asyncio.Protocol):
    """One connection. uvicorn passes the arguments."""

    transport: asyncio.Transport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._front = cast(FrontEnd, config.loaded_app)
        super().__init__(self._front.claims)
        self._chain, self._web_pages = self._front.chain, self._front.web_pages
        self._loop = _loop or asyncio.get_running_loop()
        self._connections, self._tasks = server_state.connections, server_state.tasks
        self._idle_timeout = config.timeout_keep_alive
        self._idle_timer: asyncio.TimerHandle | None = None
        self._last_activity = 0.0
        self._pipelined: deque[Pending] = deque()
        self._answering: asyncio.Task[None] | None = None
        self._streaming = self._stopping = self._reading_paused = False
        self._turns, self._has_answered = self._front.turns, False
        self._unparsed: bytes | memoryview = b""  # received data
        self._writable: asyncio.Future[None] | None = None
        self._taken_over: Callable[[bytes], object] | None = None  # receives the bytes of another protocol
        self._waiting = 0  # bytes of the bodies of pipelined requests

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._connections.add(self)  # type: ignore[arg-type]
        if self._front.certificates is not None:
            secured = transport.get_extra_info("ssl_object")
            certificates = secured.peer_certificates() if secured is not None else ()
            self._client_certificates = (
                PresentedCertificates(self._front.certificates, certificates) if certificates else None
            )
        self._last_activity = monotonic()
        self._idle_timer = self._loop.call_later(self._idle_timeout, self._check_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._input_ended = True
        self._pipelined.clear()
        self._unparsed = b""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._end_deadline()
        self.resume_writing()
        # A running write completes although its response is lost; a stream ends.
        if self._streaming and self._answering is not None:
            self._answering.cancel()
        self._parser = None

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set_result(None)
            self._proceed()

    def shutdown(self) -> None:
        """Shut down: finish the running request, then close the connection. Pipelined requests are dropped."""
        self._stopping = True
        self._pipelined.clear()
        if self._answering is None:
            self._close()

    def _close(self) -> None:
        self._input_ended = True
        self._pipelined.clear()
        self.transport.close()

    def _abort(self) -> None:
        """Close the connection without sending pending data; pipelined requests are dropped."""
        self._pipelined.clear()
        self.transport.abort()

    @purpose(Timer.MACHINE)
    def _check_idle(self) -> None:
        """Close the connection after a long idle time. There is one timer per connection, not one per request."""
        left: float = self._idle_timeout
        if self.transport.is_closing():
            self.transport.abort()  # the client does not read the pending data
            return
        if self._answering is None and not self._pipelined:
            left -= monotonic() - self._last_activity
        if left <= 0:
            self._close()
            left = self._idle_timeout
        self._idle_timer = self._loop.call_later(left, self._check_idle)

    # Parsing

    def data_received(self, data: bytes) -> None:
        self._last_activity = monotonic()
        if self._taken_over is not None:
            self._taken_over(data)
            return
        if self._unparsed or not self._turns.try_begin():
            self._unparsed = bytes(self._unparsed) + data
            self._turns.enqueue(self)
        else:
            self._unparsed = data
            if not self.take_turn():
                return
            self._turns.enqueue(self)
        self._balance_reading()

    def take_turn(self) -> bool:
        """Answer a request, or else parse a piece of input; return whether there is more to do."""
        self._has_answered = False
        if self._pipelined:
            self._answer_next()
        elif self._unparsed and not self._input_ended:
            self._parse()
        if self._can_proceed():
            return True
        self._rest()
        return False

    def _can_proceed(self) -> bool:
        """Return whether a request can be answered or input be parsed."""
        if self._pipelined:
            return self._answering is None and self._writable is None
        return bool(self._unparsed) and not self._input_ended and self._has_room()

    def _proceed(self) -> None:
        """Go on after a response has ended or the client has read."""
        if self._can_proceed():
            self._turns.enqueue(self)
        else:
            self._rest()

    def _rest(self) -> None:
        """Wait for the client or for a running response."""
        if self._incomplete:
            self._watch_over_input()
        self._balance_reading()
        self._send_continue()

    def _parse(self) -> None:
        """Parse a piece of input; its first request is answered immediately if possible, the others are queued."""
        data = self._unparsed
        if len(data) > _PIECE:
            rest = memoryview(data)
            data, self._unparsed = rest[:_PIECE], rest[_PIECE:]
        else:
            self._unparsed = b""
        body = self._received if self._incomplete and not self._in_head else None
        self._completed_one, piece = False, data
        try:
            while piece and not self._input_ended:
                piece = self._feed(piece)
        except httptools.HttpParserError as error:
            if isinstance(error, httptools.HttpParserCallbackError) and not isinstance(
                error.__context__, (httptools.HttpParserError, ValueError)
            ):
                log.error("a request could not be read", exc_info=error)
            replaced = self._replace_unknown_method(data, self._unparsed)
            self._unparsed = replaced or b""
            if not replaced:
                self._refuse(Response(400, b"Invalid HTTP request received.", PLAIN_TEXT))
            return
        if self._in_head:
            self._head_size += len(data)
            if self._head_size > _MAX_HEAD:
                self._refuse(Response(431, b"431 Request Header Fields Too Large", PLAIN_TEXT))
        elif self._incomplete and body is not None and not self._completed_one:
            self._framing += len(data) - (self._received - body)
            if self._framing > _MAX_HEAD + _FRAMING * self._body_size:
                self._refuse(Response(400, b"Invalid HTTP request received.", PLAIN_TEXT))

    def _watch_over_input(self) -> None:
        """Start the deadline of a partial request once earlier ones are answered."""
        due = self._incomplete and self._is_idle() and not self._input_ended
        if due and self._deadline is None:
            seconds = self._front.read_timeouts.head if self._in_head else self._front.read_timeouts.body
            self._deadline = self._loop.call_later(seconds, self._input_overdue, self._in_head)
        elif not due:
            self._end_deadline()

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    @purpose(Timer.MACHINE)
    def _input_overdue(self, in_head: bool) -> None:
        """Close the connection on an overdue head; refuse an overdue body first."""
        self._deadline = None
        if in_head and not self._in_head:
            self._watch_over_input()
        elif in_head:
            self._close()
        else:
            self._refuse(Response(504, encode(JSON, timed_out().to_dict())))

    def _is_idle(self) -> bool:
        """Return whether no response is running or due."""
        return self._answering is None and not self._pipelined and self._writable is None

    def _has_room(self) -> bool:
        """Return whether further requests may wait for earlier responses.

        Data read while no response is due are the body of the next request, whose size has a limit of its own.
        """
        little = self._waiting + self._body_size <= _MAX_WAITING or self._is_idle()
        return little and len(self._pipelined) < _MAX_PIPELINED

    def _balance_reading(self) -> None:
        """Pause reading while input waits to be parsed, or enough requests wait for earlier responses."""
        pause = bool(self._unparsed) or not self._has_room()
        if pause != self._reading_paused and not self.transport.is_closing():
            self._reading_paused = pause
            (self.transport.pause_reading if pause else self.transport.resume_reading)()

    # One response after the other

    def _enqueue(self, pending: Pending) -> None:
        if self._stopping:
            return
        if self._has_answered or self._pipelined or self._answering is not None or self._writable is not None:
            self._pipelined.append(pending)
            self._waiting += len(pending.request.body)
        else:
            self._answer(pending)

    def _refuse(self, answer: Response) -> None:
        """Enqueue the last response of a connection with unreadable input."""
        if not self._input_ended:
            self._enqueue(Pending(Request("", "", "", {}, b""), refusal=answer))
            self._input_ended = True

    def _answer_next(self) -> None:
        """Answer the next pipelined request, unless one is running or the client does not read."""
        if self._answering is None and self._writable is None:
            pending = self._pipelined.popleft()
            self._waiting -= len(pending.request.body)
            self._answer(pending)

    def _send_continue(self) -> None:
        """Send 100 Continue if the client waits for it and all earlier requests are answered."""
        if self._continue_owed and self._answering is None and not self._pipelined and not self._input_ended:
            self._continue_owed = False
            self.transport.write(_CONTINUE)

    def _answer(self, pending: Pending) -> None:
        self._has_answered = True
        answer = pending.refusal
        if answer is None and self._web_pages is not None:
            answer = self._web_pages.refusal(pending.request)
        if answer is None and not is_admin_path(pending.raw_path):
            answer = self._chain.try_fast(pending.request)
        if answer is not None:
            self._write(pending, answer)
            return
        self._answering = task = self._loop.create_task(self._answer_slowly(pending))
        self._tasks.add(task)
        task.add_done_callback(self._on_answer_end)

    async def _answer_slowly(self, pending: Pending) -> None:
        answer: Response | Stream
        if not pending.raw_path.startswith(_HEALTH):
            await self._turns.start()
        if is_admin_path(pending.raw_path):
            answer = await relay(await self._front.admin(), pending.request, pending.raw_path, self.transport)
        else:
            answer = await self._chain.handle(pending.request)
        if isinstance(answer, Response):
            self._write(pending, answer)
        elif self.transport.is_closing():
            await answer.close()
        else:
            self._streaming = True
            await self._stream(pending, answer)

    def _on_answer_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._answering, self._streaming = None, False
        self._last_activity = monotonic()
        if task.cancelled():
            self._abort()
        elif (error := task.exception()) is not None:
            if not isinstance(error, ConnectionClosed):
                log.error("a stream failed", exc_info=error)
            # Only an abrupt end can signal an error after the response has begun.
            self._abort()
        self._proceed()

    def _write(self, pending: Pending, answer: Response) -> None:
        transport = self.transport
        if transport.is_closing():
            return
        close = not pending.keep_alive or self._stopping
        request = pending.request
        for part in heads.response_parts(answer, heads.marks(request), request.method == "HEAD", close):
            transport.write(part)
        if close:
            self._close()

    async def _stream(self, pending: Pending, answer: Stream) -> None:
        """Send chunks until they end or the client disconnects; either way the iterator is closed.

        All streams share one coalescer. It joins the events of a few milliseconds into one chunk.
        """
        transport, coalescer = self.transport, self._front.coalescer
        if answer.status == SWITCHING:
            await self._switch(answer, heads.marks(pending.request))
            return
        marks, chunked = heads.marks(pending.request), not pending.http_1_0
        transport.write(heads.stream_head(answer, marks, chunked=chunked, close=not pending.keep_alive))
        try:
            async for chunk in answer.chunks:
                transport.write(chunk if pending.http_1_0 else coalescer.frame(chunk))
                if self._writable is not None:
                    await asyncio.shield(self._writable)
                await coalescer.wait()
        finally:
            await answer.close()
        if not pending.http_1_0:
            transport.write(b"0\r\n\r\n")
        if not pending.keep_alive or self._stopping:
            self._close()

    async def _switch(self, answer: Stream, marks: bytes) -> None:
        """Switch the connection to another protocol until one side ends it."""
        transport = self.transport
        self._taken_over, answer.content_type = answer.incoming, ""
        transport.write(heads.stream_head(answer, marks, chunked=False, close=False))
        try:
            async for chunk in answer.chunks:
                transport.write(chunk)
                if self._writable is not None:
                    await asyncio.shield(self._writable)
        finally:
            await answer.close()
        self._close()
