"""Windows of events: their bounds, and the cursors that they wake."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from apiserver.storage import Expired, FutureRevision
from apiserver.storage.log.types import Record
from apiserver.storage.watchcache.entry import Entry, Event
from apiserver.storage.watchcache.window import Cursor, Progress, Window

pytestmark = pytest.mark.integration


def sized(revision: int, size: int) -> Event:
    value = b'{"metadata":{' + b"x" * size + b"}}"
    return Event(None, Entry(Record(revision, "a", 1, 0, False, value), json.loads), False)


def test_the_newest_event_stays_however_large_it_is() -> None:
    window = Window(Progress(0), max_bytes=10_000)
    window.add(sized(1, 100))
    window.add(sized(2, 50_000))
    assert ([event.revision for event in window.events], window.floor) == ([2], 1)
    assert not window.shrink()


def test_what_is_brought_back_has_to_fit_and_makes_others_give_way() -> None:
    window = Window(Progress(9), max_events=3, max_bytes=10_000)
    window.add(sized(10, 4_000))
    for older in ([sized(9, 8_000)], [sized(revision, 10) for revision in (7, 8, 9)]):
        assert not window.extend_back(older, 6)
        assert ([event.revision for event in window.events], window.floor) == ([10], 9)
    assert window.extend_back([sized(8, 10), sized(9, 10)], 7)
    progress = Progress(9, max_total=100_000)
    large, other = Window(progress), Window(progress)
    for revision in range(10, 60):
        other.add(sized(revision, 500))
    assert large.extend_back([sized(revision, 16_000) for revision in range(5, 10)], 4)
    assert (len(large.events), large.floor) == (5, 4)
    assert progress.held == large.held + other.held <= 100_000


async def test_who_no_longer_waits_is_forgotten() -> None:
    progress = Progress(0)
    with pytest.raises(FutureRevision):
        await progress.wait_for(1, 0)
    waiting = asyncio.ensure_future(progress.wait_for(2, None))
    await asyncio.sleep(0)
    progress.advance(1)
    assert not waiting.done()
    progress.advance(2)
    await waiting
    assert progress._waiters == []
    window = Window(progress)
    assert not await Cursor(window, 2).wait(timeout=0)
    assert window.waiters == set()


def bytes_of(size: int) -> int:
    """Return the size of an event whose state has this size; its revision has two digits and counts."""
    progress = Progress(0)
    Window(progress).add(sized(10, size))
    return progress.held


def revisions(window: Window) -> list[int]:
    return [event.revision for event in window.events]


def test_as_many_as_are_allowed_stay_and_one_more_makes_an_eighth_go() -> None:
    window = Window(Progress(0), max_events=16, max_bytes=1 << 20)
    for revision in range(1, 17):
        window.add(sized(revision, 0))
    assert (revisions(window), window.free_slots(), window.floor) == (list(range(1, 17)), 0, 0)
    window.add(sized(17, 0))
    assert (revisions(window), window.free_slots(), window.floor, window.end) == (list(range(4, 18)), 2, 3, 17)


def test_as_many_bytes_as_are_allowed_stay_and_one_more_makes_an_eighth_go() -> None:
    each, progress = bytes_of(100), Progress(0)
    window = Window(progress, max_events=999, max_bytes=16 * each)
    for revision in range(11, 27):
        window.add(sized(revision, 100))
    assert (revisions(window), window.held) == (list(range(11, 27)), 16 * each)
    window.add(sized(27, 100))
    assert (revisions(window), window.held) == (list(range(14, 28)), 14 * each)
    assert progress.held == window.held
    assert window.shrink()
    assert (revisions(window), window.held, progress.held) == (list(range(16, 28)), 12 * each, 12 * each)


def test_what_is_brought_back_may_fill_the_room_to_the_last_event_and_byte() -> None:
    each = bytes_of(100)
    for limits, fits in (
        ({"max_events": 3, "max_bytes": 99 * each}, 2), ({"max_events": 9, "max_bytes": 3 * each}, 2),
        ({"max_events": 2, "max_bytes": 99 * each}, 1), ({"max_events": 9, "max_bytes": 3 * each - 1}, 1),
    ):  # fmt: skip
        window = Window(Progress(19), **limits)
        window.add(sized(20, 100))
        older = [sized(18, 100), sized(19, 100)]
        assert window.extend_back(older, 17) is (fits == 2)
        assert revisions(window) == ([18, 19, 20] if fits == 2 else [20])
        assert window.held == window.progress.held == len(window.events) * each


def test_all_windows_share_the_room_and_the_largest_gives_way() -> None:
    each = bytes_of(100)
    progress = Progress(0, max_total=10 * each)
    small, large, third = Window(progress), Window(progress), Window(progress)
    for revision in range(11, 19):
        large.add(sized(revision, 100))
    small.add(sized(19, 100))
    third.add(sized(20, 100))
    assert (len(large.events), progress.held) == (8, 10 * each), "as much as there is room for stays"
    small.add(sized(21, 100))
    assert (revisions(large), len(small.events), len(third.events)) == (list(range(12, 19)), 2, 1)
    progress.leave(large)
    assert (large.held, progress.held) == (0, 3 * each)
    progress.leave(large)
    assert progress.held == 3 * each, "it may leave again"
    large.close()
    large.add(sized(22, 100))
    assert len(large.events) == 7, "one that has ended takes none"


def test_events_that_are_not_among_the_newest_let_go_of_what_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[int] = []
    monkeypatch.setattr(Event, "drop_derived", lambda self: forgotten.append(self.revision))
    each = bytes_of(100)
    for limit, most in (("WARM_EVENTS", 3), ("WARM_BYTES", 3 * each)):
        with monkeypatch.context() as patched:
            patched.setattr(f"apiserver.storage.watchcache.window.{limit}", most)
            forgotten.clear()
            window = Window(Progress(0))
            for revision in range(11, 16):
                window.add(sized(revision, 100))
            assert forgotten == [11, 12]


def test_what_was_compacted_goes_but_for_the_newest_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apiserver.storage.watchcache.window.MIN_EVENTS", 2)
    progress = Progress(0)
    window, other = Window(progress), Window(progress)
    for revision in range(1, 6):
        window.add(sized(revision, 100))
    other.add(sized(6, 100))
    assert not window.retire(0)
    progress.retire(2)
    assert (revisions(window), window.floor, revisions(other)) == ([3, 4, 5], 2, [6])
    progress.retire(9)
    assert (revisions(window), window.floor, revisions(other)) == ([4, 5], 3, [6])
    assert not window.retire(9)


def test_a_place_is_that_of_the_next_event_and_lost_with_what_was_before_it() -> None:
    window = Window(Progress(4))
    assert window.position_after(4) == window.position_after(9) == 0
    with pytest.raises(Expired) as lost:
        window.position_after(3)
    assert (lost.value.revision, lost.value.bound) == (3, 4)
    for revision in (5, 7, 9):
        window.add(sized(revision, 0))
    assert [window.position_after(revision) for revision in range(4, 11)] == [0, 1, 1, 2, 2, 3, 3]
    assert [[event.revision for event in window.since(revision)] for revision in (4, 5, 9)] == [[5, 7, 9], [7, 9], []]
    cursor = Cursor(window, 9)
    window.clear(12)
    assert (window.events, window.held, window.floor, window.progress.held) == ([], 0, 12, 0)
    with pytest.raises(Expired):
        cursor.next_batch()


def test_readers_of_the_same_events_share_them_until_these_change() -> None:
    window = Window(Progress(0))
    for revision in (1, 2, 3):
        window.add(sized(revision, 0))
    first = window.read(0, 2)
    assert [event.revision for event in first] == [1, 2]
    assert window.read(0, 2) is first
    assert [event.revision for event in window.read(0, 9)] == [1, 2, 3]
    assert [event.revision for event in window.read(1, 2)] == [2, 3]
    shared = window.read(1, 2)
    window.retire(0)
    assert window.extend_back([sized(0, 0)], -1)
    assert window.read(1, 2) is not shared


async def test_a_wait_ends_by_an_event_by_its_time_or_by_the_end_and_leaves_no_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    later = loop.call_later

    def call_later(*arguments: Any) -> asyncio.TimerHandle:
        timers.append(later(*arguments))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", call_later)
    window = Window(Progress(0))
    cursor = Cursor(window, 0)
    waiting = asyncio.ensure_future(cursor.wait(60))
    await asyncio.sleep(0)
    window.add(sized(1, 0))
    window.wake()
    assert await waiting
    assert [timer.cancelled() for timer in timers] == [True]
    assert await cursor.wait(60), "what is pending is not waited for"
    assert len(timers) == 1
    cursor.next_batch()
    waiting = asyncio.ensure_future(cursor.wait())
    await asyncio.sleep(0)
    window.close()
    assert (await waiting, cursor.closed, await cursor.wait()) == (False, True, False)
