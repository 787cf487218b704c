"""Time as an argument: a clock that runs by itself, and one that only moves when it is told to.

    RealClock       the system's time and the event loop's timers
    VirtualClock    stands still; `advance` fires the timers that fall due, in order of time and then of making, and
                    lets
                    the work that they start come to rest before the next one fires

Both give UTC. Timers call plain functions on the loop; `sleep` waits for one.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "RealClock", "Timer", "VirtualClock", "go_time", "micro_time", "parse_time"]


class Timer(Protocol):
    """A call in the future that can be taken back."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """What a component may ask of time."""

    def now(self) -> datetime:
        """The time, with zone UTC."""
        ...

    def call_later(self, delay: timedelta, callback: Callable[[], None]) -> Timer:
        """Calls back on the loop once the delay has passed; at the next turn of the loop if it is not positive."""
        ...

    async def sleep(self, delay: timedelta) -> None:
        """Waits for the delay."""
        ...


class RealClock:
    """The system's time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def call_later(self, delay: timedelta, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, delay.total_seconds()), callback)

    async def sleep(self, delay: timedelta) -> None:
        await asyncio.sleep(max(0.0, delay.total_seconds()))


class _VirtualTimer:
    __slots__ = ("callback", "due", "order")

    def __init__(self, due: datetime, order: int, callback: Callable[[], None]) -> None:
        self.due, self.order = due, order
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def __lt__(self, other: _VirtualTimer) -> bool:
        return (self.due, self.order) < (other.due, other.order)


async def _turns() -> None:
    """Lets tasks that are ready run, and those that they wake; enough for work that does no I/O."""
    for _ in range(50):
        await asyncio.sleep(0)


class VirtualClock:
    """A clock that stands still between calls of `advance`.

    `settle` is awaited after each timer that fired; give one that returns when the components are at rest if their work
    does real I/O.
    """

    def __init__(
        self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC), settle: Callable[[], Awaitable[None]] = _turns
    ) -> None:
        self._now = start
        self._settle = settle
        self._timers: list[_VirtualTimer] = []
        self._made = 0

    def now(self) -> datetime:
        return self._now

    def call_later(self, delay: timedelta, callback: Callable[[], None]) -> Timer:
        self._made += 1
        timer = _VirtualTimer(self._now + max(delay, timedelta()), self._made, callback)
        heapq.heappush(self._timers, timer)
        return timer

    async def sleep(self, delay: timedelta) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self.call_later(delay, wake)
        try:
            await woken
        finally:
            timer.cancel()

    @property
    def next_due(self) -> datetime | None:
        """When the next timer falls due."""
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0].due if self._timers else None

    async def advance(self, delay: timedelta) -> None:
        """Moves on by the delay; each timer sees its own due time as now."""
        await self._settle()
        target = self._now + delay
        while (due := self.next_due) is not None and due <= target:
            timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            if timer.callback is not None:
                timer.callback()
            await self._settle()
        self._now = target


def go_time(moment: datetime) -> str:
    """metav1.Time on the wire: whole seconds, UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(moment: datetime) -> str:
    """metav1.MicroTime on the wire."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """A time from the wire (RFC 3339)."""
    return datetime.fromisoformat(text).astimezone(UTC)
