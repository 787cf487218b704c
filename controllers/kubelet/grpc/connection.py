"""A persistent gRPC connection to a unix socket: it reconnects until it is closed.

Error texts are those of grpc-go. Source of facts: google.golang.org/grpc, clientconn and status.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol, Self, TypeVar

from grpclib.client import Channel, Handler, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from grpclib.protocol import H2Protocol

from apiserver.runtime.clock import Timer, outside, timers
from controllers.kubelet.dra.drivers import DriverCallError
from kubedra.driver.codec import MessageCodec, code_name
from kubedra.driver.wire import WireError

#: grpc-go's error for calls that run when their connection is closed, and for later ones.
_CLOSED = "grpc: the client connection is closing"
#: grpc-go's error for a successful call without a response.
_NO_ANSWER = "cardinality violation: received no response message from non-server-streaming RPC"
#: Back-off of reconnects: first delay in seconds, factor, longest delay in seconds.
_FIRST, _FACTOR, _LONGEST = 0.25, 1.6, 5.0


class Message(Protocol):
    """A message of `kubedra.driver.messages`."""

    def encode(self) -> bytes: ...

    @classmethod
    def decode(cls, data: bytes) -> Self: ...


Answer = TypeVar("Answer", bound=Message)


class Connection:
    """One connection. `changed` is called with each new connection state."""

    def __init__(self, path: str, changed: Callable[[bool], None] = lambda connected: None) -> None:
        self.path, self.connected, self._changed = path, False, changed
        self._closed = False
        self._live: set[H2Protocol] = set()
        self._lost = asyncio.Event()
        self._channel = _MonitoredChannel(path, self._track)
        self._maintaining: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Connect, and reconnect after each loss."""
        self._maintaining = asyncio.create_task(self._maintain(), name=f"connection {self.path}")

    async def close(self) -> None:
        """Close permanently. Running and later calls end as Canceled."""
        self._closed = True
        self._changed = lambda connected: None
        if self._maintaining is not None:
            self._maintaining.cancel()
            with suppress(asyncio.CancelledError):
                await self._maintaining
        self._channel.end()

    async def call(self, method: str, request: Message, answer: type[Answer], seconds: float) -> Answer:
        """Make one call with a timeout in seconds. Raise DriverCallError."""
        if self._closed:
            raise DriverCallError("Canceled", _CLOSED)
        unary = UnaryUnaryMethod(self._channel, method, type(request), answer)
        try:
            # The timeout is enforced here. The driver gets one second more, because grpclib truncates to whole seconds.
            with outside(), timers(Timer.MACHINE):
                async with asyncio.timeout(seconds), unary.open(timeout=seconds + 1) as stream:
                    await stream.send_message(request, end=True)
                    reply: Answer | None = await stream.recv_message()
        except TimeoutError as error:
            raise DriverCallError("DeadlineExceeded", "context deadline exceeded") from error
        except (GRPCError, ProtocolError, StreamTerminatedError, OSError, WireError) as error:
            raise self._failure(error) from error
        if reply is None:
            raise DriverCallError("Internal", _NO_ANSWER)
        return reply

    async def stream(self, method: str, request: Message, answer: type[Answer]) -> AsyncIterator[Answer]:
        """Yield the responses of a streaming call until its end. Raise DriverCallError."""
        streaming = UnaryStreamMethod(self._channel, method, type(request), answer)
        try:
            async with streaming.open() as stream:
                await stream.send_message(request, end=True)
                async for message in stream:
                    yield message
        except (GRPCError, ProtocolError, StreamTerminatedError, OSError, WireError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> DriverCallError:
        if self._closed:
            return DriverCallError("Canceled", _CLOSED)
        if isinstance(error, GRPCError):
            return DriverCallError(code_name(error.status), error.message or "")
        if isinstance(error, OSError):
            text = (error.strerror or str(error)).lower()
            dial = f"transport: Error while dialing: dial unix {self.path}: connect: {text}"
            return DriverCallError("Unavailable", f'connection error: desc = "{dial}"')
        if isinstance(error, WireError):
            return DriverCallError("Internal", f"grpc: failed to unmarshal the received message: {error}")
        return DriverCallError("Unavailable", "error reading from server: EOF")

    def _track(self, protocol: H2Protocol, made: bool) -> None:
        """Track open connections: a new one may open before the loss of the old one is reported."""
        (self._live.add if made else self._live.discard)(protocol)
        connected = bool(self._live)
        if connected == self.connected:
            return
        self.connected = connected
        if not connected:
            self._lost.set()
        self._changed(connected)

    async def _maintain(self) -> None:
        delay = _FIRST
        while True:
            self._lost.clear()
            with suppress(OSError):
                await self._channel.__connect__()
            if self.connected:
                delay = _FIRST
                await self._lost.wait()
            else:
                with timers(Timer.MACHINE):
                    await asyncio.sleep(delay)
                delay = min(delay * _FACTOR, _LONGEST)


class _MonitoredProtocol(H2Protocol):
    """A protocol that reports when the connection opens and closes."""

    report: Callable[[H2Protocol, bool], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.report(self, True)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.report(self, False)


class _MonitoredChannel(Channel):
    def __init__(self, path: str, report: Callable[[H2Protocol, bool], None]) -> None:
        super().__init__(path=path, codec=MessageCodec())
        self._report = report

    def _protocol_factory(self) -> H2Protocol:
        protocol = _MonitoredProtocol(Handler(), self._config, self._h2_config)
        protocol.report = self._report
        return protocol

    def end(self) -> None:
        """Close permanently; does nothing if the channel was never connected."""
        if self._protocol is not None:
            self.close()
