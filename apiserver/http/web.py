"""The listening end: uvicorn without its own signals, its clock and its slow goodbye.

uvicorn's loop looks ten times a second whether it should end; this one waits for it. At the end, answers under way get a moment and what is
still open then is cut off: a server stops well within a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from apiserver.api.status import method_not_allowed
from apiserver.http.negotiation import JSON, encode

#: Seconds for answers under way when the server ends.
GRACE = 0.5


_WORD: Final = re.compile(rb"[A-Z]+ /apis?/\S+ HTTP/1\.[01]\r\n")


class Protocol(HttpToolsProtocol):
    """uvicorn's, but for methods that its parser has never heard of: where Kubernetes paths are asked for, their answer is a 405 like any other's."""

    _data = b""

    def data_received(self, data: bytes) -> None:
        self._data = data
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        if not _WORD.match(self._data):
            super().send_400_response(msg)
            return
        body = encode(JSON, method_not_allowed().to_dict())
        head = b"HTTP/1.1 405 Method Not Allowed\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % len(body) + body)
        self.transport.close()


class Web(uvicorn.Server):
    """One server on one socket. `ready` is set when it listens; `stop` ends it."""

    def __init__(self, application: Any, certificate: tuple[Path, Path] | None = None) -> None:
        config = uvicorn.Config(
            application, loop="none", http=Protocol, ws="none", lifespan="off", log_config=None, access_log=False, proxy_headers=False,
            server_header=False, date_header=False, timeout_keep_alive=120,
            ssl_certfile=str(certificate[0]) if certificate else None, ssl_keyfile=str(certificate[1]) if certificate else None,
        )  # fmt: skip
        # It tells of clients that want to speak websocket (kubectl exec), which get our answer anyway.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        super().__init__(config)
        self.ready = asyncio.Event()
        self._ended = asyncio.Event()

    def stop(self) -> None:
        self._ended.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process, not to its web server."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
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
        if state.tasks:
            await asyncio.wait(set(state.tasks), timeout=GRACE)
        for task in list(state.tasks):
            task.cancel()
        for connection in list(state.connections):
            connection.transport.abort()
        if state.tasks:
            await asyncio.wait(set(state.tasks), timeout=GRACE)
