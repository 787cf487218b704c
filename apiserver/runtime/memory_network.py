"""Connections in the memory of one loop: both ends are protocols of asyncio, and no socket is between them.

What one end writes the other receives in the next iteration of the loop. So connections are as repeatable as the rest
of a virtual loop. Each end's callbacks run in the context in which it was opened.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

__all__ = ["Address", "Listener", "MemoryTransport", "connect"]

Address = tuple[str, int]
#: Returns the protocol of a new connection of the caller, and the context of its callbacks.
Listener = Callable[[], tuple[asyncio.Protocol, Context]]


class MemoryTransport(asyncio.Transport):
    """One end of a connection."""

    peer: MemoryTransport

    def __init__(self, protocol: asyncio.BaseProtocol, context: Context, address: Address) -> None:
        # For libraries that look at the socket; it becomes readable when the peer has ended.
        self._sockets = socket.socketpair()
        super().__init__({"peername": address, "sockname": address, "socket": self._sockets[0]})
        self._loop = asyncio.get_running_loop()
        self._protocol: Any = protocol
        self._context = context
        self._received: list[bytes] = []
        self._paused = self._closing = self._lost = self._ended = False

    def call(self, method: Callable[..., object], *args: object) -> None:
        """Call a method of this end soon, in its context."""
        self._loop.call_soon(method, *args, context=self._context)

    # The transport of asyncio

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not (self._paused or self._closing)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self.call(self._deliver)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the peer receives everything immediately."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing and not self._ended:
            self.peer.call(self.peer._receive, bytes(data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing and not self._ended:
            self._ended = True
            self.peer.call(self.peer._receive, b"")

    def close(self) -> None:
        if not self._closing:
            self.write_eof()
            self._closing = True
            self.call(self._lose, None)

    def abort(self) -> None:
        self.close()

    # Its side of the connection

    def _receive(self, data: bytes) -> None:
        self._received.append(data)
        self._deliver()

    def _deliver(self) -> None:
        while self._received and not self._paused and not self._lost:
            data = self._received.pop(0)
            if data:
                self._protocol.data_received(data)
                continue
            self._sockets[1].close()
            if not self._protocol.eof_received():
                self.close()

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            for each in self._sockets:
                each.close()
            self._protocol.connection_lost(error)


def connect(protocol: asyncio.BaseProtocol, listener: Listener, address: Address) -> MemoryTransport:
    """Connect a protocol of the caller to a listener; return the caller's end."""
    answering, context = listener()
    ours, theirs = MemoryTransport(protocol, copy_context(), address), MemoryTransport(answering, context, address)
    ours.peer, theirs.peer = theirs, ours
    theirs.call(answering.connection_made, theirs)
    protocol.connection_made(ours)
    return ours
