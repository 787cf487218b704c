"""What a window keeps and takes when there is no room, and whom it remembers."""

from __future__ import annotations

import asyncio
import json

import pytest

from apiserver.storage import FutureRevision
from apiserver.storage.entry import Entry, Event
from apiserver.storage.types import Record
from apiserver.storage.window import Cursor, Progress, Window


def sized(revision: int, size: int) -> Event:
    value = b'{"metadata":{' + b"x" * size + b"}}"
    return Event(None, Entry(Record(revision, "a", 1, 0, False, value), json.loads), False)


def test_the_newest_event_stays_however_large_it_is():
    window = Window(Progress(0), max_bytes=10_000)
    window.add(sized(1, 100))
    window.add(sized(2, 50_000))
    assert ([event.revision for event in window.events], window.floor) == ([2], 1)
    assert not window.shrink()


def test_what_is_brought_back_has_to_fit_and_makes_others_give_way():
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


def test_who_no_longer_waits_is_forgotten():
    async def run() -> None:
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

    asyncio.run(run())
