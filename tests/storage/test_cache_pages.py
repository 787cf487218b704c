"""The start of a cache, past states and pages."""

from __future__ import annotations

import json

import pytest

from apiserver.storage import (
    WatchCache,
    Write,
)
from apiserver.storage.log.types import Expired
from tests.storage.caches import Store, a_store, opened_log

pytestmark = pytest.mark.integration


async def changed_often(store: Store) -> dict[int, dict[str, int]]:
    """Write some keys again and again; return the names at each revision, with their values."""
    there: dict[str, int] = {}
    states: dict[int, dict[str, int]] = {store.log.revision: {}}
    for turn, name in enumerate("abcdbaefcadbgeaf"):
        if turn % 3 == 2 and name in there:
            await store.delete(name)
            del there[name]
        else:
            await store.put(name, n=turn)
            there[name] = turn
        if turn % 5 == 0:
            await store.put("x", prefix="/registry/nodes/")
            states[store.log.revision] = dict(there)
        states[store.log.revision] = dict(there)
    return states


@pytest.mark.parametrize("kept", [99, 4])
async def test_each_past_state_can_be_read_from_any_key_in_pages_of_any_size(kept: int) -> None:
    async with a_store() as store:
        store.pods._window._max_events = kept
        states = await changed_often(store)
        for revision, there in states.items():
            for start in ("", "b", "d~"):
                names = sorted(name for name in there if name >= start)
                key = f"/registry/pods/{start}" if start else ""
                for limit in (None, 1, 2, 3, 5, 20):
                    page = await store.pods.at(revision, "", key, limit)
                    wanted = names if limit is None else names[:limit]
                    assert [entry.key[-1] for entry in page.entries] == wanted
                    assert [entry.obj["spec"]["n"] for entry in page.entries] == [there[name] for name in wanted]
                    assert (page.revision, page.remaining) == (revision, len(names) - len(wanted))


@pytest.mark.parametrize("at_once", [1, 2, 5000])
async def test_every_cache_that_is_there_at_the_start_has_its_own_rows(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apiserver.storage.watchcache.watchcache.LOAD_ROWS", at_once)

    async def run(prefixes: list[str]) -> None:
        async with opened_log("memory:") as log:
            for key in ("/r/a/1", "/r/a/2", "/r/b/1", "/r/c/1", "/r/a/b/1"):
                await log.append(Write(key, b'{"metadata":{"name":"x"}}', 0))
            caches = WatchCache(log, json.loads)
            made = [caches.add(prefix) for prefix in prefixes]
            await caches.start()
            await log.append(Write("/r/a/3", b'{"metadata":{"name":"x"}}', 0))
            for prefix, cache in zip(prefixes, made, strict=True):
                inner = "/r/a/b/" if prefix == "/r/a/" and "/r/a/b/" in prefixes else "none"
                wanted = [f"/r/{end}" for end in ("a/1", "a/2", "a/3", "a/b/1", "b/1", "c/1")]
                wanted = [key for key in wanted if key.startswith(prefix) and not key.startswith(inner)]
                assert [entry.key for entry in cache.list().entries] == wanted, (prefixes, prefix)
                assert cache.get(prefix + "none") is None
            caches.close()

    for prefixes in (["/r/a/"], ["/r/b/", "/r/a/"], ["/r/a/", "/r/a/b/", "/r/c/"]):
        await run(prefixes)
    with pytest.raises(ValueError, match="a prefix ends with a slash, unlike '/r'"):
        await run(["/r"])


@pytest.mark.parametrize("at_once", [1, 2, 3, 99])
async def test_a_state_is_read_in_pages_and_cut_where_it_was_asked_to_be(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apiserver.storage.sqlite.log.PAGE", at_once)

    async with opened_log("memory:") as log:
        for number in range(7):
            await log.append(Write(f"/r/{number}", b"v", 0))
        await log.append(Write("/s", b"v", 0))
        for start, limit in ((0, None), (0, 1), (0, 3), (0, 5), (0, 7), (0, 9), (3, 2), (3, 4), (6, 3)):
            page = await log.state("/r/", 8, start=f"/r/{start}", limit=limit)
            keys = [f"/r/{number}" for number in range(start, 7)]
            wanted = keys if limit is None else keys[:limit]
            assert ([each.key for each in page.records], page.remaining) == (wanted, len(keys) - len(wanted))
        assert [each.revision for each in await log.after(2, 3)] == [3, 4, 5]
        assert [each.revision for each in await log.after(6, 9)] == [7, 8]
        changes = await log.history("/r/", 1, 6, 4)
        assert [each.record.revision for each in changes] == [2, 3, 4, 5]


async def test_caches_that_are_closed_hear_nothing_more() -> None:
    async with a_store() as store:
        await store.put("a")
        cursor = store.pods.cursor(1)
        store.caches.close()
        await store.put("b")
        assert (store.caches.revision, cursor.closed, store.pods.get("/registry/pods/b")) == (1, True, None)


@pytest.mark.parametrize(("since", "had"), [(1, None), (2, None), (3, [4, 5]), (4, [5]), (5, []), (6, [])])
async def test_a_past_is_brought_back_where_it_is_not_longer_than_a_window_may_be(
    since: int, had: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apiserver.storage.watchcache.cache.HISTORY_ROWS", 2)
    async with a_store() as store:
        for number in range(5):
            await store.put("a" if number % 2 else "b", n=number)
        store.pods.load((await store.log.state("/registry/pods/")).records, 5)
        if had is None:
            with pytest.raises(Expired) as lost:
                await store.pods.reach_back(since)
            assert (lost.value.revision, lost.value.bound) == (since, 5)
            return
        await store.pods.reach_back(since)
        events = store.pods.cursor(since).next_batch()
        assert [event.revision for event in events] == had
        assert all(event.old is not None and event.old.revision < event.revision for event in events)
