"""A virtual loop whose order of work a schedule decides, with processes that can be paused and killed.

A `LoopProcess` stands for a process of a real cluster (the scheduler, an operator): tasks that are started in it
(`enter`), and all tasks that these start. A paused process runs nothing until it resumes. A killed one never runs
again: neither its handlers of exceptions nor its `finally` blocks, as if its machine had lost power.

Both ends of each connection are on this loop, so the time-outs of connections are virtual, too.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from apiserver.runtime.clock import Timer
from apiserver.runtime.memory_network import Address, Listener, connect
from apiserver.runtime.virtual_loop import VirtualLoop, _Selector, _VirtualTimer

if TYPE_CHECKING:
    from kubedra.exploration.schedule import Schedule

__all__ = ["ExploredLoop", "LoopProcess", "current_process"]

#: The process of the running callback; None for the server and the test.
current_process: ContextVar[LoopProcess | None] = ContextVar("current_process", default=None)


class LoopProcess:
    """One run of a process. After a kill its successor is another object with the same name."""

    def __init__(self, name: str, *, explored: bool = True) -> None:
        self.name = name
        #: Whether the order of its tasks is explored.
        self.explored = explored
        self.alive = True
        #: Callbacks that wait until the process resumes; None while it runs.
        self.held: list[asyncio.Handle] | None = None
        #: Called when the process is killed.
        self.when_killed: list[Callable[[], object]] = []

    def context(self) -> Context:
        """Return a context in which started tasks belong to this process."""
        context = copy_context()
        context.run(current_process.set, self)
        return context

    def pause(self, seconds: float) -> None:
        """Run nothing for so many seconds."""
        if self.held is None and self.alive:
            self.held = []
            asyncio.get_running_loop().call_later(seconds, self._resume, context=Context())

    def _resume(self) -> None:
        held, self.held = self.held, None if self.alive else []
        if self.alive and held:
            _ready_of(asyncio.get_running_loop()).extend(held)

    def kill(self) -> None:
        """Run nothing any more. Its requests are refused."""
        if self.alive:
            self.alive = False
            self.held = self.held or []
            for call in self.when_killed:
                call()

    def release(self) -> None:
        """Let the callbacks of a killed process run after all, so that its tasks can be cancelled."""
        held, self.held = self.held or [], None
        _ready_of(asyncio.get_running_loop()).extend(held)


def _ready_of(loop: asyncio.AbstractEventLoop) -> deque[asyncio.Handle]:
    ready: deque[asyncio.Handle] = loop._ready  # type: ignore[attr-defined]
    return ready


class ExploredLoop(VirtualLoop):
    """The loop. `schedule` decides; None for a plain run."""

    def __init__(self) -> None:
        self.schedule: Schedule | None = None
        #: The servers on this loop, by address.
        self.listeners: dict[Address, Listener] = {}
        self._connected: dict[socket.socket, Address] = {}
        super().__init__()

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[:2] in self.listeners:
            self._connected[sock] = address[:2]
        else:
            await super().sock_connect(sock, address)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> tuple[Any, Any]:
        sock = options.get("sock")
        address = (host, port) if sock is None else self._connected.pop(sock, None)
        listener = self.listeners.get(address) if address is not None else None
        if listener is None or address is None:
            found: tuple[Any, Any] = await super().create_connection(protocol_factory, host, port, **options)
            return found
        if sock is not None:
            sock.close()
        protocol = protocol_factory()
        transport = connect(protocol, listener, address)
        process = current_process.get()
        if process is not None:
            process.when_killed.append(transport.peer.abort)
        return transport, protocol

    def _add(
        self,
        due: int,
        order: int,
        callback: Callable[..., object],
        args: Sequence[Any],
        context: Context | None,
        purpose: Timer,
    ) -> _VirtualTimer:
        if purpose is Timer.MACHINE and not self._outside:
            purpose = Timer.UPKEEP
        return super()._add(due, order, callback, args, context, purpose)

    def _wait(self, timeout: float | None, poll: Callable[[float | None], list[Any]]) -> list[Any]:
        found = super()._wait(timeout, poll)
        self._arrange()
        return found

    def _arrange(self) -> None:
        """Take the callbacks of paused and killed processes off, and move others back where the schedule says so."""
        ready = _ready_of(self)
        if self.schedule is None or not ready:
            return
        kept: list[asyncio.Handle] = []
        later: list[asyncio.Handle] = []
        alone = len(ready) == 1
        for handle in ready:
            process = handle._context.get(current_process)  # type: ignore[attr-defined]
            if process is None:
                kept.append(handle)
            elif process.held is not None:
                process.held.append(handle)
            elif not alone and process.explored and self._comes_later(process, handle):
                later.append(handle)
            else:
                kept.append(handle)
        ready.clear()
        ready.extend(kept)
        ready.extend(later)

    def _comes_later(self, process: LoopProcess, handle: asyncio.Handle) -> bool:
        """Return whether the schedule moves a step of a task behind all that is ready."""
        task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
        if not isinstance(task, asyncio.Task) or self.schedule is None:
            return False
        name = getattr(task.get_coro(), "__qualname__", "task").replace("<locals>.", "")
        return self.schedule.choose(f"{process.name}:step:{name}", ("later",)) is not None

    def after_fork(self) -> None:
        """Replace what a child process shares with its parent: the selector and the pipe that wakes the loop up."""
        self._selector = _Selector(self)
        self._ssock.close()  # type: ignore[attr-defined]
        self._csock.close()  # type: ignore[attr-defined]
        self._internal_fds -= 1  # type: ignore[attr-defined]
        self._make_self_pipe()  # type: ignore[attr-defined]
