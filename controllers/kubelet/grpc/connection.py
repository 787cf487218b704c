"""A gRPC connection to a unix socket that is kept: opened again whenever it is lost, until it is closed.

Errors read as grpc-go's. Source of facts: google.golang.org/grpc, clientconn and status.
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

#: What grpc-go says of a call that ends well and without an answer.
_NO_ANSWER = "cardinality violation: received no response message from non-server-streaming RPC"
#: Seconds before a connection is tried again: the first, how they grow, the longest.
_FIRST, _FACTOR, _LONGEST = 0.25, 1.6, 5.0


class Message(Protocol):
    """A message of `kubedra.driver.messages`."""

    def encode(self) -> bytes: ...

    @classmethod
    def decode(cls, data: bytes) -> Self: ...


Answer = TypeVar("Answer", bound=Message)


class Connection:
    """One connection. `changed` is called with whether it is there, each time that changes."""

    def __init__(self, path: str, changed: Callable[[bool], None] = lambda connected: None) -> None:
        self.path, self.connected, self._changed = path, False, changed
        self._live: set[H2Protocol] = set()
        self._lost = asyncio.Event()
        self._channel = _MonitoredChannel(path, self._note)
        self._keeping: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Connects, and again whenever the connection is lost."""
        self._keeping = asyncio.create_task(self._keep(), name=f"connection {self.path}")

    async def close(self) -> None:
        self._changed = lambda connected: None
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
        self._channel.end()

    async def call(self, method: str, request: Message, answer: type[Answer], seconds: float) -> Answer:
        """One call, which has so many seconds. Raises DriverCallError."""
        unary = UnaryUnaryMethod(self._channel, method, type(request), answer)
        try:
            # The time is kept here; the driver hears of a second more, for grpclib cuts it to whole seconds.
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
        """The answers of a call that streams, until its end. Raises DriverCallError."""
        streaming = UnaryStreamMethod(self._channel, method, type(request), answer)
        try:
            async with streaming.open() as stream:
                await stream.send_message(request, end=True)
                async for message in stream:
                    yield message
        except (GRPCError, ProtocolError, StreamTerminatedError, OSError, WireError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> DriverCallError:
        if isinstance(error, GRPCError):
            return DriverCallError(code_name(error.status), error.message or "")
        if isinstance(error, OSError):
            text = (error.strerror or str(error)).lower()
            dial = f"transport: Error while dialing: dial unix {self.path}: connect: {text}"
            return DriverCallError("Unavailable", f'connection error: desc = "{dial}"')
        if isinstance(error, WireError):
            return DriverCallError("Internal", f"grpc: failed to unmarshal the received message: {error}")
        return DriverCallError("Unavailable", "error reading from server: EOF")

    def _note(self, protocol: H2Protocol, made: bool) -> None:
        """A new connection may be made before the end of an old one is heard of."""
        (self._live.add if made else self._live.discard)(protocol)
        connected = bool(self._live)
        if connected == self.connected:
            return
        self.connected = connected
        if not connected:
            self._lost.set()
        self._changed(connected)

    async def _keep(self) -> None:
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
    """Says when the connection is made and lost."""

    note: Callable[[H2Protocol, bool], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.note(self, True)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.note(self, False)


class _MonitoredChannel(Channel):
    def __init__(self, path: str, note: Callable[[H2Protocol, bool], None]) -> None:
        super().__init__(path=path, codec=MessageCodec())
        self._note = note

    def _protocol_factory(self) -> H2Protocol:
        protocol = _MonitoredProtocol(Handler(), self._config, self._h2_config)
        protocol.note = self._note
        return protocol

    def end(self) -> None:
        """Closes for good; a channel that was never connected has nothing to close."""
        if self._protocol is not None:
            self.close()
