"""How long streams rest: longer the more of them are busy, and together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apiserver.http.server.coalesce import Coalescer

pytestmark = pytest.mark.integration


async def waits(coalescer: Coalescer, delays: list[float], streams: int) -> float:
    """The seconds for which so many streams rest that do so at once; there is one timer for all of them."""
    before = len(delays)
    await asyncio.gather(*(coalescer.wait() for _ in range(streams)))
    (delay,) = delays[before:]
    return delay


def play(scenario: Callable[[Coalescer, list[float]], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        loop, delays = asyncio.get_running_loop(), []
        monkeypatch.setattr(
            loop, "call_later", lambda delay, callback, *args: (delays.append(delay), loop.call_soon(callback, *args))
        )
        await scenario(Coalescer(), delays)

    asyncio.run(run())


def test_a_stream_that_is_busy_alone_rests_for_a_moment_whoever_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(coalescer: Coalescer, delays: list[float]) -> None:
        assert [await waits(coalescer, delays, 1) for _ in range(3)] == [0.0002] * 3
        await waits(coalescer, delays, 50)
        assert await waits(coalescer, delays, 50) == pytest.approx(0.01)
        await waits(coalescer, delays, 1)
        assert await waits(coalescer, delays, 1) == 0.0002

    play(scenario, monkeypatch)


def test_however_many_streams_are_busy_none_rests_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(coalescer: Coalescer, delays: list[float]) -> None:
        await waits(coalescer, delays, 5000)
        assert await waits(coalescer, delays, 5000) == 0.02

    play(scenario, monkeypatch)


def test_a_stream_that_ends_while_it_rests_keeps_nobody_from_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(coalescer: Coalescer, delays: list[float]) -> None:
        ending, staying = asyncio.ensure_future(coalescer.wait()), asyncio.ensure_future(coalescer.wait())
        await asyncio.sleep(0)
        ending.cancel()
        await asyncio.wait_for(staying, None)
        assert (ending.cancelled(), len(delays)) == (True, 1)

    play(scenario, monkeypatch)
