"""Components in a forked child process of a server. The server serves them through a pipe and ends them by closing it.

`apiserver.components.child_process` is the server's part.
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
from apiserver.runtime.lazy_imports import import_when_idle
from apiserver.runtime.metrics import Family, Gauge
from controllers.manager.manager import COMPONENTS, Manager
from controllers.runtime.pipe import PipeTransport
from controllers.runtime.transport import Transport

#: Builds the manager of the components, given the transport to the server.
Make = Callable[[Transport], Manager]
#: Seconds that components have to stop.
_STOP_TIMEOUT: Final = 3.0


def begin(pipe: socket.socket, names: Sequence[str], make: Make) -> NoReturn:
    """Run the child process until the server closes the pipe.

    The child ignores SIGINT and SIGTERM: the server gets them, too, and ends the child. `names` are imported in
    advance. `make` builds the components when the server starts them.
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
    except BaseException:  # noqa: BLE001 - no caller is left to log it
        traceback.print_exc()
    finally:
        os._exit(code)


def _disable_logging() -> None:
    """Disable logging after the server is gone: errors of components are expected then."""
    logging.disable()


async def _serve(pipe: socket.socket, make: Make) -> int:
    return await _Host(make).run(pipe)


class _Host:
    """The calls that the server may make."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._manager: Manager
        self._transport: PipeTransport
        self._running: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def run(self, pipe: socket.socket) -> int:
        """Serve until the server closes the pipe or a component fails. Return the exit code."""
        loop = asyncio.get_running_loop()
        _, self._transport = await loop.create_connection(
            lambda: PipeTransport(self._call, _disable_logging), sock=pipe
        )
        closed = loop.create_task(self._transport.closed.wait())
        await asyncio.wait((closed, self._failed), return_when=asyncio.FIRST_COMPLETED)
        code = 0
        if self._failed.done():
            traceback.print_exception(self._failed.result())
            code = 1
        # Closing the loop cancels the remaining tasks; exit even if they do not stop in time.
        loop.call_later(_STOP_TIMEOUT, os._exit, code)
        return code

    async def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        own = {
            "start": self._start,
            "wait_ready": self._wait_ready,
            "metric_families": self._metrics,
            "stop": self._stop,
        }
        called = own.get(name) or getattr(self._manager, name)
        return await called(*arguments)

    async def _start(self) -> None:
        """Build and start the components. Errors of building are raised."""
        self._manager = self._make(self._transport)
        self._running = asyncio.get_running_loop().create_task(self._manager.run())
        self._running.add_done_callback(self._on_end)

    def _on_end(self, running: asyncio.Task[None]) -> None:
        if not running.cancelled() and (error := running.exception()) is not None and not self._failed.done():
            self._failed.set_result(error)

    async def _wait_ready(self) -> None:
        await self._manager.wait_ready()
        garbage.enable()
        import_when_idle("apiserver.cel.environments.devices")

    async def _metrics(self) -> list[Family]:
        """Return the metric families with gauges evaluated, because gauges work only in this process."""
        return [each.now() if isinstance(each, Gauge) else each for each in await self._manager.metric_families()]

    async def _stop(self) -> None:
        """Stop the components while the server still serves them."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,), timeout=_STOP_TIMEOUT)
