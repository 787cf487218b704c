"""The window of recent events: cursors, bookmarks, past states, dropped events."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from apiserver.storage import Compacted, Expired, FutureRevision, Write
from apiserver.storage.log.types import Record
from apiserver.storage.watchcache import window as windows
from apiserver.storage.watchcache.entry import Entry, Event
from apiserver.storage.watchcache.window import Cursor, Progress, Window
from tests.storage.caches import Store, a_store, names, value, with_store

pytestmark = pytest.mark.integration


@with_store
async def test_a_cursor_reads_every_event_after_its_revision_once(store: Store) -> None:
    await store.put("a")
    cursor = store.pods.cursor(since=1)
    assert cursor.next_batch() == []
    await store.put("a", turn=2)
    await store.delete("a", last=True)
    first, second = cursor.next_batch()
    assert (first.revision, first.deleted, first.old and first.old.revision, first.new.obj["spec"]) == (
        2,
        False,
        1,
        {"turn": 2},
    )
    assert (second.revision, second.deleted, second.old is first.new) == (3, True, True)
    assert second.new.obj == {"metadata": {"resourceVersion": "3", "name": "a"}, "spec": {"last": True}}
    assert first.departed.obj == {"metadata": {"resourceVersion": "2", "name": "a"}, "spec": {}}
    assert first.departed is first.departed
    assert cursor.next_batch() == []
    assert [event.revision for event in store.pods.cursor(0).next_batch(limit=2)] == [1, 2]


@with_store
async def test_a_cursor_from_the_future_passes_over_what_lies_between(store: Store) -> None:
    cursor, near = store.pods.cursor(since=2), store.pods.cursor(since=1)
    assert cursor.revision == 2
    for name in "abcd":
        await store.put(name)
    assert [event.revision for event in cursor.next_batch(limit=3)] == [3]
    assert [event.revision for event in cursor.next_batch()] == [4]
    assert [event.revision for event in near.next_batch()] == [2, 3, 4]


@with_store
async def test_a_bookmark_moves_with_the_whole_feed_but_not_past_what_is_unread(store: Store) -> None:
    cursor = store.pods.cursor(0)
    await store.put("x", prefix="/registry/nodes/")
    assert cursor.revision == 1
    await store.put("a")
    await store.put("b")
    await store.put("y", prefix="/registry/nodes/")
    cursor.next_batch(limit=1)
    assert cursor.revision == 2
    cursor.next_batch()
    assert cursor.revision == 4


@with_store
async def test_waiting_cursors_wake_together_and_are_interrupted_alone(store: Store) -> None:
    cursors = [store.pods.cursor(0) for _ in range(20)]
    waits = [asyncio.ensure_future(cursor.wait()) for cursor in cursors]
    gone = asyncio.ensure_future(cursors[0].wait())
    await asyncio.sleep(0)
    gone.cancel()
    interrupted = store.pods.cursor(0)
    asyncio.get_running_loop().call_soon(interrupted.interrupt)
    assert await interrupted.wait() is False
    interrupted.interrupt()  # without a waiter: the next wait ends
    assert await interrupted.wait() is False
    assert await store.pods.cursor(0).wait(0.001) is False
    await store.put("a")
    assert await asyncio.gather(*waits) == [True] * 20
    assert await cursors[0].wait() is True
    assert all(cursor.pending for cursor in cursors)
    assert store.pods._window.waiters == set()


@with_store
async def test_one_can_wait_for_a_revision_of_the_whole_feed(store: Store) -> None:
    waiting = asyncio.ensure_future(store.pods.wait_for(2, timeout=10))
    await store.put("a")
    assert not waiting.done()
    await store.put("x", prefix="/registry/nodes/")
    await waiting
    with pytest.raises(FutureRevision) as future:
        await store.caches.wait_for(9, timeout=0.001)
    assert (future.value.revision, future.value.bound) == (9, 2)
    await store.pods.consistent()


@with_store
async def test_the_past_is_read_from_the_window_and_beyond_it_from_the_log(store: Store) -> None:
    window = store.pods._window
    window._max_events = 16
    states: dict[int, list[str]] = {0: []}
    for turn in range(30):
        await store.put(f"{turn % 7}", turn=turn)
        if turn % 4 == 3:
            states[store.log.revision] = names(store.pods.list())
            await store.delete(f"{turn % 7}")
        states[store.log.revision] = names(store.pods.list())
    assert 0 < window.floor < store.log.revision
    for revision, expected in states.items():
        listing = await store.pods.at(revision)
        assert (names(listing), listing.revision, listing.remaining) == (expected, revision, 0)
        assert all(entry.revision <= revision for entry in listing.entries)
        paged: list[str] = []
        start = ""
        while True:
            page = await store.pods.at(revision, start=start, limit=2)
            paged += names(page)
            assert page.remaining == len(expected) - len(paged)
            if not page.remaining:
                break
            start = page.entries[-1].key + "\0"
        assert paged == expected
    with pytest.raises(FutureRevision):
        await store.pods.at(store.log.revision + 1)
    await store.log.compact(window.floor - 1)
    with pytest.raises(Compacted):
        await store.pods.at(window.floor - 2)


@with_store
async def test_a_watcher_that_the_window_has_passed_is_told_so(store: Store) -> None:
    store.pods._window._max_events = 8
    slow = store.pods.cursor(0)
    for turn in range(20):
        await store.put("a", turn=turn)
    with pytest.raises(Expired) as expired:
        slow.next_batch()
    assert expired.value.bound == store.pods._window.floor
    with pytest.raises(Expired):
        store.pods.cursor(1)
    floor = store.pods._window.floor
    assert [event.revision for event in store.pods.cursor(floor).next_batch()] == list(range(floor + 1, 21))


async def test_a_watch_resumes_from_the_log_after_a_restart(tmp_path: Path) -> None:
    async with a_store(str(tmp_path)) as store:
        for turn in range(10):
            await store.put(f"{turn % 3}", turn=turn)
        await store.delete("0")
    async with a_store(str(tmp_path)) as store:
        await store.put("0", turn=99)
        with pytest.raises(Expired):
            store.pods.cursor(4)
        await asyncio.gather(*(store.pods.reach_back(since) for since in (4, 6, 5)))
        events = store.pods.cursor(4).next_batch()
        assert [event.revision for event in events] == list(range(5, 13))
        assert [event.old.revision if event.old else None for event in events] == [2, 3, 4, 5, 6, 7, 10, None]
        assert [event.deleted for event in events] == [False] * 6 + [True, False]
        assert events[4].new is store.pods.get("/registry/pods/2")
        assert names(await store.pods.at(11)) == ["1", "2"]
        await store.log.compact(3)
        with pytest.raises(Compacted):
            await store.pods.reach_back(2)
        await store.pods.reach_back(3)
        store.pods._window._max_events = 10
        await store.put("1")
        assert [event.revision for event in store.pods.cursor(4).next_batch()] == list(range(5, 14))


async def test_more_history_than_the_window_may_hold_is_not_brought_back(tmp_path: Path) -> None:
    async with a_store(str(tmp_path)) as store:
        for turn in range(12):
            await store.put("a", turn=turn)
    async with a_store(str(tmp_path)) as store:
        store.pods._window._max_events = 10
        with pytest.raises(Expired):
            await store.pods.reach_back(1)
        await store.pods.reach_back(2)
        assert len(store.pods.cursor(2).next_batch()) == 10


@with_store
async def test_cursors_at_one_place_read_one_batch(store: Store) -> None:
    await store.put("a")
    await store.put("b")
    early, late = store.pods.cursor(0), store.pods.cursor(1)
    assert early.next_batch(limit=1) != store.pods.cursor(0).next_batch()
    batch = early.next_batch()
    assert [event.revision for event in batch] == [2]
    assert late.next_batch() is batch


def test_what_is_put_back_after_a_new_start_is_not_read_for_what_was_there_before() -> None:
    def event(revision: int) -> Event:
        return Event(
            None,
            Entry(Record(revision, "/registry/pods/a", revision, 0, False, b'{"metadata":{"name":"a"}}'), json.loads),
            False,
        )

    window = Window(Progress(0), max_events=10)
    cursor = Cursor(window, 0)
    for revision in range(1, 6):
        window.add(event(revision))
    assert len(cursor.next_batch(limit=4)) == 4
    window.clear(9)
    assert window.extend_back([event(8), event(9)], 7)
    with pytest.raises(Expired):
        cursor.next_batch()
    assert [each.revision for each in Cursor(window, 7).next_batch()] == [8, 9]


@with_store
async def test_a_reset_is_seen_by_watchers_as_deletions(store: Store) -> None:
    await store.put("a", keep=1)
    await store.put("b")
    await store.put("default", prefix="/registry/namespaces/")
    cursor = store.pods.cursor(store.log.revision)
    await store.log.reset(keep=["/registry/namespaces/default"])
    events = cursor.next_batch()
    assert [(event.key[-1], event.deleted, event.new.obj["metadata"]) for event in events] == [
        ("a", True, {"resourceVersion": "4", "name": "a"}),
        ("b", True, {"resourceVersion": "5", "name": "b"}),
    ]
    assert len(store.pods) == 0


@with_store
async def test_old_events_let_go_of_what_can_be_made_again(store: Store) -> None:
    await store.put("a")
    event = store.pods.cursor(0).next_batch()[0]
    event.encodings["x"] = 1
    obj = event.new.obj
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "WARM_EVENTS", 50)
        for turn in range(60):
            await store.put("b", turn=turn)
        assert event.encodings == {}
        assert event.new.obj is obj, "the current state is not touched"
        await store.put("a", turn=1)
        for turn in range(60):
            await store.put("b", turn=turn)
    assert event.new.obj is not obj
    assert event.new.obj == obj


@with_store
async def test_of_objects_that_are_hardly_read_again_only_the_newest_hold_more_than_their_bytes(store: Store) -> None:
    store.pods.limit_history()
    await store.put("a")
    (entry,) = store.pods.list().entries
    entry.encodings["x"] = 1
    obj = entry.obj
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "WARM_EVENTS", 50)
        for turn in range(49):
            await store.put("b", turn=turn)
        assert entry.encodings == {"x": 1}
        for turn in range(11):
            await store.put("b", turn=turn)
    assert entry.encodings == {}
    assert entry.obj == obj


@with_store
async def test_of_what_the_log_has_no_more_a_hundred_events_stay_of_each_kind(store: Store) -> None:
    await store.put("default", prefix="/registry/namespaces/")
    for turn in range(250):
        await store.put("a", turn=turn)
    behind, late = store.pods.cursor(10), store.pods.cursor(200)
    progress = store.pods._window.progress
    held = progress.held
    store.caches.retire(210)
    assert len(store.pods._window.events) == 100
    assert progress.held == sum(window.held for window in progress._windows) < held / 2
    assert len(late.next_batch()) == store.log.revision - 200
    with pytest.raises(Expired):
        behind.next_batch()
    store.caches.retire(store.log.revision)
    assert len(store.pods._window.events) == 100
    assert store.pods.cursor(store.log.revision - 100).next_batch()


def test_a_window_is_bounded_by_bytes() -> None:
    progress = Progress(0)
    window = Window(progress, max_events=1000, max_bytes=10_000)
    for revision in range(1, 101):
        entry = Entry(Record(revision, "a", 1, 0, False, b'{"metadata":{' + b"x" * 500 + b"}}"), json.loads)
        window.add(Event(None, entry, False))
        progress.advance(revision)
    assert window.held == progress.held <= 10_000
    assert 8 <= len(window.events) <= 10
    assert window.events[0].revision == window.floor + 1
    assert window.end == 100


def test_all_windows_together_are_bounded_and_the_largest_gives_way() -> None:
    def event(revision: int, size: int) -> Event:
        value = b'{"metadata":{' + b"x" * size + b"}}"
        return Event(None, Entry(Record(revision, "a", 1, 0, False, value), json.loads), False)

    progress = Progress(0, max_total=100_000)
    small, large, ended = Window(progress), Window(progress), Window(progress)
    ended.add(event(1, 60_000))
    ended.close()
    assert progress.held == 0, "a window that has ended takes no room"
    ended.add(event(2, 10))
    small.add(event(3, 10))
    small.add(event(4, 10))
    for revision in range(5, 305):
        large.add(event(revision, 600))
        assert progress.held == small.held + large.held <= 100_000
    assert len(small.events) == 2
    assert large.events[-1].revision == 304
    assert large.held > 80_000, "no more goes than has to"
    with pytest.raises(Expired):
        Cursor(large, 5)
    assert small.extend_back([event(1, 20_000), event(2, 20_000)], 0)
    assert progress.held <= 100_000
    assert [each.revision for each in Cursor(small, 0).next_batch()] == [1, 2, 3, 4], "what is brought back stays"
    large.clear(400)
    assert progress.held == small.held


def test_decoded_objects_are_bounded_by_their_bytes() -> None:
    progress = Progress(0)
    window = Window(progress)
    events = []
    for revision in range(1, 11):
        entry = Entry(
            Record(revision, "a", 1, 0, False, b'{"metadata":{"name":"%b"}}' % (b"x" * 1_000_000)), json.loads
        )
        events.append(Event(None, entry, True))
        events[-1].encodings["form"] = b""
        window.add(events[-1])
    assert [bool(each.encodings) for each in events] == [False] * 6 + [True] * 4


@with_store
async def test_a_row_that_is_no_object_is_reported_and_passed_over(store: Store) -> None:
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
    await asyncio.gather(
        store.log.append(Write("/registry/pods/bad", b"[]", 0)),
        store.log.append(Write("/registry/pods/good", value("good"), 0)),
    )
    assert names(store.pods.list()) == ["good"]
    assert store.pods.revision == 2
    assert [str(report["exception"]) for report in reports] == [
        "/registry/pods/bad: a stored value begins with {\"metadata\":{, unlike b'[]'"
    ]
