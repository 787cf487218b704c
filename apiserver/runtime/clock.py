"""Time: the running event loop is its only source.

    now()                       UTC; `bind_now()` for frequent callers
    loop.time(), loop.call_later, asyncio.sleep, asyncio.timeout      everything that waits

A real loop follows the system's clock. The virtual one (`virtual_loop`) has a time of its own, which jumps from
timer to timer; code that uses the calls above runs on both unchanged. Code also declares the purpose of timers that
are not work of the control plane (`Timer`), and waits for work outside the loop (`outside`). On a real loop both have
no effect and no cost.
"""

from __future__ import annotations

from asyncio.events import AbstractEventLoop, _get_running_loop
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import Enum, auto
from functools import partial
from time import perf_counter
from typing import Any, Protocol, TypeVar

__all__ = [
    "Timer",
    "bind_now",
    "is_virtual",
    "now",
    "outside",
    "purpose",
    "server_loop",
    "stopwatch",
    "thread_at_work",
    "thread_waiting",
    "timers",
    "virtual_loops",
]

_Callback = TypeVar("_Callback", bound=Callable[..., Any])


class Timer(Enum):
    """The purpose of a timer."""

    WORK = auto()
    """The timer causes work: a toleration ends, a failure is retried."""
    UPKEEP = auto()
    """The timer recurs while the process runs (resync, renewal of a lease, bookmark). Idleness does not wait for it."""
    MACHINE = auto()
    """The timer supervises a client, a connection or a database, and follows the system's clock on every loop."""


class VirtualTime(Protocol):
    """A virtual loop."""

    def now(self) -> datetime: ...

    def time(self) -> float: ...

    def outside_began(self) -> None: ...

    def outside_ended(self) -> None: ...

    def thread_began(self) -> None: ...

    def thread_ended(self) -> None: ...


#: The server's loop, in a thread that works for it (`apiserver.runtime.offload`).
server_loop: ContextVar[AbstractEventLoop | None] = ContextVar("server_loop", default=None)
#: The virtual loops of this process; almost always empty, so that `now` can skip the search for the running loop.
virtual_loops: dict[object, VirtualTime] = {}
_purpose: ContextVar[Timer] = ContextVar("purpose", default=Timer.WORK)


def now() -> datetime:
    """Return the time in UTC: of the running virtual loop, else of the system."""
    if virtual_loops:
        loop = virtual_loops.get(server_loop.get() or _get_running_loop())
        if loop is not None:
            return loop.now()
    return datetime.now(UTC)


def bind_now() -> Callable[[], datetime]:
    """Return a function that returns the time as `now` does on this loop, for frequent callers."""
    loop = virtual_loops.get(_get_running_loop())
    return partial(datetime.now, UTC) if loop is None else loop.now


def is_virtual() -> bool:
    """Return whether a virtual loop runs."""
    return _get_running_loop() in virtual_loops


def purpose(timer: Timer) -> Callable[[_Callback], _Callback]:
    """Decorate a function: timers that call it have this purpose."""

    def mark(callback: _Callback) -> _Callback:
        callback.timer = timer  # type: ignore[attr-defined]
        return callback

    return mark


@contextmanager
def timers(timer: Timer) -> Iterator[None]:
    """Set the purpose of timers in the block (`asyncio.sleep`, `asyncio.timeout`) and in the tasks that it starts."""
    token = _purpose.set(timer)
    try:
        yield
    finally:
        _purpose.reset(token)


def purpose_of(callback: Callable[..., Any]) -> Timer:
    """Return the purpose of a timer created now."""
    timer: Timer = getattr(callback, "timer", None) or _purpose.get()
    return timer


@contextmanager
def outside() -> Iterator[None]:
    """Stop virtual time while something outside the loop (a database, a driver, a child process) works for the block.

    Threads of executors are counted without this.
    """
    loop = virtual_loops.get(_get_running_loop())
    if loop is None:
        yield
        return
    loop.outside_began()
    try:
        yield
    finally:
        loop.outside_ended()


@contextmanager
def thread_at_work() -> Iterator[None]:
    """Stop virtual time while a thread works for the block. Threads of executors are counted without this."""
    loop = virtual_loops.get(_get_running_loop())
    if loop is None:
        yield
        return
    loop.thread_began()
    try:
        yield
    finally:
        loop.thread_ended()


@contextmanager
def thread_waiting() -> Iterator[None]:
    """Let virtual time pass while a thread waits for the block."""
    loop = virtual_loops.get(_get_running_loop())
    if loop is None:
        yield
        return
    loop.thread_ended()
    try:
        yield
    finally:
        loop.thread_began()


def stopwatch() -> Callable[[], float]:
    """Return a function that returns seconds of work, for long tasks that yield to others.

    While a virtual loop works no time passes, so that the order of events does not depend on the machine.
    """
    loop = virtual_loops.get(_get_running_loop()) if virtual_loops else None
    return perf_counter if loop is None else loop.time
