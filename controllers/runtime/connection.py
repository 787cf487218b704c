"""A client's connection to an HTTP/1.1 server: one request at a time, its answer parsed by httptools.

An answer is returned whole (`request`) or streamed (`open`). A connection whose stream was not read to its end
cannot be reused. Failures are TransportErrors that name the server.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any, Final, cast

import httptools

from apiserver.runtime.clock import Timer, purpose, timers
from controllers.runtime.transport import TransportError

#: Seconds.
CONNECT_TIMEOUT: Final = 10.0
ANSWER_TIMEOUT: Final = 60.0
#: Seconds of silence after which a network device may have dropped the connection.
_MAX_SILENCE: Final = 60.0
#: Unread bytes of a stream above which reading from the socket pauses.
_MAX_WAITING: Final = 1 << 20
_FRAMED: Final = (b"content-length", b"transfer-encoding")
#: Keep-alive probes of the kernel: after 30 s of silence, then 3 of them 5 s apart. client-go detects a dead connection
#: as early (HTTP/2 pings: 30 s of silence, 15 s for the answer). macOS names the first option differently.
_PROBES: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPALIVE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


class Fields:
    """The header fields of an answer, decoded on use: nearly all answers' fields stay unused."""

    __slots__ = ("_raw",)

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self._raw = raw

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((name.lower().decode("latin-1"), value.decode("latin-1")) for name, value in self._raw)


class BrokenError(TransportError):
    """The end of the connection. `unanswered`: before the first byte of an answer."""

    def __init__(self, text: str, *, unanswered: bool) -> None:
        super().__init__(text)
        self.unanswered = unanswered


class Connection(asyncio.Protocol):
    """One connection; create it with `connect`."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None
        self._awaited = False
        self._last_activity = monotonic()
        self._closed: BrokenError | None = None
        self._begin()

    def _begin(self) -> None:
        """Reset the state of the answer."""
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._waiting = 0
        self._streams = self._whole = self._until_end = self._started = False

    # Requests

    @property
    def usable(self) -> bool:
        """Return whether a request may be sent."""
        alive = self._closed is None and self._transport is not None and not self._transport.is_closing()
        return alive and monotonic() - self._last_activity < _MAX_SILENCE

    async def request(self, request: bytes) -> tuple[int, Fields, bytes]:
        """Send a request and return its whole answer. Raise TransportError. Any exception closes the connection."""
        try:
            self._send(request)
            self._waiter = self._loop.create_future()
            await self._waiter
            if not self._whole:
                raise self._closed or AssertionError("woken for nothing")
        except BaseException:
            self.close()
            raise
        self._waiter, self._awaited = None, False
        body = self._body
        return self._status, Fields(self._headers), body[0] if len(body) == 1 else b"".join(body)

    async def open(self, request: bytes, deadline: float | None = None) -> tuple[int, Fields]:
        """Send a request whose answer is read from `chunks`, and must have ended within `deadline` seconds.

        Raises:
            TransportError: The connection broke.
        """
        try:
            self._send(request)
            if deadline is not None:
                self._end = self._loop.call_later(deadline, self._expire, deadline)
            self._streams = True
            while not (self._whole or self._status >= 200):
                await self._wait()
        except BaseException:
            self.close()
            raise
        # A watch may be silent until its deadline.
        self._awaited = False
        return self._status, Fields(self._headers)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body of the answer that `open` began. Raise TransportError."""
        try:
            while True:
                if self._body:
                    data, self._body, self._waiting = b"".join(self._body), [], 0
                    if self._transport is not None:
                        self._transport.resume_reading()
                    yield data
                elif self._whole:
                    return
                else:
                    await self._wait()
        finally:
            self.close()

    def close(self) -> None:
        """Close immediately and abandon a request in progress."""
        self._awaited = False
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        if self._end is not None:
            self._end.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _send(self, request: bytes) -> None:
        self._begin()
        if self._closed is not None or self._transport is None:
            raise self._closed or BrokenError(f"{self._server}: not connected", unanswered=True)
        self._transport.write(request)
        self._last_activity, self._awaited = monotonic(), True
        if self._watchdog is None:
            self._watchdog = self._loop.call_later(ANSWER_TIMEOUT, self._overdue)

    async def _wait(self) -> None:
        """Wait for more of the answer. Raise the error that ended the connection."""
        if self._closed is not None:
            raise self._closed
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Time

    @purpose(Timer.MACHINE)
    def _overdue(self) -> None:
        """Fail an overdue answer; otherwise check again later. One timer serves many requests."""
        self._watchdog = None
        left = self._last_activity + ANSWER_TIMEOUT - monotonic()
        if not self._awaited:
            return
        if left > 0:
            self._watchdog = self._loop.call_later(left, self._overdue)
        else:
            self._break(f"no answer for {ANSWER_TIMEOUT:.0f} seconds")

    @purpose(Timer.MACHINE)
    def _expire(self, deadline: float) -> None:
        self._break(f"the answer has not ended after {deadline:.0f} seconds")

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        connected = transport.get_extra_info("socket")
        # A socket that the server has reset takes no options on macOS.
        with suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _PROBES:
                if (option := getattr(socket, name, None)) is not None:
                    connected.setsockopt(socket.IPPROTO_TCP, option, value)

    def data_received(self, data: bytes) -> None:
        self._last_activity, self._started = monotonic(), True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._break("the server requested another protocol")
        except httptools.HttpParserError as error:
            self._break(f"invalid HTTP response: {error}")

    def eof_received(self) -> None:
        if self._until_end and not self._whole:
            self.on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._break(str(exc) or type(exc).__name__ if exc is not None else "the server closed the connection")
        self._transport = None

    def _break(self, reason: str) -> None:
        if self._closed is None:
            self._closed = BrokenError(f"{self._server}: {reason}", unanswered=not self._started)
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    # Callbacks of the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status < 200:
            return
        self._until_end = not any(name.lower() in _FRAMED for name, _ in self._headers)
        if self._streams:
            self._wake()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        if self._streams:
            self._waiting += len(body)
            if self._waiting > _MAX_WAITING and self._transport is not None:
                self._transport.pause_reading()
            self._wake()

    def on_message_complete(self) -> None:
        if self._status < 200:
            # 100 Continue and its like precede the answer.
            self._headers.clear()
            return
        self._whole = True
        if self._transport is not None and not self._parser.should_keep_alive():
            self._transport.close()
        self._wake()


async def connect(server: str, host: str, port: int, tls: ssl.SSLContext | None) -> Connection:
    """Open a connection. `server` is the server's name in errors. Raise TransportError."""
    try:
        with timers(Timer.MACHINE):
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(server), host, port, ssl=tls, server_hostname=host if tls else None
                )
    except TimeoutError as error:
        raise TransportError(f"{server}: no connection within {CONNECT_TIMEOUT:.0f} seconds") from error
    except OSError as error:
        raise TransportError(f"{server}: {error.strerror or error}") from error
    return connection
