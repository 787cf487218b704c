"""gRPC methods on a unix socket."""

from __future__ import annotations

import asyncio
from asyncio import BaseTransport
from collections.abc import Mapping
from pathlib import Path

from grpclib.const import Handler
from grpclib.protocol import H2Protocol
from grpclib.server import Server

from kubedra.driver.codec import MessageCodec
from kubedra.runtime.failures import check_socket_path


class SocketServer(Server):
    """A gRPC server on a Unix socket. Unlike grpclib's, `stop` also closes its connections."""

    def __init__(self, path: Path, methods: Mapping[str, Handler]) -> None:
        self._path, self._methods = path, dict(methods)
        self._open: set[BaseTransport] = set()
        #: Number of connections accepted since the server was created.
        self.accepted = 0
        self._stopped = False
        super().__init__([self], codec=MessageCodec())

    def __mapping__(self) -> dict[str, Handler]:
        return self._methods

    def _protocol_factory(self) -> H2Protocol:
        base = super()._protocol_factory()
        self.accepted += 1
        return _Protocol(self, base)

    def add_connection(self, transport: BaseTransport) -> None:
        """Register an open connection. One that was accepted before `stop` may open after it, and is closed."""
        self._open.add(transport)
        if self._stopped:
            transport.close()

    def remove_connection(self, transport: BaseTransport) -> None:
        self._open.discard(transport)

    async def listen(self) -> None:
        """Listen, and replace a socket that a former process left. Stop listening if cancelled.

        Raises ValueError for a path that is too long.
        """
        check_socket_path(self._path)
        await asyncio.to_thread(self._path.unlink, missing_ok=True)
        starting = asyncio.ensure_future(self.start(path=str(self._path)))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await starting  # the socket must be open before it can be closed
            await self.stop()
            raise

    async def stop(self) -> None:
        self._stopped = True
        await self._stop_accepting()
        self.close()
        for transport in tuple(self._open):
            transport.close()
        await asyncio.to_thread(self._path.unlink, missing_ok=True)

    async def _stop_accepting(self) -> None:
        """Stop accepting connections before the server is closed.

        If the server is closed between accept and the creation of the protocol, asyncio leaks that connection.
        """
        loop = asyncio.get_running_loop()
        for listening in getattr(self._server, "sockets", ()):  # the server of another loop is no asyncio.Server
            loop.remove_reader(listening.fileno())
        for _ in range(2):  # one iteration starts the task that creates the protocol, one calls connection_made
            await asyncio.sleep(0)


class _Protocol(H2Protocol):
    """A connection that registers with its server while it is open."""

    def __init__(self, server: SocketServer, base: H2Protocol) -> None:
        super().__init__(base.handler, base.config, base.h2_config)
        self._server = server
        self._transport: BaseTransport | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self._transport = transport
        self._server.add_connection(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self._transport is not None:
            self._server.remove_connection(self._transport)
