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


class SocketServer(Server):
    """Methods on a unix socket. `stop` ends its connections, too, which grpclib leaves to the clients."""

    def __init__(self, path: Path, methods: Mapping[str, Handler]) -> None:
        self._path, self._methods = path, dict(methods)
        self._open: set[BaseTransport] = set()
        #: Connections taken since the server was made.
        self.accepted = 0
        self._stopped = False
        super().__init__([self], codec=MessageCodec())

    def __mapping__(self) -> dict[str, Handler]:
        return self._methods

    def _protocol_factory(self) -> H2Protocol:
        plain = super()._protocol_factory()
        self.accepted += 1
        return _Protocol(self, plain)

    def opened(self, transport: BaseTransport) -> None:
        """A connection that was accepted before `stop` may open after it."""
        self._open.add(transport)
        if self._stopped:
            transport.close()

    def lost(self, transport: BaseTransport) -> None:
        self._open.discard(transport)

    async def listen(self) -> None:
        """Takes the place of a socket that a former process left. One that is cancelled listens no more."""
        await asyncio.to_thread(self._path.unlink, missing_ok=True)
        starting = asyncio.ensure_future(self.start(path=str(self._path)))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await starting  # the socket is open before anybody can close it
            await self.stop()
            raise

    async def stop(self) -> None:
        self._stopped = True
        await self._accept_no_more()
        self.close()
        for transport in tuple(self._open):
            transport.close()
        await asyncio.to_thread(self._path.unlink, missing_ok=True)

    async def _accept_no_more(self) -> None:
        """asyncio forgets a connection, and leaves it open, whose server is closed between accept and protocol."""
        assert isinstance(self._server, asyncio.Server)
        loop = asyncio.get_running_loop()
        for listening in self._server.sockets:
            loop.remove_reader(listening.fileno())
        for _ in range(2):  # one turn starts the task that makes the protocol, one calls connection_made
            await asyncio.sleep(0)


class _Protocol(H2Protocol):
    """A connection that its server knows of while it is open."""

    def __init__(self, server: SocketServer, plain: H2Protocol) -> None:
        super().__init__(plain.handler, plain.config, plain.h2_config)
        self._server = server
        self._transport: BaseTransport | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self._transport = transport
        self._server.opened(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self._transport is not None:
            self._server.lost(self._transport)
