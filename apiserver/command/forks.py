"""Copies of a running server: forked processes with an address, a storage, a clock and components of their own.

A fork continues where the server is, with its objects, revisions, virtual time, timers and random numbers. The memory
of both is shared until one of them writes to it. Only the sockets are new: the copy of a connection belongs to the
server, so a fork drops it. A fork ends with its server.

Only on asyncio's own event loop, whose selector can be replaced; uvloop's cannot (docs/adr/0039-state-as-a-value.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apiserver.http.admin.operations import ForkError
from apiserver.runtime import gc_tuning as garbage
from apiserver.runtime.virtual_loop import VirtualLoop

__all__ = ["Begin", "ForkError", "Forks"]

#: Seconds for a fork to begin or to end.
_PATIENCE: Final = 30.0
#: Makes the copied process serve on a socket, with a directory and a snapshot; returns its announcement.
Begin = Callable[[socket.socket, Path, str], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Fork:
    pid: int
    announcement: Mapping[str, Any]


class Forks:
    """The forks of one server.

    Args:
        directory: where forks have their directories.
        refusal: why this server cannot be forked; "" if it can.
        begin: see `Begin`.
        stop: ends this server; called in a fork when its own server has ended.
    """

    def __init__(self, directory: Path, refusal: str, begin: Begin, stop: Callable[[], object]) -> None:
        self._directory, self._refusal, self._begin, self._stop = directory, refusal, begin, stop
        self._forks: dict[str, _Fork] = {}
        self._lifeline: tuple[int, int] | None = None
        self._frozen = False

    def all(self) -> dict[str, Mapping[str, Any]]:
        """Return the announcements of the forks by name."""
        return {name: fork.announcement for name, fork in self._forks.items()}

    async def create(self, name: str, snapshot: str = "") -> Mapping[str, Any]:
        """Fork this server; return the announcement of the fork once it serves. Raise ForkError."""
        if self._refusal:
            raise ForkError(self._refusal)
        if name in self._forks:
            raise ForkError(f"cluster {name} exists")
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        listener.setblocking(False)
        if self._lifeline is None:
            self._lifeline = os.pipe()
        answers, answer = os.pipe()
        begun: asyncio.Future[int] = loop.create_future()
        # In a callback of its own: the copy of this coroutine must not continue in the fork.
        loop.call_soon(self._fork, loop, begun, listener, self._directory / name, snapshot, answers, answer)
        pid = await begun
        try:
            text = await _read_all(answers)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            text = b""
        if not text.startswith(b"{"):
            await _reap(pid)
            raise ForkError(text.decode() or f"cluster {name} did not begin; the server's log has the reason")
        self._forks[name] = _Fork(pid, json.loads(text))
        return self._forks[name].announcement

    async def delete(self, name: str) -> None:
        """End a fork. Raise KeyError."""
        fork = self._forks.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(fork.pid, signal.SIGTERM)
        await _reap(fork.pid)

    async def close(self) -> None:
        """End all forks."""
        for name in list(self._forks):
            await self.delete(name)

    def _fork(
        self,
        loop: asyncio.AbstractEventLoop,
        begun: asyncio.Future[int],
        listener: socket.socket,
        directory: Path,
        snapshot: str,
        answers: int,
        answer: int,
    ) -> None:
        if not self._frozen:
            # Collections then leave the pages of these objects shared.
            gc.collect()
            gc.freeze()
            self._frozen = True
        try:
            pid = os.fork()
        except OSError as error:
            begun.set_exception(ForkError(f"cannot fork: {error.strerror}"))
            return
        if pid:
            listener.close()
            os.close(answer)
            begun.set_result(pid)
            return
        try:
            os.close(answers)
            assert self._lifeline is not None
            ours, theirs = self._lifeline
            os.close(theirs)
            _replace_sockets(loop)

            def end() -> None:
                # The end of a pipe stays readable, which would keep the loop busy.
                loop.remove_reader(ours)
                self._stop()

            loop.add_reader(ours, end)
            self._forks, self._lifeline, self._directory = {}, None, directory
            garbage.restart()
            task = loop.create_task(self._announce(listener, directory, snapshot, answer))
            loop.call_soon(lambda: task)  # a reference until it runs
        except BaseException:  # noqa: BLE001 - the fork must not go on with the server's sockets
            traceback.print_exc()
            os._exit(1)

    async def _announce(self, listener: socket.socket, directory: Path, snapshot: str, answer: int) -> None:
        try:
            text = json.dumps(dict(await self._begin(listener, directory, snapshot)))
        except Exception as error:  # noqa: BLE001 - reported to the client
            text = " ".join(str(error).split()) or type(error).__name__
        with contextlib.suppress(OSError):
            os.write(answer, text.encode())
        os.close(answer)
        if not text.startswith("{"):
            os._exit(1)


def _replace_sockets(loop: Any) -> None:
    """Give the loop of a forked process a selector of its own, without the server's connections."""
    transports = list(loop._transports.values())
    loop._selector.close()
    loop._selector = _new_selector(loop)
    loop._ssock.close()
    loop._csock.close()
    loop._internal_fds = 0
    loop._make_self_pipe()
    with contextlib.suppress(ValueError):
        signal.set_wakeup_fd(loop._csock.fileno(), warn_on_full_buffer=False)
    loop._default_executor = None
    # asyncio takes a running loop for the parent's unless this process has set it.
    asyncio._set_running_loop(loop)
    for transport in transports:
        # Close only this process's descriptor, without ending the connection of the server.
        transport._closing, transport._conn_lost = True, transport._conn_lost + 1
        transport._buffer.clear()
        if transport._sock is not None:
            transport._sock.close()
        with contextlib.suppress(Exception):
            transport._protocol.connection_lost(None)


def _new_selector(loop: Any) -> selectors.BaseSelector:
    return loop.new_selector() if isinstance(loop, VirtualLoop) else selectors.DefaultSelector()


async def _read_all(descriptor: int) -> bytes:
    """Return what comes until the other end is closed. Raise TimeoutError."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    parts: list[bytes] = []

    def read() -> None:
        part = os.read(descriptor, 1 << 16)
        parts.append(part)
        if not part and not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, read)
    try:
        await _in_real_time(ended)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return b"".join(parts)


async def _in_real_time(waited: Awaitable[Any]) -> Any:
    from apiserver.runtime.clock import Timer, timers

    with timers(Timer.MACHINE):
        async with asyncio.timeout(_PATIENCE):
            return await waited


async def _reap(pid: int) -> None:
    """Wait for the end of a fork; kill it if it takes too long."""
    waiting = asyncio.ensure_future(asyncio.to_thread(os.waitpid, pid, 0))
    try:
        await _in_real_time(asyncio.shield(waiting))
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        await waiting
    except ChildProcessError:
        pass
