"""Long evaluations of expressions move from the event loop to a thread.

`start_meter()` returns a meter for the current thread. On the event loop it raises `OffloadRequired` after 5 ms, and
`evaluate_offloaded(work)` repeats the work in the thread for long requests. So metered work must be safe to repeat.
Short evaluations stay on the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from apiserver.cel.language.time_limit import Interrupted, Meter, OffloadRequired
from apiserver.runtime.clock import stopwatch
from apiserver.runtime.offload import is_on_loop, run_blocking, run_in_thread

__all__ = ["Meter", "OffloadRequired", "evaluate_blocking", "evaluate_metered", "evaluate_offloaded", "start_meter"]

T = TypeVar("T")

#: Time limit on the event loop in seconds.
HERE: Final = 0.005
#: Time limit in the thread in seconds.
LONGEST: Final = 60.0


def start_meter() -> Meter:
    return Meter(stopwatch(), HERE, OffloadRequired) if is_on_loop() else _start_offloaded_meter()


def _start_offloaded_meter() -> Meter:
    return Meter(stopwatch(), LONGEST, Interrupted)


def evaluate_offloaded(work: Callable[[Meter], T]) -> Awaitable[T]:
    """Run the work in the thread and return its result."""

    async def done() -> T:
        return work(_start_offloaded_meter())

    return run_in_thread(done())


def evaluate_blocking(work: Callable[[Meter], T]) -> Awaitable[T]:
    """Run work that may block for the authorizer in a thread, and return its result."""
    return run_blocking(lambda: work(_start_offloaded_meter()))


async def evaluate_metered(work: Callable[[Meter], T], *, blocks: bool = False) -> T:
    """Run work here or in a thread, and return its result. With `blocks` it may block for the authorizer."""
    if blocks:
        return await evaluate_blocking(work)
    try:
        return work(start_meter())
    except OffloadRequired:
        return await evaluate_offloaded(work)
