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
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TypeVar

from apiserver.app import Server
from apiserver.clock import virtual_loops
from apiserver.http.server.web import Web
from apiserver.settings import read
from tests.support.wire import Wire

T = TypeVar("T")


class HeldTime:
    """A server's time that stands still unless it is moved: what happens in one second does not depend on the machine.

    Timers run on the system's clock all the same.
    """

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def now(self) -> datetime:
        return self._now

    def time(self) -> float:
        return monotonic()

    def outside_began(self) -> None:
        """Nothing depends on it here."""

    def outside_ended(self) -> None:
        """Nothing depends on it here."""

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    def catch_up(self) -> None:
        """Show the system's time, unless this one is ahead of it."""
        self._now = max(self._now, datetime.now(UTC))


class Running:
    """A server that answers. `server` lives on the thread's loop: reach it with `call`."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, url: str, time: HeldTime | None) -> None:
        self.server, self.url, self._loop, self._time = server, url, loop, time

    @property
    def time(self) -> HeldTime:
        assert self._time is not None, "this server has the system's time"
        return self._time

    def wire(self, token: str = "") -> Wire:
        return Wire(self.url, token)

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine where the server runs."""

        async def run() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()


@contextmanager
def serve(
    *flags: str, wire: Callable[[Server], Web] = lambda server: Web(server.front), time: HeldTime | None = None
) -> Iterator[Running]:
    """A server with these flags, until the block ends. `wire` makes its listening end; `time` is its clock instead of the
    system's.
    """
    with tempfile.TemporaryDirectory() as directory:
        settings = read(["--storage=memory", "--port=0", f"--data-dir={directory}", *flags])
        listener = socket.create_server(("127.0.0.1", 0))
        started: list[Running | BaseException] = []
        ready, stop = threading.Event(), threading.Event()

        async def run() -> None:
            if time is not None:
                virtual_loops[asyncio.get_running_loop()] = time
            server = await Server.open(settings)
            web = wire(server)
            serving = asyncio.ensure_future(web.serve(sockets=[listener]))
            await web.ready.wait()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            started.append(Running(server, asyncio.get_running_loop(), url, time))
            ready.set()
            await asyncio.to_thread(stop.wait)
            server.stop_watches()
            web.stop()
            await serving
            await server.close()
            virtual_loops.pop(asyncio.get_running_loop(), None)

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
            ready.wait()
            first = started[0]
            if isinstance(first, BaseException):
                raise first
            yield first
        finally:
            stop.set()
            thread.join()
