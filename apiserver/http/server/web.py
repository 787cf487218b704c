"""The listening end: uvicorn without its own signals, its clock and its slow shutdown.

uvicorn's loop polls ten times per second for its end; this one waits for it. At the end, running requests get a short
time and open ones are then cut off: a server stops within a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from typing import Any, cast

import uvicorn

from apiserver.http.server.frontend import FrontEnd
from apiserver.http.server.protocol import Protocol
from apiserver.runtime.clock import Timer, timers

#: Maximal seconds for running requests at the server's end.
GRACE = 0.5


class Web(uvicorn.Server):
    """One server on one socket. `ready` is set once it listens; `stop` ends it."""

    def __init__(self, front: FrontEnd, context: ssl.SSLContext | None = None) -> None:
        """Create the server; with a context it serves https."""
        config = uvicorn.Config(
            cast(Any, front),  # passed to the protocol unchanged
            interface="asgi3",
            loop="none",
            http=cast("type[asyncio.Protocol]", Protocol),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=120,
        )
        # It warns about clients that request a websocket (kubectl exec), but they get our response anyway.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        super().__init__(config)
        self._context = context
        self.ready = asyncio.Event()
        self._ended = asyncio.Event()

    def stop(self) -> None:
        self._ended.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.ssl = self._context  # the loaded configuration builds contexts only from files
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        await self._tasks_end()
        for task in list(state.tasks):
            task.cancel()
        for connection in list(state.connections):
            connection.transport.abort()
        await self._tasks_end()

    async def _tasks_end(self) -> None:
        if self.server_state.tasks:
            with timers(Timer.MACHINE):
                await asyncio.wait(set(self.server_state.tasks), timeout=GRACE)
