"""The virtual clock moves only when told, and fires timers in order."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from controllers.runtime.clock import VirtualClock, go_time, micro_time, parse_time

SECOND = timedelta(seconds=1)


def test_time_stands_still_until_it_is_advanced() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        before = clock.now()
        await asyncio.sleep(0)
        assert clock.now() == before
        await clock.advance(5 * SECOND)
        assert clock.now() == before + 5 * SECOND

    asyncio.run(scenario())


def test_timers_fire_in_order_of_time_and_then_of_making_and_see_their_own_due_time() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        start = clock.now()
        fired: list[tuple[str, timedelta]] = []
        for name, seconds in (("late", 3), ("early", 1), ("second early", 1)):
            clock.call_later(seconds * SECOND, lambda name=name: fired.append((name, clock.now() - start)))  # type: ignore[misc]
        cancelled = clock.call_later(2 * SECOND, lambda: fired.append(("never", SECOND)))
        cancelled.cancel()
        await clock.advance(10 * SECOND)
        assert fired == [("early", SECOND), ("second early", SECOND), ("late", 3 * SECOND)]

    asyncio.run(scenario())


def test_a_timer_that_a_sleeper_sets_on_waking_fires_in_the_same_advance() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        start = clock.now()
        woken: list[timedelta] = []

        async def sleeper() -> None:
            for _ in range(3):
                await clock.sleep(2 * SECOND)
                woken.append(clock.now() - start)

        task = asyncio.create_task(sleeper())
        await clock.advance(7 * SECOND)
        assert woken == [2 * SECOND, 4 * SECOND, 6 * SECOND]
        assert task.done()

    asyncio.run(scenario())


def test_a_cancelled_sleep_leaves_no_timer_behind() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        task = asyncio.create_task(clock.sleep(SECOND))
        await asyncio.sleep(0)
        assert clock.next_due is not None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert clock.next_due is None

    asyncio.run(scenario())


def test_times_on_the_wire_are_utc_with_whole_seconds_or_six_digits() -> None:
    moment = datetime(2026, 2, 3, 4, 5, 6, 78, tzinfo=UTC)
    assert go_time(moment) == "2026-02-03T04:05:06Z"
    assert micro_time(moment) == "2026-02-03T04:05:06.000078Z"
    assert parse_time("2026-02-03T05:05:06+01:00") == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
