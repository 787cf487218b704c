"""Rests of streams grow with the number of busy streams and share one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apiserver.http.server.coalesce import Coalescer

pytestmark = [pytest.mark.integration, pytest.mark.real_time]


async def waits(coalescer: Coalescer, delays: list[float], streams: int) -> float:
    """Return the delay of the one timer for so many streams that rest together."""
    before = len(delays)
    await asyncio.gather(*(coalescer.wait() for _ in range(streams)))
    (delay,) = delays[before:]
    return delay


def record_delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the delays of timers, which fire immediately from now on."""
    loop, delays = asyncio.get_running_loop(), list[float]()

    def call_soon(delay: float, callback: Callable[..., Any], *args: Any) -> None:
        delays.append(delay)
        loop.call_soon(callback, *args)

    monkeypatch.setattr(loop, "call_later", call_soon)
    return delays


async def test_a_single_busy_stream_rests_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    coalescer, delays = Coalescer(), record_delays(monkeypatch)
    assert [await waits(coalescer, delays, 1) for _ in range(3)] == [0.0002] * 3
    await waits(coalescer, delays, 50)
    assert await waits(coalescer, delays, 50) == pytest.approx(0.01)
    await waits(coalescer, delays, 1)
    assert await waits(coalescer, delays, 1) == 0.0002


async def test_many_busy_streams_do_not_rest_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    coalescer, delays = Coalescer(), record_delays(monkeypatch)
    await waits(coalescer, delays, 5000)
    assert await waits(coalescer, delays, 5000) == 0.02


async def test_a_stream_that_ends_while_it_rests_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    coalescer, delays = Coalescer(), record_delays(monkeypatch)
    ending, staying = asyncio.ensure_future(coalescer.wait()), asyncio.ensure_future(coalescer.wait())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait_for(staying, None)
    assert (ending.cancelled(), len(delays)) == (True, 1)
