"""Run jobs on the one connection that writes to SQLite, one at a time, in a thread or on the loop.

A file that must reach the disk is written by a separate thread. A store in memory, or one that need not survive a
power cut, is written on the loop: passing a job to a thread and back costs more than the write (ADR 0002).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol

__all__ = ["Connection", "Engine", "LoopEngine", "ThreadEngine"]

Connection = sqlite3.Connection
Job = Callable[[Connection], Any]
Done = Callable[[Any, Exception | None], None]


class Engine(Protocol):
    """Runs jobs on the writer connection in order and calls `done` on the loop with the result or error."""

    def submit(self, job: Job, done: Done) -> None: ...

    async def close(self) -> None: ...


class LoopEngine:
    """Runs each job immediately, on the loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def submit(self, job: Job, done: Done) -> None:
        """Run a job and pass its result or error to `done` before returning."""
        try:
            result = job(self._connection)
        except Exception as error:  # noqa: BLE001
            done(None, error)
        else:
            done(result, None)

    async def close(self) -> None:
        self._connection.close()


class ThreadEngine:
    """Runs jobs in a thread that owns the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._ended = self._loop.create_future()
        threading.Thread(target=self._run, name="kubedra-log", daemon=True).start()

    def submit(self, job: Job, done: Done) -> None:
        self._jobs.put((job, done))

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                result, error = job(self._connection), None
            except Exception as raised:  # noqa: BLE001
                result, error = None, raised
            self._call_on_loop(done, result, error)
        self._connection.close()
        self._call_on_loop(self._ended.set_result, None)

    def _call_on_loop(self, callback: Callable[..., Any], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed before the log; no caller is waiting
            self._loop.call_soon_threadsafe(callback, *args)

    async def close(self) -> None:
        self._jobs.put(None)
        await self._ended
