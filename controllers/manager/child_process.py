"""Components in a process of their own that a server has forked: it serves them through a pipe, and ends them by
closing it. `apiserver.components.child_process` is the server's part.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from apiserver.runtime import gc_tuning as garbage
from apiserver.runtime.lazy_imports import warm
from apiserver.runtime.metrics import Family, Gauge
from controllers.manager.manager import COMPONENTS, Manager
from controllers.runtime.pipe import PipeTransport
from controllers.runtime.transport import Transport

#: Makes the components of a server that is reached so.
Make = Callable[[Transport], Manager]
#: Seconds that components have to end.
_PATIENCE: Final = 3.0


def begin(pipe: socket.socket, names: Sequence[str], make: Make) -> NoReturn:
    """The whole of the forked process. It heeds no signals but those that nobody can ignore: it ends with the server,
    which gets them as well. `make` is called when the server wants the components of these names to start.
    """
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        for name in names:
            importlib.import_module(COMPONENTS[name])
        runner = asyncio.run
        with contextlib.suppress(ImportError):
            import uvloop

            runner = uvloop.run
        code = runner(_serve(pipe, make))
    except BaseException:  # noqa: BLE001 - there is nobody else to say it
        traceback.print_exc()
    finally:
        os._exit(code)


def _fall_silent() -> None:
    """What components meet when the server is gone is no news."""
    logging.disable()


async def _serve(pipe: socket.socket, make: Make) -> int:
    return await _Host(make).run(pipe)


class _Host:
    """What the server may call."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._manager: Manager
        self._transport: PipeTransport
        self._running: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def run(self, pipe: socket.socket) -> int:
        """Until the server closes the pipe, or a component fails; the exit code."""
        loop = asyncio.get_running_loop()
        _, self._transport = await loop.create_connection(lambda: PipeTransport(self._call, _fall_silent), sock=pipe)
        closed = loop.create_task(self._transport.closed.wait())
        await asyncio.wait((closed, self._failed), return_when=asyncio.FIRST_COMPLETED)
        code = 0
        if self._failed.done():
            traceback.print_exception(self._failed.result())
            code = 1
        # The end of the loop cancels what still runs. Whoever does not end in time is not waited for.
        loop.call_later(_PATIENCE, os._exit, code)
        return code

    async def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        own = {"start": self._start, "wait_ready": self._wait_ready, "counted": self._counted, "stop": self._stop}
        called = own.get(name) or getattr(self._manager, name)
        return await called(*arguments)

    async def _start(self) -> None:
        """Makes the components and lets them work. Raises what making them raises."""
        self._manager = self._make(self._transport)
        self._running = asyncio.get_running_loop().create_task(self._manager.run())
        self._running.add_done_callback(self._ended)

    def _ended(self, running: asyncio.Task[None]) -> None:
        if not running.cancelled() and (error := running.exception()) is not None and not self._failed.done():
            self._failed.set_result(error)

    async def _wait_ready(self) -> None:
        await self._manager.wait_ready()
        garbage.begin()
        warm("apiserver.cel.environments.devices")

    async def _counted(self) -> list[Family]:
        """The families as they are now: a gauge can be asked only here."""
        return [each.now() if isinstance(each, Gauge) else each for each in await self._manager.counted()]

    async def _stop(self) -> None:
        """Ends the components while the server still serves them."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,), timeout=_PATIENCE)
