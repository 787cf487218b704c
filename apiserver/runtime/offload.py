"""Offload long or blocking work, so that the event loop serves other requests.

    async for item in iterate_in_slices(items)   a break whenever a slice of time is used up
    await run_in_thread(coroutine)               on the event loop of the thread for long requests
    await run_in_own_thread(coroutine)           on an event loop in a thread where `wait_on_loop` may block
    await run_blocking(function)                 in a thread where `wait_on_loop` may block

The code of verbs and rules is the same in all of them. The server's event loop owns the log, its futures and iteration
over caches; their calls cross to it:

    @on_loop        a coroutine function: awaited from a thread, it runs on the server's loop
    call_on_loop    the same for a function; the thread blocks
    wait_on_loop    the same for a coroutine; the thread blocks

`clock.server_loop` is the server's loop in the context of such a thread, and None on the loop itself.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from apiserver.runtime import clock
from apiserver.runtime.clock import server_loop, stopwatch

__all__ = [
    "LONG",
    "SLICE",
    "call_on_loop",
    "is_on_loop",
    "iterate_in_slices",
    "on_loop",
    "run_blocking",
    "run_in_own_thread",
    "run_in_thread",
    "wait_on_loop",
]  # fmt: skip

T = TypeVar("T")
P = ParamSpec("P")

#: Seconds of work without a break.
SLICE: Final = 0.003
#: Size in bytes of a body or of a converted object from which on the work is offloaded. Worst case (lists of
#: invalid items): a few ms per KiB.
LONG: Final = 16 * 1024


async def iterate_in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items, with breaks."""
    elapsed = stopwatch()
    until = elapsed() + SLICE
    for item in items:
        yield item
        if elapsed() > until:
            await asyncio.sleep(0)
            until = elapsed() + SLICE


def on_loop(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Awaitable[T]]:
    """Decorate a coroutine function that must run on the server's loop."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        work, loop = function(*args, **kwargs), server_loop.get()
        return work if loop is None else _cross(work, loop)

    return call


async def _cross(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Await a coroutine that runs on the server's loop."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_arrive(work), loop))


async def _arrive(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine on the server's loop, whose time passes while the thread waits."""
    server_loop.set(None)
    with clock.thread_waiting():
        return await work


def call_on_loop(function: Callable[[], T]) -> T:
    """Return the result of a function on the server's loop, blocking a thread until then."""
    loop = server_loop.get()
    if loop is None:
        return function()
    done: Future[T] = Future()

    def call() -> None:
        server_loop.set(None)
        try:
            done.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            done.set_exception(error)

    loop.call_soon_threadsafe(call)
    return done.result()


def is_on_loop() -> bool:
    """Return whether the caller is on the server's loop, and not in a thread that works for it."""
    return server_loop.get() is None


def wait_on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine on the server's loop, blocking the thread until then.

    Raise RuntimeError on the loop itself, which would wait forever.
    """
    loop = server_loop.get()
    if loop is None:
        work.close()
        raise RuntimeError("only a thread may wait for what happens on the event loop")
    return asyncio.run_coroutine_threadsafe(_arrive(work), loop).result()


class _LoopThread:
    """A thread with an event loop. The first coroutine starts it."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.SelectorEventLoop()
                threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True).start()
            return self._loop


class _Threads:
    """The threads of a process."""

    def __init__(self) -> None:
        #: All long requests share it: waiting requests get the interpreter every few milliseconds.
        self.long_requests = _LoopThread("long requests")
        #: For requests that block on an external server, possibly for seconds.
        self.own = ThreadPoolExecutor(64, thread_name_prefix="waiting requests")
        #: For blocking functions. Requests in threads of their own may call them, so they have other threads.
        self.blocking = ThreadPoolExecutor(16, thread_name_prefix="blocking rules")


_THREADS: Final = _Threads()
# A forked process has none of the threads.
os.register_at_fork(after_in_child=_THREADS.__init__)  # type: ignore[misc]


def _context() -> contextvars.Context:
    """Return the caller's context for a thread that works for the running loop."""
    context = contextvars.copy_context()
    context.run(server_loop.set, asyncio.get_running_loop())
    return context


@on_loop
async def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine on the event loop of the thread for long requests."""
    with clock.thread_at_work():
        submit = asyncio.run_coroutine_threadsafe
        return await asyncio.wrap_future(_context().run(submit, work, _THREADS.long_requests.loop))


@on_loop
async def run_in_own_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop in a thread of its own, which may block; return its result."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS.own, _context().run, asyncio.run, work)


@on_loop
async def run_blocking(function: Callable[[], T]) -> T:
    """Run a function in a thread, which may block; return its result."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS.blocking, _context().run, function)
