"""Tests in virtual time: `run` gives a test a loop on which time passes by itself whenever nothing is left to do;
`run_closed` one that has both ends of every connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from apiserver.runtime.clock import Timer
from apiserver.runtime.virtual_loop import VirtualLoop

T = TypeVar("T")


def run(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a scenario."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario())


async def passes(seconds: float = 0) -> None:
    """Lets time pass; all that falls due meanwhile has come to rest when this returns."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    await loop.advance(seconds)


class OneClock(VirtualLoop):
    """Time-outs of connections pass in its time, too: for those who have both ends of them. While somebody outside is
    called (a database, a webhook) they follow the system's clock, as ever: that call does not move this one.
    """

    def _calls_outside(self) -> bool:
        return self._outside > 0

    def _add(self, *timer: Any) -> Any:
        *rest, purpose = timer
        return super()._add(*rest, Timer.UPKEEP if purpose is Timer.MACHINE and not self._calls_outside() else purpose)


class ClosedLoop(OneClock):
    """Drivers and those who call them are on this loop: a call is not outside of it. Only threads are."""

    def _calls_outside(self) -> bool:
        return False

    def outside_began(self) -> None:
        """Whoever is called is here."""

    def outside_ended(self) -> None:
        """Whoever was called is here."""


def run_closed(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a scenario whose drivers are part of it."""
    with asyncio.Runner(loop_factory=ClosedLoop) as runner:
        return runner.run(scenario())
