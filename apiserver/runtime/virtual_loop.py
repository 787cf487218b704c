"""An event loop with a time of its own: it stands still while there is work, and jumps from timer to timer.

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:       time passes by itself: the next timer fires when
        runner.run(main())                                         there is no work left

    loop = VirtualLoop(standing=True)          time stands still until a caller advances it:
    await loop.advance(300)                    each timer due within five minutes fires, in order of time and then
    await loop.run_until_idle(3600)            of creation; all its effects complete before the next one

The loop is idle when no callback is ready, no received data of a socket is unread and nothing outside works for it
(executor jobs, `clock.outside`). While callbacks are ready sockets are not read: all effects of a request inside the
process complete before the next request is read, so that the same requests in the same order have the same effects.
Sockets, threads, child processes and signals work as on every loop; their timers (`Timer.MACHINE`) follow the system's
clock.

Time is counted in whole microseconds; a delay is rounded up.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import selectors
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from apiserver.runtime.clock import Timer, purpose_of, virtual_loops

__all__ = ["START", "AdvanceResult", "VirtualLoop"]

#: Default start of virtual time.
START = datetime(2026, 1, 1, tzinfo=UTC)
_MICRO = 1_000_000
#: Iterations of the loop after which sockets are polled despite pending work: only code that polls for a socket in
#: a busy loop causes so many.
_MAX_ITERATIONS = 10_000
#: The end of an advance comes after every timer of the same moment.
_LAST = 1 << 62


class _VirtualTimer(asyncio.TimerHandle):
    """A timer on the virtual loop. `due` is in microseconds."""

    __slots__ = ("due", "order", "purpose")

    due: int
    order: int
    purpose: Timer

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _VirtualTimer)
        return (self.due, self.order) < (other.due, other.order)


class _Selector(selectors.DefaultSelector):
    """The loop's selector. It calls the loop instead of waiting."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        return self._loop._wait(timeout, super().select)


@dataclass(frozen=True, slots=True)
class AdvanceResult:
    """The result of advancing time: the number of fired timers, and whether only upkeep is left."""

    fired: int
    idle: bool


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; with `standing` only `advance` and `run_until_idle` move it."""

    def __init__(self, start: datetime = START, *, standing: bool = False) -> None:
        self._start, self._standing = start, standing
        self._micros = 0
        self._timers: list[_VirtualTimer] = []
        self._machine: list[tuple[float, int, _VirtualTimer]] = []
        self._created = self._cancelled = self._outside = self._iterations = 0
        #: The targets of running advances.
        self._targets: list[int] = []
        self._pauses: list[float] = []
        #: The system's time until which sockets are polled before the next timer; None while there is work.
        self._listening: float | None = None
        self.fired = 0
        """The number of fired timers."""
        super().__init__(_Selector(self))
        virtual_loops[self] = self

    def new_selector(self) -> selectors.BaseSelector:
        """Return a selector for a copy of this loop in a forked process."""
        return _Selector(self)

    def close(self) -> None:
        virtual_loops.pop(self, None)
        super().close()

    # Time

    def time(self) -> float:
        return self._micros / _MICRO

    def now(self) -> datetime:
        """Return the time in UTC."""
        return self._start + timedelta(microseconds=self._micros)

    async def advance(self, seconds: float, pause: float = 0.0) -> AdvanceResult:
        """Advance time; return once all due timers have fired and their effects are complete.

        With 0 seconds, return when the loop is idle. `pause` is the real time in seconds without data from a socket
        before each timer, so that external clients can react to earlier events.
        """
        before = self.fired
        await self._reach(self._micros + _micros(max(0.0, seconds)), pause)
        return AdvanceResult(self.fired - before, idle=self._next(Timer.WORK) is None)

    async def step(self, limit: float, pause: float = 0.0) -> AdvanceResult:
        """Advance time to the next timer of any purpose, by at most `limit` seconds."""
        before, end = self.fired, self._micros + _micros(limit)
        await self._reach(self._micros, pause)
        due = self._next()
        await self._reach(end if due is None else min(due, end), pause)
        return AdvanceResult(self.fired - before, idle=self._next(Timer.WORK) is None)

    async def run_until_idle(self, limit: float = 3600.0, pause: float = 0.0) -> AdvanceResult:
        """Advance time, timer by timer, until only upkeep is left, by at most `limit` seconds."""
        before, end = self.fired, self._micros + _micros(limit)
        await self._reach(self._micros, pause)
        while (due := self._next(Timer.WORK)) is not None:
            await self._reach(min(due, end), pause)
            if due > end:
                return AdvanceResult(self.fired - before, idle=False)
        return AdvanceResult(self.fired - before, idle=True)

    async def _reach(self, target: int, pause: float) -> None:
        """Advance to a time, in microseconds."""
        reached = self.create_future()
        timer = self._add(target, _LAST, _resolve, (reached,), None, Timer.UPKEEP)
        self._targets.append(target)
        self._pauses.append(pause)
        try:
            await reached
        finally:
            timer.cancel()
            self._targets.remove(target)
            self._pauses.remove(pause)

    def pending(self) -> list[tuple[datetime, Timer, str]]:
        """Return the timers of virtual time, in order: due time, purpose and callback."""
        waiting = sorted(timer for timer in self._timers if not timer.cancelled() and timer.order < _LAST)
        return [(self._start + timedelta(microseconds=t.due), t.purpose, _name(t)) for t in waiting]

    def _next(self, purpose: Timer | None = None) -> int | None:
        """Return the due time of the next timer, of a purpose or of any."""
        waiting = (timer for timer in self._timers if timer.order < _LAST and not timer.cancelled())
        return min((timer.due for timer in waiting if purpose in (None, timer.purpose)), default=None)

    # Timers

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        self._created += 1
        due = _micros(when)
        if due <= self._micros and when > self.time():
            # A delay below a microsecond must not be due now: a caller that waits for it repeatedly would never get
            # there.
            due = self._micros + 1
        return self._add(due, self._created, callback, args, context, purpose_of(callback))

    def _add(
        self,
        due: int,
        order: int,
        callback: Callable[..., object],
        args: Sequence[Any],
        context: Context | None,
        purpose: Timer,
    ) -> _VirtualTimer:
        timer = _VirtualTimer(due / _MICRO, callback, args, self, context)
        timer.due, timer.order, timer.purpose = due, order, purpose
        timer._scheduled = True  # type: ignore[attr-defined]
        if purpose is Timer.MACHINE:
            heapq.heappush(self._machine, (monotonic() + max(0, due - self._micros) / _MICRO, order, timer))
        else:
            heapq.heappush(self._timers, timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Count a cancelled timer; remove cancelled timers from their heaps once they are many."""
        if not handle._scheduled:  # type: ignore[attr-defined]
            return
        self._cancelled += 1
        if self._cancelled > 100 and self._cancelled * 2 > len(self._timers) + len(self._machine):
            self._timers = [timer for timer in self._timers if not timer.cancelled() and timer is not handle]
            self._machine = [entry for entry in self._machine if not entry[2].cancelled() and entry[2] is not handle]
            heapq.heapify(self._timers)
            heapq.heapify(self._machine)
            self._cancelled = 0

    # Outside work

    def outside_began(self) -> None:
        self._outside += 1

    def outside_ended(self) -> None:
        self._outside -= 1

    def thread_began(self) -> None:
        self._outside += 1

    def thread_ended(self) -> None:
        self._outside -= 1

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self.thread_began()
        future.add_done_callback(lambda _: self.thread_ended())
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's own
        """Join the executor's threads. They work outside, so the timeout that Python has from 3.12 on must not fire."""
        self.outside_began()
        try:
            await super().shutdown_default_executor()
        finally:
            self.outside_ended()

    # Iterations of the loop

    def _wait(self, timeout: float | None, poll: Callable[[float | None], list[Any]]) -> list[Any]:
        """Return the ready sockets' events, or make the next timer's callback ready. The selector calls this."""
        if timeout is not None and timeout <= 0:
            self._iterations += 1
            return [] if self._iterations % _MAX_ITERATIONS and not self._stopping else poll(0)  # type: ignore[attr-defined]
        self._iterations = 0
        if events := poll(0):
            self._listening = None
            return events
        if self._fire_machine() or (not self._outside and self._is_pause_over() and self._fire_next()):
            return []
        until = [self._machine[0][0]] if self._machine else []
        if self._listening is not None and self._listening > monotonic():
            until.append(self._listening)
        events = poll(max(0.0, min(until) - monotonic()) if until else None)
        if events:
            self._listening = None
        return events

    def _is_pause_over(self) -> bool:
        """Return whether the pause for external clients is over."""
        pause = max(self._pauses, default=0.0)
        if not pause:
            return True
        if self._listening is None:
            self._listening = monotonic() + pause
        return monotonic() >= self._listening

    def _fire_machine(self) -> bool:
        while self._machine and (self._machine[0][2].cancelled() or self._machine[0][0] <= monotonic()):
            timer = heapq.heappop(self._machine)[2]
            if self._make_ready(timer):
                return True
        return False

    def _fire_next(self) -> bool:
        """Jump to the next timer, if time may advance that far."""
        while self._timers and self._timers[0].cancelled():
            self._make_ready(heapq.heappop(self._timers))
        if not self._timers:
            return False
        timer = self._timers[0]
        if self._standing and timer.due > max(self._targets, default=self._micros):
            return False
        heapq.heappop(self._timers)
        self._micros = max(self._micros, timer.due)
        self.fired += timer.order < _LAST
        self._listening = None
        return self._make_ready(timer)

    def _make_ready(self, timer: _VirtualTimer) -> bool:
        """Call a timer that has left its heap in this iteration. Return False if it was cancelled."""
        timer._scheduled = False  # type: ignore[attr-defined]
        if timer.cancelled():
            self._cancelled -= 1
            return False
        self._add_callback(timer)  # type: ignore[attr-defined]
        return True


def _micros(seconds: float) -> int:
    """Convert to whole microseconds, rounded up; floating point noise is ignored."""
    return math.ceil(seconds * _MICRO - 0.01)


def _resolve(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)


def _name(timer: asyncio.TimerHandle) -> str:
    """Return a readable name of a timer's callback: of the waiting task if there is one, else of the function."""
    callback: Any = timer._callback  # type: ignore[attr-defined]
    args: Sequence[Any] = timer._args
    waited = next((arg for arg in args if isinstance(arg, asyncio.Future)), None)
    waiting = [getattr(call, "__self__", None) for call, _ in getattr(waited, "_callbacks", None) or ()]
    if isinstance(getattr(callback, "__self__", None), asyncio.Timeout):
        waiting.append(callback.__self__._task)
    for task in waiting:
        if isinstance(task, asyncio.Task):
            named = not task.get_name().startswith("Task-")
            return task.get_name() if named else getattr(task.get_coro(), "__qualname__", repr(task))
    name = getattr(callback, "__qualname__", repr(callback))
    said = ", ".join(arg for arg in args if isinstance(arg, str))
    return f"{name}({said})" if said else name
