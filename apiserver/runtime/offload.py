"""How work that takes long leaves the event loop to others.

    async for item in in_turns(items)       a break whenever a slice of time is used up
    await in_thread(coroutine)              the steps of a coroutine in a thread of their own

A request whose body is large is answered by `in_thread`: everything between two waits happens in the one thread of the
process for such requests, what it waits for happens on the loop, as ever. Other requests get the interpreter every few
milliseconds. So the code of verbs and rules is written once, and need not know; but whatever belongs to the loop (the
log, futures, what iterates over a cache) is marked:

    @on_loop        a coroutine function: called from the thread, it runs on the loop all the same
    call_on_loop    the same for a function, which the thread waits for
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio.events import _get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Final, ParamSpec, TypeVar

from apiserver.runtime.clock import served, stopwatch

__all__ = ["LONG", "SLICE", "WAITING", "call_on_loop", "in_thread", "in_turns", "is_on_loop", "on_loop", "waited_for"]

T = TypeVar("T")
P = ParamSpec("P")

#: Seconds of work without a break.
SLICE: Final = 0.003
#: Bytes, of a body or of an object that is written in another form, from which on the work may take longer than others
#: should wait: what costs most, items of lists that are all wrong, takes some milliseconds a kilobyte.
LONG: Final = 16 * 1024


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with breaks."""
    elapsed = stopwatch()
    until = elapsed() + SLICE
    for item in items:
        yield item
        if elapsed() > until:
            await asyncio.sleep(0)
            until = elapsed() + SLICE


class _Errand:
    """What a step asks the loop to do before the next one."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self.work = work

    def __await__(self) -> Generator[_Errand, Any, Any]:
        return (yield self)


def on_loop(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Awaitable[T]]:
    """Decorates a coroutine function that has to run on the event loop."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        work = function(*args, **kwargs)
        return work if _get_running_loop() is not None else _Errand(work)

    return call


def call_on_loop(function: Callable[[], T]) -> T:
    """What a function gives on the event loop: at once where the caller is on it, else when its turn comes."""
    loop: asyncio.AbstractEventLoop | None = served.loop
    if loop is None:
        return function()
    done: Future[T] = Future()

    def call() -> None:
        try:
            done.set_result(function())
        except BaseException as error:  # noqa: BLE001 - is raised where the result is waited for
            done.set_exception(error)

    loop.call_soon_threadsafe(call)
    return done.result()


def is_on_loop() -> bool:
    """Whether the caller is on an event loop, and not in a thread that takes steps for it."""
    return _get_running_loop() is not None


def waited_for(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives on the event loop, for a function in a thread that takes steps for it: the thread waits.
    Raises RuntimeError on the loop itself, which would wait for ever."""
    loop: asyncio.AbstractEventLoop | None = served.loop
    if loop is None:
        work.close()
        raise RuntimeError("only a thread may wait for what happens on the event loop")
    return asyncio.run_coroutine_threadsafe(work, loop).result()


#: Starts with the first request that is long.
_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="long requests")
#: For requests whose steps wait for somebody outside (see `waited_for`), who may take seconds.
WAITING: Final = ThreadPoolExecutor(16, thread_name_prefix="waiting requests")


async def in_thread(work: Coroutine[Any, Any, T], threads: ThreadPoolExecutor = _THREAD) -> T:
    """What a coroutine returns or raises, whose steps are taken in the thread for long requests, or in one of
    `threads`."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    step: Callable[[], Any] = partial(work.send, None)
    taken: asyncio.Future[tuple[bool, Any]] | None = None
    try:
        while True:
            taken = loop.run_in_executor(threads, context.run, _take, loop, step)
            try:
                ended, value = await asyncio.shield(taken)
            except asyncio.CancelledError:
                await asyncio.wait((taken,))
                work.close()
                raise
            if ended:
                result: T = value
                return result
            step = await _waited_for(work, value)
    finally:
        # Both may hold the error that is raised here, which holds this frame: a request of megabytes would be kept
        # until garbage is collected.
        del taken, step


def _take(loop: asyncio.AbstractEventLoop, step: Callable[[], Any]) -> tuple[bool, Any]:
    """One step: whether it was the last, and the result or what the coroutine waits for."""
    served.loop = loop
    try:
        return False, step()
    except StopIteration as end:
        return True, end.value
    finally:
        served.loop = None
        del step  # as in `in_thread`


async def _waited_for(work: Coroutine[Any, Any, Any], awaited: Any) -> Callable[[], Any]:
    """The next step, once what the coroutine waits for is there."""
    if isinstance(awaited, _Errand):
        try:
            return partial(work.send, await awaited.work)
        except BaseException as error:  # noqa: BLE001 - is the coroutine's to handle
            return partial(work.throw, error)
    if awaited is not None:
        return partial(work.throw, RuntimeError(f"{awaited!r} belongs to the loop: what waits for it is @on_loop"))
    await asyncio.sleep(0)
    return partial(work.send, None)
