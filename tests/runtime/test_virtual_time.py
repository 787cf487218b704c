"""Virtual time: it stands still while there is work, jumps from timer to timer, and sockets and threads work as ever."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.runtime.clock import Timer, now, outside, purpose, stopwatch, timers
from apiserver.runtime.virtual_loop import START, VirtualLoop
from controllers.runtime.times import go_time, micro_time, parse_time
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

SECOND = timedelta(seconds=1)


def standing(test: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test on a loop whose time stands still unless it is advanced."""

    def run() -> None:
        loop = VirtualLoop(standing=True)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(test(loop))

    return run


def since_start() -> float:
    return (now() - START) / SECOND


async def test_time_passes_by_itself_when_nothing_is_left_to_do() -> None:
    await asyncio.sleep(3600)
    assert since_start() == 3600
    assert asyncio.get_running_loop().time() == 3600


def test_now_is_the_systems_time_where_no_virtual_loop_runs() -> None:
    async def scenario() -> datetime:
        return now()

    with asyncio.Runner(loop_factory=VirtualLoop):  # one that does not run changes nothing
        for moment in (now(), asyncio.run(scenario())):
            assert abs(datetime.now(UTC) - moment) < 60 * SECOND


async def test_timers_fire_in_order_of_time_and_then_of_making_and_see_their_own_due_time() -> None:
    loop = asyncio.get_running_loop()
    fired: list[tuple[str, float]] = []
    for name, seconds in (("late", 3), ("early", 1), ("second early", 1)):
        loop.call_later(seconds, lambda name=name: fired.append((name, since_start())))  # type: ignore[misc]
    cancelled = loop.call_later(2, fired.append, ("never", 2))
    cancelled.cancel()
    await passes(10)
    assert fired == [("early", 1), ("second early", 1), ("late", 3)]


async def test_what_a_timer_causes_comes_to_rest_before_the_next_one_of_the_same_moment() -> None:
    done: list[str] = []

    async def worker(name: str) -> None:
        await asyncio.sleep(1)
        for step in range(3):
            done.append(f"{name}{step}")
            await asyncio.sleep(0)

    await asyncio.gather(worker("a"), worker("b"))
    assert done == ["a0", "a1", "a2", "b0", "b1", "b2"]


async def test_an_advance_ends_after_all_that_fell_due_by_its_end() -> None:
    woken: list[float] = []

    async def sleeper() -> None:
        for _ in range(3):
            await asyncio.sleep(2)
            woken.append(since_start())

    task = asyncio.create_task(sleeper())
    await passes(6)
    assert woken == [2, 4, 6]
    assert task.done()


@standing
async def test_standing_time_moves_by_advance_alone(loop: VirtualLoop) -> None:
    sleeping = asyncio.create_task(asyncio.sleep(5))
    with pytest.raises(TimeoutError), timers(Timer.MACHINE):
        await asyncio.wait_for(asyncio.shield(sleeping), 0.02)
    assert since_start() == 0
    await loop.advance(4.999)
    assert not sleeping.done()
    await loop.advance(0.001)
    assert sleeping.done()
    assert since_start() == 5


@standing
async def test_a_delay_that_is_over_needs_no_advance(loop: VirtualLoop) -> None:
    called = loop.create_future()
    loop.call_later(-1, called.set_result, "at once")
    assert await called == "at once"


@standing
async def test_run_until_idle_ends_where_only_upkeep_is_left_and_upkeep_runs_meanwhile(loop: VirtualLoop) -> None:
    beats: list[float] = []

    @purpose(Timer.UPKEEP)
    def beat() -> None:
        beats.append(loop.time())
        loop.call_later(10, beat)

    async def resync() -> None:
        while True:
            with timers(Timer.UPKEEP):
                await asyncio.sleep(60)

    resyncing = asyncio.create_task(resync())
    beat()
    loop.call_later(25, loop.call_later, 7, lambda: None)
    ended = await loop.run_until_idle()
    assert (loop.time(), ended.idle, beats) == (32, True, [0, 10, 20, 30])
    resyncing.cancel()


@standing
async def test_run_until_idle_is_bounded(loop: VirtualLoop) -> None:
    def again() -> None:
        loop.call_later(1, again)

    again()
    ended = await loop.run_until_idle(limit=10.5)
    assert (loop.time(), ended.idle, ended.fired) == (10.5, False, 10)


@standing
async def test_time_stands_still_while_a_thread_or_something_else_outside_works(loop: VirtualLoop) -> None:
    go_on = threading.Event()
    moved = asyncio.create_task(loop.advance(60))
    job = asyncio.create_task(asyncio.to_thread(go_on.wait, 10))
    with timers(Timer.MACHINE):
        await asyncio.sleep(0.02)
        assert loop.time() == 0
        go_on.set()
        await asyncio.gather(moved, job)
        assert loop.time() == 60
        with outside():
            moved = asyncio.create_task(loop.advance(60))
            await asyncio.sleep(0.02)
            assert loop.time() == 60
        await moved
    assert loop.time() == 120


@standing
async def test_child_processes_and_sockets_work_and_are_read_before_time_moves(loop: VirtualLoop) -> None:
    seen: list[Any] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readline(), loop.time()))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        said = f"import socket; socket.create_connection(('127.0.0.1', {port})).sendall(b'here\\n')"
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", said)
        with outside():
            moving = asyncio.create_task(loop.advance(3600))
            assert await child.wait() == 0
        await moving
    assert seen == [(b"here\n", 0)]
    assert loop.time() == 3600


@standing
async def test_while_work_is_left_no_socket_is_read(loop: VirtualLoop) -> None:
    order: list[str] = []
    reading, writing = socket.socketpair()

    def read() -> None:
        order.append("read")
        loop.remove_reader(reading)

    loop.add_reader(reading, read)
    writing.send(b"x")
    for step in range(3):
        order.append(f"work {step}")
        await asyncio.sleep(0)
    await loop.advance(0)
    assert order == ["work 0", "work 1", "work 2", "read"]
    reading.close()
    writing.close()


@standing
async def test_cancelled_timers_are_not_kept(loop: VirtualLoop) -> None:
    for _ in range(1000):
        loop.call_later(3600, print).cancel()
    assert len(loop._timers) < 250
    assert loop.pending() == []


@standing
async def test_pending_timers_say_when_for_what_and_whom(loop: VirtualLoop) -> None:
    async def sleeper() -> None:
        await asyncio.sleep(2)

    sleeping = asyncio.create_task(sleeper())
    with timers(Timer.UPKEEP):
        loop.call_later(1, print)
    await loop.advance(0)
    (first, what, name), (second, work, whose) = loop.pending()
    assert (first, what, name) == (START + SECOND, Timer.UPKEEP, "print")
    assert (second, work) == (START + 2 * SECOND, Timer.WORK)
    assert whose.endswith("sleeper")
    sleeping.cancel()


async def test_no_time_passes_while_the_loop_works() -> None:
    elapsed = stopwatch()
    assert elapsed() == elapsed()


def test_times_on_the_wire() -> None:
    moment = datetime(2026, 2, 3, 4, 5, 6, 70, tzinfo=UTC)
    assert go_time(moment) == "2026-02-03T04:05:06Z"
    assert micro_time(moment) == "2026-02-03T04:05:06.000070Z"
    assert parse_time(micro_time(moment)) == moment
    assert parse_time("2026-02-03T05:05:06+01:00") == moment.replace(microsecond=0)


async def test_a_wait_until_a_moment_ends() -> None:
    """A sum of floating point numbers lies a hair beyond the microsecond that is meant."""
    loop = asyncio.get_running_loop()
    for number in range(2000):
        deadline, turns = loop.time() + number * 0.1 + 0.7, 0
        while (now := loop.time()) < deadline:
            await asyncio.sleep(deadline - now)
            turns += 1
            assert turns < 3


def test_the_end_of_a_loop_waits_for_a_thread_of_its_executor_without_advancing_time() -> None:
    ended = threading.Event()

    async def leave_a_thread() -> None:
        # A cancelled job goes on in its thread, but the loop no longer counts it.
        def work() -> None:
            threading.Event().wait(0.05)
            ended.set()

        asyncio.get_running_loop().run_in_executor(None, work).cancel()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(leave_a_thread())
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
    assert ended.is_set()
    assert loop.time() == 0
