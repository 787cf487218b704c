"""A server on a real socket in a thread of this process: memory storage, port 0. As fast to start as to import; use it
for a whole module.

with serve("--token-auth-file", str(tokens)) as server:
    answer = server.wire("secret").get("/api/v1/pods")
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from apiserver.app import Server
from apiserver.http.server.web import Web
from apiserver.settings import read
from tests.support.wire import Wire

T = TypeVar("T")
PATIENCE = 20.0


class Running:
    """A server that answers. `server` lives on the thread's loop: reach it with `call`."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, url: str) -> None:
        self.server, self.url, self._loop = server, url, loop

    def wire(self, token: str = "") -> Wire:
        return Wire(self.url, token)

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine where the server runs."""

        async def run() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE)


@contextmanager
def serve(*flags: str, wire: Callable[[Server], Web] = lambda server: Web(server.front)) -> Iterator[Running]:
    """A server with these flags, until the block ends. `wire` makes its listening end."""
    with tempfile.TemporaryDirectory() as directory:
        settings = read(["--storage=memory", "--port=0", f"--data-dir={directory}", *flags])
        listener = socket.create_server(("127.0.0.1", 0))
        started: list[Running | BaseException] = []
        ready, stop = threading.Event(), threading.Event()

        async def run() -> None:
            server = await Server.open(settings)
            web = wire(server)
            serving = asyncio.ensure_future(web.serve(sockets=[listener]))
            await web.ready.wait()
            started.append(Running(server, asyncio.get_running_loop(), f"http://127.0.0.1:{listener.getsockname()[1]}"))
            ready.set()
            await asyncio.to_thread(stop.wait)
            server.stop_watches()
            web.stop()
            await serving
            await server.close()

        def main() -> None:
            try:
                asyncio.run(run())
            except BaseException as error:
                started.append(error)
                ready.set()
                raise

        thread = threading.Thread(target=main, name="server")
        thread.start()
        try:
            assert ready.wait(PATIENCE), "the server does not start"
            first = started[0]
            if isinstance(first, BaseException):
                raise first
            yield first
        finally:
            stop.set()
            thread.join(PATIENCE)
