"""A key is worked on once at a time, and no change is lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.runtime.clock import now
from apiserver.runtime.metrics import text
from controllers.runtime.controller import Controller, NotYetError
from controllers.runtime.workqueue import Resync, Workqueue
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

MS = timedelta(milliseconds=1)


async def test_a_key_added_twice_is_handed_out_once() -> None:
    queue = Workqueue()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_while_in_hand_comes_again_after_done_and_not_before() -> None:
    queue = Workqueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.done("a")
    assert queue.idle


async def test_of_a_dropped_key_nothing_falls_due_any_more_and_it_may_be_added_again() -> None:
    queue = Workqueue()
    queue.add_after("a", 100 * MS)
    queue.add_after("a", Resync(milliseconds=100))
    queue.add_after("b", 500 * MS)
    queue.drop("a")
    assert await queue.get() == "b"
    # In hand: what the work on it says to do later is void, a change meanwhile is not.
    queue.drop("b")
    queue.add("b")
    queue.add_after("b", 100 * MS)
    queue.retry("b")
    assert queue.due is None
    queue.done("b")
    assert await queue.get() == "b"
    queue.add_after("b", 100 * MS)
    assert queue.due is not None


async def test_a_delayed_key_keeps_its_earliest_time() -> None:
    queue = Workqueue()
    queue.add_after("a", 100 * MS)
    queue.add_after("a", 500 * MS)
    queue.add_after("b", 500 * MS)
    queue.add_after("b", 100 * MS)
    await passes(0.099)
    assert len(queue) == 0
    await passes(0.001)
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    queue.done("a")
    queue.done("b")
    await passes(3600)
    assert len(queue) == 0


async def test_failures_wait_five_milliseconds_doubling_to_a_limit_until_forgotten() -> None:
    queue = Workqueue()
    for expected in (5, 10, 20, 40):
        queue.retry("a")
        await passes((expected - 1) / 1000)
        assert len(queue) == 0
        await passes(0.001)
        assert await queue.get() == "a"
        queue.done("a")
    queue.forget("a")
    queue.retry("a")
    await passes(0.005)
    assert len(queue) == 1


async def test_a_waiter_is_woken_by_an_add_and_released_by_close() -> None:
    queue = Workqueue()
    waiters = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.close()
    assert sorted(str(key) for key in await asyncio.gather(*waiters)) == ["None", "a"]


async def test_a_waiter_cancelled_at_the_moment_it_is_woken_passes_the_key_on() -> None:
    queue = Workqueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


@given(st.lists(st.tuples(st.sampled_from(["add", "get", "done"]), st.sampled_from("abc")), max_size=60))
async def test_whatever_happens_a_key_is_never_in_two_hands_and_every_add_is_followed_by_a_get(
    steps: list[tuple[str, str]],
) -> None:
    queue = Workqueue()
    in_hand: set[str] = set()
    owed: set[str] = set()
    for step, key in steps:
        if step == "add":
            queue.add(key)
            owed.add(key)
        elif step == "get" and len(queue):
            taken = await queue.get()
            assert taken is not None
            assert taken not in in_hand
            in_hand.add(taken)
            owed.discard(taken)
        elif step == "done" and key in in_hand:
            in_hand.discard(key)
            queue.done(key)
    for key in sorted(in_hand):
        queue.done(key)
    rest = {await queue.get() for _ in range(len(queue))}
    assert rest == owed


async def test_a_queue_tells_how_long_keys_waited_and_were_in_hand() -> None:
    queue = Workqueue()
    queue.add("a")
    queue.add("a")
    await passes(0.002)
    assert await queue.get() == "a"
    await passes(0.03)
    shown = text(queue.metrics.families)
    assert 'workqueue_depth{name=""} 0\n' in shown
    assert 'workqueue_unfinished_work_seconds{name=""} 0.03\n' in shown
    assert "workqueue_work_duration_seconds_count" not in shown, "it is still in hand"
    queue.done("a")
    queue.retry("a")
    shown = text(queue.metrics.families)
    assert 'workqueue_adds_total{name=""} 1\n' in shown
    assert 'workqueue_retries_total{name=""} 1\n' in shown
    assert 'workqueue_queue_duration_seconds_sum{name=""} 0.002\n' in shown
    assert 'workqueue_work_duration_seconds_bucket{name="",le="0.01"} 0\n' in shown
    assert 'workqueue_work_duration_seconds_bucket{name="",le="0.1"} 1\n' in shown


async def test_a_reconcile_that_raises_is_called_again_and_one_that_asks_is_called_after_its_delay() -> None:
    calls: list[timedelta] = []
    start = now()

    async def reconcile(_: str) -> timedelta | None:
        calls.append(now() - start)
        if len(calls) == 1:
            raise ValueError("not yet")
        return timedelta(seconds=3) if len(calls) == 2 else None

    controller = Controller("test", reconcile)
    task = asyncio.create_task(controller.run())
    controller.queue.add("a")
    await passes(60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls == [timedelta(), 5 * MS, 5 * MS + timedelta(seconds=3)]


async def test_work_that_has_to_wait_is_tried_again_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    async def reconcile(key: str) -> None:
        calls.append(key)
        if len(calls) < 3:
            raise NotYetError("no template")

    controller = Controller("test", reconcile)
    task = asyncio.create_task(controller.run())
    controller.queue.add("a")
    with caplog.at_level("INFO"):
        await passes(60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls == ["a", "a", "a"]
    assert [(record.levelname, record.getMessage(), record.exc_info) for record in caplog.records] == [
        ("INFO", "test: a: no template", None)
    ] * 2
