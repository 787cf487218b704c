"""Components in a child process, forked from the server's before it starts.

On two cores the two processes share the work (docs/adr/0033-components-apart.md). The child runs
`controllers.manager.child_process`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from apiserver.http.admin.idle import PendingWork
from apiserver.runtime.metrics import Family

if TYPE_CHECKING:
    from apiserver.components.components import Make
    from apiserver.components.pipe import Pipe
    from apiserver.http.handlers.chain import HandlerChain
    from apiserver.http.server.coalesce import Coalescer

__all__ = ["ChildProcessComponents", "ComponentsEnded", "fork"]

#: Size of the kernel's socket buffers, in bytes.
_BUFFER: Final = 1024 * 1024
#: Maximal seconds for the child process to end.
_PATIENCE: Final = 4.0


class ComponentsEnded(Exception):
    """The components' process ended without a stop request. Its own stderr has the reason."""


def fork(names: Sequence[str], make: Make, listener: socket.socket) -> ChildProcessComponents:
    """Fork the components' process; it waits for `ChildProcessComponents.connect`.

    Call this before there are threads and a loop. The child calls `make` and closes `listener`.
    """
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        end.setblocking(False)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        ours.close()
        listener.close()
        from controllers.manager import child_process as apart

        apart.begin(theirs, names, make)
    theirs.close()
    return ChildProcessComponents(names, ours, pid)


class ChildProcessComponents:
    """The components of that process (see `RunningComponents` in `controlplane/dependencies.py`)."""

    def __init__(self, names: Sequence[str], end: socket.socket, pid: int) -> None:
        self.names, self._end, self._pid = names, end, pid
        self._pipe: Pipe
        self._waiting: asyncio.Future[tuple[int, int]] | None = None

    async def connect(self, chain: HandlerChain, coalescer: Coalescer) -> ChildProcessComponents:
        """Connect the components to this server and start them. Raise their errors of the start."""
        from apiserver.authentication.authenticator import ADMIN
        from apiserver.components.pipe import Pipe

        loop = asyncio.get_running_loop()
        _, self._pipe = await loop.create_connection(lambda: Pipe(chain, ADMIN, coalescer), sock=self._end)
        await self._call("start")
        return self

    async def _call(self, name: str, *arguments: Any) -> Any:
        from apiserver.components.pipe import PipeClosed

        try:
            return await self._pipe.call(name, *arguments)
        except PipeClosed:
            raise await self._build_ended_error() from None

    async def run(self) -> None:
        """Wait until cancelled. Raise ComponentsEnded."""
        try:
            await self._pipe.closed.wait()
            raise await self._build_ended_error()
        except asyncio.CancelledError:
            await self._stop()
            raise

    async def _build_ended_error(self) -> ComponentsEnded:
        return ComponentsEnded(f"the process of the components ended: {await self._wait()}")

    async def _stop(self) -> None:
        with contextlib.suppress(ComponentsEnded):
            try:
                await asyncio.wait_for(self._call("stop"), _PATIENCE)
            except TimeoutError:
                os.kill(self._pid, signal.SIGKILL)
        self._pipe.close()
        await self._wait()

    async def _wait(self) -> str:
        """Return the child's exit status. Several callers may wait."""
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(asyncio.to_thread(os.waitpid, self._pid, 0))
        _, status = await asyncio.shield(self._waiting)
        code = os.waitstatus_to_exitcode(status)
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"

    async def wait_ready(self) -> None:
        await self._call("wait_ready")

    async def wait_nodes(self) -> tuple[int, list[str]]:
        found: tuple[int, list[str]] = await self._call("wait_nodes")
        return found

    async def restart(self) -> None:
        await self._call("restart")

    async def explain(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._call("explain", kind, namespace, name)
        return found

    async def scheduling_attempts(self, uid: str) -> list[tuple[str, str, str]]:
        attempts: list[tuple[str, str, str]] = await self._call("scheduling_attempts", uid)
        return attempts

    async def driver_calls(self) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = await self._call("driver_calls")
        return calls

    async def get_pending_work(self) -> PendingWork:
        found: PendingWork = await self._call("get_pending_work")
        return found

    async def metric_families(self) -> Sequence[Family]:
        families: Sequence[Family] = await self._call("metric_families")
        return families
