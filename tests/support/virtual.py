"""Virtual time for tests.

A test may be a coroutine function. It runs on a virtual loop, whose time advances whenever nothing is left to run.
Two markers choose another loop:

    @pytest.mark.closed_loop     every connection has both ends on this loop, so that its time-outs are virtual, too
    @pytest.mark.real_time       asyncio's own loop, on the system's clock

A fixture may return the result of a function with @asynccontextmanager; the test gets what it yields.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, _AsyncGeneratorContextManager
from typing import Any, TypeVar

import pytest

from apiserver.runtime.clock import Timer
from apiserver.runtime.virtual_loop import VirtualLoop

T = TypeVar("T")


def run(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on a virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario())


async def passes(seconds: float = 0) -> None:
    """Let time pass. Everything that falls due meanwhile is done on return."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    await loop.advance(seconds)


class OneClock(VirtualLoop):
    """A virtual loop on which time-outs of connections are virtual, too, because both ends are here.

    During a call outside (a database, a webhook) they follow the system's clock, and virtual time stands still.
    """

    def _calls_outside(self) -> bool:
        return self._outside > 0

    def _add(self, due: int, order: int, callback: Any, args: Any, context: Any, purpose: Timer) -> Any:
        if purpose is Timer.MACHINE and not self._calls_outside():
            purpose = Timer.UPKEEP
        return super()._add(due, order, callback, args, context, purpose)


class ClosedLoop(OneClock):
    """A loop with drivers and their callers: calls are not outside, only threads are."""

    def _calls_outside(self) -> bool:
        return False

    def outside_began(self) -> None:
        """Do nothing: the callee is on this loop."""

    def outside_ended(self) -> None:
        """Do nothing: the callee is on this loop."""


def run_closed(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on a loop that has both ends of every connection."""
    with asyncio.Runner(loop_factory=ClosedLoop) as runner:
        return runner.run(scenario())


def make_synchronous(item: pytest.Function) -> None:
    """Wrap a coroutine test, so that a call runs it on the loop that its markers choose."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = VirtualLoop
    if item.get_closest_marker("closed_loop"):
        factory = ClosedLoop
    if item.get_closest_marker("real_time"):
        factory = None
    # Hypothesis calls the test that it wraps once per example.
    given = getattr(item.obj, "hypothesis", None)
    test = given.inner_test if given else item.obj
    if not inspect.iscoroutinefunction(test):
        return

    async def open_fixtures(*args: Any, **kwargs: Any) -> None:
        async with AsyncExitStack() as stack:
            for name, value in kwargs.items():
                if isinstance(value, _AsyncGeneratorContextManager):
                    kwargs[name] = await stack.enter_async_context(value)
            await test(*args, **kwargs)

    @functools.wraps(test)
    def synchronous(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(open_fixtures(*args, **kwargs))

    if given:
        given.inner_test = synchronous
    else:
        item.obj = synchronous
