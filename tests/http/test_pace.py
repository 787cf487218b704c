"""How long streams rest: longer the more of them are busy, and together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apiserver.http.server.coalesce import Pace

pytestmark = pytest.mark.integration


async def rests(pace: Pace, delays: list[float], streams: int) -> float:
    """The seconds for which so many streams rest that do so at once; there is one timer for all of them."""
    before = len(delays)
    await asyncio.gather(*(pace.rest() for _ in range(streams)))
    (delay,) = delays[before:]
    return delay


def play(scenario: Callable[[Pace, list[float]], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        loop, delays = asyncio.get_running_loop(), []
        monkeypatch.setattr(
            loop, "call_later", lambda delay, callback, *args: (delays.append(delay), loop.call_soon(callback, *args))
        )
        await scenario(Pace(), delays)

    asyncio.run(run())


def test_a_stream_that_is_busy_alone_rests_for_a_moment_whoever_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(pace: Pace, delays: list[float]) -> None:
        assert [await rests(pace, delays, 1) for _ in range(3)] == [0.0002] * 3
        await rests(pace, delays, 50)
        assert await rests(pace, delays, 50) == pytest.approx(0.01)
        await rests(pace, delays, 1)
        assert await rests(pace, delays, 1) == 0.0002

    play(scenario, monkeypatch)


def test_however_many_streams_are_busy_none_rests_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(pace: Pace, delays: list[float]) -> None:
        await rests(pace, delays, 5000)
        assert await rests(pace, delays, 5000) == 0.02

    play(scenario, monkeypatch)


def test_a_stream_that_ends_while_it_rests_keeps_nobody_from_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(pace: Pace, delays: list[float]) -> None:
        ending, staying = asyncio.ensure_future(pace.rest()), asyncio.ensure_future(pace.rest())
        await asyncio.sleep(0)
        ending.cancel()
        await asyncio.wait_for(staying, None)
        assert (ending.cancelled(), len(delays)) == (True, 1)

    play(scenario, monkeypatch)
