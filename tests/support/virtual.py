"""Tests in virtual time: `run` gives a test a loop on which time passes by itself whenever nothing is left to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from apiserver.virtualloop import VirtualLoop

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
