"""A server on a real socket in a thread of this process, with memory storage and any free port. Use it for a module.

with serve("--token-auth-file", str(tokens)) as server:
    answer = server.wire("secret").get("/api/v1/pods")
"""

from __future__ import annotations

import asyncio
import select
import socket
import tempfile
import threading
import time as system
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from apiserver.app import Server
from apiserver.controlplane.dependencies import Dependencies
from apiserver.http.server.web import Web
from apiserver.options.settings import read
from apiserver.runtime.clock import virtual_loops
from apiserver.runtime.virtual_loop import VirtualLoop
from tests.support.patience import CLOCK
from tests.support.virtual import OneClock
from tests.support.wire import Wire

T = TypeVar("T")
#: Seconds between two questions whether something has come.
_GLANCE: Final = 0.02


class SystemTime:
    """Time of a server on the system's clock."""

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        system.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Let so much time pass immediately, if time can be moved."""

    def step(self, most: float) -> float:
        """Let some time pass, at most so many seconds; return how many."""
        before = CLOCK.seconds
        system.sleep(min(most, _GLANCE))
        return CLOCK.seconds - before

    def await_answer(self, connection: socket.socket) -> None:
        """Let time pass until data has come on a connection, if it does not pass by itself."""


class HeldTime(SystemTime):
    """A server's clock that stands still unless it is moved. Timers run on the system's clock."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.advance(seconds)

    def now(self) -> datetime:
        return self._now

    def time(self) -> float:
        return system.monotonic()

    def outside_began(self) -> None:
        """Do nothing."""

    def outside_ended(self) -> None:
        """Do nothing."""

    def thread_began(self) -> None:
        """Do nothing."""

    def thread_ended(self) -> None:
        """Do nothing."""

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


class StandingTime(SystemTime):
    """Time of a server that stands still, timers included (docs/adr/0014-time.md).

    Results do not depend on the machine, and no test waits. A client whose answer waits for a timer moves time on.
    """

    #: Seconds within which every request is answered, whatever it waits for.
    LONGEST: Final = 600.0

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        asyncio.run_coroutine_threadsafe(self._loop.advance(seconds), self._loop).result()

    def step(self, most: float) -> float:
        before = self._loop.time()
        asyncio.run_coroutine_threadsafe(self._loop.step(most), self._loop).result()
        return self._loop.time() - before

    def await_answer(self, connection: socket.socket) -> None:
        """Move time on until an answer comes. Raise TimeoutError."""
        left = self.LONGEST
        while not _arrived(connection, _GLANCE):
            self.advance(0)
            if _arrived(connection, 0):
                return
            if left <= 0:
                raise TimeoutError(f"no answer within {self.LONGEST:.0f} seconds of the server's time")
            left -= self.step(left)


def _arrived(connection: socket.socket, seconds: float) -> bool:
    return bool(select.select([connection], [], [], seconds)[0])


class Running:
    """A running server. `server` lives on the thread's loop: reach it with `call`."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, url: str, time: SystemTime) -> None:
        self.server, self.url, self._loop, self.time = server, url, loop, time

    def wire(self, token: str = "") -> Wire:
        return Wire(self.url, token)

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine on the server's loop."""

        async def run() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def tell(self, event: asyncio.Event) -> None:
        """Set an event on the server's loop."""
        self._loop.call_soon_threadsafe(event.set)


def _standing_loop() -> VirtualLoop:
    return OneClock(datetime.now(UTC), standing=True)


@contextmanager
def serve(
    *flags: str,
    wire: Callable[[Server], Web] = lambda server: Web(server.front),
    time: HeldTime | None = None,
    standing: bool = False,
    dependencies: Dependencies | None = None,
) -> Iterator[Running]:
    """Serve with these flags until the block ends.

    Args:
        flags: flags of the server.
        wire: makes its listening end.
        time: its clock, instead of the system's.
        standing: let its time stand still, timers included.
        dependencies: those of its process.
    """
    with tempfile.TemporaryDirectory() as directory:
        settings = read(["--storage=memory", "--port=0", f"--data-dir={directory}", *flags])
        listener = socket.create_server(("127.0.0.1", 0))
        started: list[Running | BaseException] = []
        ready, stop = threading.Event(), asyncio.Event()

        async def run() -> None:
            loop = asyncio.get_running_loop()
            if time is not None:
                virtual_loops[loop] = time
            own = StandingTime(loop) if isinstance(loop, VirtualLoop) else time or SystemTime()
            server = await Server.open(settings, dependencies)
            web = wire(server)
            serving = asyncio.ensure_future(web.serve(sockets=[listener]))
            await web.ready.wait()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            started.append(Running(server, loop, url, own))
            ready.set()
            await stop.wait()
            ending = asyncio.create_task(end(server, web, serving))
            while isinstance(loop, VirtualLoop) and not ending.done():
                await loop.step(1.0)
            await ending
            virtual_loops.pop(loop, None)

        async def end(server: Server, web: Web, serving: asyncio.Future[None]) -> None:
            server.stop_watches()
            web.stop()
            await serving
            await server.close()

        def main() -> None:
            try:
                with asyncio.Runner(loop_factory=_standing_loop if standing else None) as runner:
                    runner.run(run())
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
            first = started[0]
            if isinstance(first, Running):
                first.tell(stop)
            thread.join()
