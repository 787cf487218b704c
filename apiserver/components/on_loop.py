"""A control plane on the caller's own event loop: the server, and components as processes that a schedule can kill.

plane = LoopPlane(["--nodes=1"], directory)
await plane.start()
await plane.request(process, "GET", "/api/v1/pods", "", {}, b"")

Each group of components (`PROCESSES`) is a process of its own, with its own informers, as in a real cluster. A request
is handled in a task of the server: what a killed client began, the server completes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any, Final

from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.components.components import build_factory
from apiserver.components.in_process import InProcess
from apiserver.http.handlers.exploration import Exploration, client_of_request
from apiserver.http.server.protocol import Protocol
from apiserver.http.server.web import Web
from apiserver.options.settings import Settings, read
from apiserver.runtime.explored_loop import ExploredLoop, LoopProcess, current_process
from apiserver.storage.log.types import Record
from controllers.manager.manager import choose
from controllers.runtime.transport import TransportError

__all__ = ["LoopPlane", "Process", "Refused"]

log = logging.getLogger(__name__)
#: The address of the server, for clients on the same loop.
ADDRESS: Final = ("127.0.0.1", 6443)
#: The processes that have a component of their own; all others are in kube-controller-manager.
_OWN: Final = {"scheduler": "kube-scheduler", "node-agent": "kubelet"}
_REST: Final = "kube-controller-manager"


class Refused(TransportError):
    """A request of a process that was killed."""


class Process:
    """A program that is started again after it was killed. `run` is called for each start."""

    is_process = True

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[object]],
        failed: Callable[[BaseException], object],
        *,
        explored: bool,
    ) -> None:
        self.name, self._run, self._failed, self._explored = name, run, failed, explored
        self.past: list[LoopProcess] = []
        self.current = self._start()

    def _start(self) -> LoopProcess:
        process = LoopProcess(self.name, explored=self._explored)
        task = asyncio.get_running_loop().create_task(_call(self._run), name=self.name, context=process.context())
        task.add_done_callback(self._on_end, context=Context())
        return process

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and self.current.alive:
            self._failed(error)

    def pause(self, seconds: float) -> None:
        """Let it run nothing for so many seconds."""
        self.current.pause(seconds)

    def kill_for(self, seconds: float) -> None:
        """Kill it and start it again after so many seconds."""
        if self.current.alive:
            self.kill()
            asyncio.get_running_loop().call_later(seconds, self._restart, context=Context())

    def _restart(self) -> None:
        self.current = self._start()

    def kill(self) -> None:
        """Kill it for good."""
        if self.current.alive:
            self.current.kill()
            self.past.append(self.current)


async def _call(run: Callable[[], Awaitable[object]]) -> None:
    await run()


class _Transport(InProcess):
    """Requests of one process, each in a task of the server."""

    def __init__(self, server: Server, process: Callable[[], Process | None]) -> None:
        super().__init__(server.chain, ADMIN, TransportError)
        self._process = process

    async def _answer(self, request: Any) -> Any:
        here = current_process.get()
        if here is None:
            return await super()._answer(request)
        if not here.alive:
            raise Refused(f"{here.name} was killed")
        context = copy_context()
        context.run(current_process.set, None)
        context.run(client_of_request.set, self._process())
        task = asyncio.get_running_loop().create_task(super()._answer(request), context=context)
        return await asyncio.shield(task)


class LoopPlane:
    """The control plane. `flags` are those of the server; `components` run with it, by default all.

    `explored`: whether the order of steps inside its own components is explored, too.
    """

    def __init__(
        self, flags: Iterable[str], directory: Path, components: Sequence[str] = ("*",), *, explored: bool = False
    ) -> None:
        self._settings: Settings = read(
            ["--storage=memory", "--port=0", f"--data-dir={directory}", "--durability=off", "--seed=1", *flags]
        )
        self._names, self._explored = choose(components), explored
        self.processes: dict[str, Process] = {}
        self.failure: asyncio.Future[None]
        """Gets the exception of a component or of a check."""
        self.server: Server
        self._managers: dict[str, Any] = {}

    @property
    def loop(self) -> ExploredLoop:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ExploredLoop)
        return loop

    async def start(self) -> None:
        """Start the server and the components. Return when the emulated nodes are Ready."""
        loop = self.loop
        self.failure = loop.create_future()
        self.server = await Server.open(self._settings)
        self.server.chain.insert_first(Exploration(lambda: loop.schedule))
        self._listen(loop)
        groups: dict[str, list[str]] = {}
        for name in self._names:
            groups.setdefault(_OWN.get(name, _REST), []).append(name)
        for name, components in groups.items():
            self.run(name, self._manager(name, components), explored=self._explored)
        await loop.advance(0)
        for manager in list(self._managers.values()):
            await manager.wait_ready()
            await manager.wait_nodes()

    def _listen(self, loop: ExploredLoop) -> None:
        """Accept connections from this loop at `ADDRESS`."""
        web = Web(self.server.front)
        web.config.load()

        def accept() -> tuple[asyncio.Protocol, Context]:
            context = Context()
            context.run(client_of_request.set, self._calling())
            return context.run(Protocol, web.config, web.server_state, {}, loop), context

        loop.listeners[ADDRESS] = accept

    def _manager(self, process: str, components: Sequence[str]) -> Callable[[], Awaitable[None]]:
        make = build_factory(self._settings, None, components, log.info)

        async def run() -> None:
            manager = self._managers[process] = make(_Transport(self.server, lambda: self.processes[process]))
            await manager.run()

        return run

    def run(self, name: str, run: Callable[[], Awaitable[object]], *, explored: bool = True) -> None:
        """Run a program as a process. Raise ValueError for a name that is taken."""
        if name in self.processes:
            raise ValueError(f'a process "{name}" runs already')
        self.processes[name] = Process(name, run, self.fail, explored=explored)

    def fail(self, error: BaseException) -> None:
        """Make an exception the result of the run."""
        if not self.failure.done():
            self.failure.set_exception(error)

    def transport(self) -> InProcess:
        """Return a transport for the process of each caller."""
        return _Transport(self.server, self._calling)

    def _calling(self) -> Process | None:
        here = current_process.get()
        return None if here is None else self.processes.get(here.name)

    def on_commit(self, call: Callable[[], object]) -> None:
        """Call a function after each commit."""

        def feed(_: Sequence[Record]) -> None:
            call()

        self.server.log.subscribe(feed)

    def objects(self, word: str) -> Sequence[Any]:
        """Return the present objects of "plural" or "plural.group". Raise LookupError for an unknown one."""
        plural, _, group = word.partition(".")
        for of, name in self.server.registry.stores:
            if name == plural and group in ("", of):
                return self.server.registry.all_of(of, name)
        raise LookupError(f'the server does not have a resource "{word}"')

    async def close(self) -> None:
        """Kill the processes and end the server. Their tasks are left to the runner of the loop, which cancels them."""
        self.failure.cancel()
        for process in self.processes.values():
            process.kill()
        await self.server.close()
        self.loop.schedule = None
        for process in self.processes.values():
            for past in process.past:
                past.release()
