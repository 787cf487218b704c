"""The cache's ordered keys and its view of the past against plain Python."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.storage import WatchCache, Write, open_log
from apiserver.storage.watchcache import keys
from apiserver.storage.watchcache.keys import SortedKeys, end_of

pytestmark = pytest.mark.integration

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=4)


@given(st.lists(st.tuples(st.booleans(), st.text("ab/", max_size=4)), max_size=80), TEXT, st.integers(1, 5))
def test_sorted_keys_are_a_sorted_set(steps: list[tuple[bool, str]], start: str, limit: int) -> None:
    saved, keys.PIECE = keys.PIECE, 3
    try:
        present: set[str] = set()
        ordered = SortedKeys()
        for add, key in steps:
            if add and key not in present:
                ordered.add(key)
                present.add(key)
            elif not add and key in present:
                ordered.remove(key)
                present.remove(key)
        expected = sorted(present)
        assert ordered.range("", None) == expected
        assert SortedKeys(present).range("", None) == expected
        assert len(ordered) == len(present)
        for prefix in ("", "a", "a/", "b"):
            under = [key for key in expected if key.startswith(prefix) and key >= start]
            low = max(prefix, start)
            assert ordered.range(low, end_of(prefix)) == under
            assert ordered.range(low, end_of(prefix), limit) == under[:limit]
            assert ordered.rank(low) == sum(key < low for key in expected)
            assert ordered.rank(end_of(prefix)) == sum(key.startswith(prefix) or key < prefix for key in expected)
    finally:
        keys.PIECE = saved


@given(TEXT, TEXT)
def test_the_end_of_a_prefix_is_above_all_that_start_with_it_and_nothing_else(prefix: str, key: str) -> None:
    end = end_of(prefix)
    assert key.startswith(prefix) == (prefix <= key and (end is None or key < end))


STEPS = st.lists(st.tuples(st.sampled_from(["a/1", "a/2", "b/1", "c/1"]), st.booleans()), max_size=40)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from(["/r/", "/r/a/", "/r/b"]), st.integers(1, 3), st.integers(4, 50))
async def test_every_state_can_be_listed_again_in_pages(
    steps: list[tuple[str, bool]], prefix: str, limit: int, window: int
) -> None:
    log = await open_log("memory:")
    caches = WatchCache(log, bytes)
    cache = caches.add("/r/")
    cache._window._max_events = window
    await caches.start()
    states: dict[int, list[tuple[str, int]]] = {0: []}
    for name, deleted in steps:
        entry = cache.get("/r/" + name)
        if deleted and entry is None:
            continue
        await log.append(Write("/r/" + name, b'{"metadata":{}}', entry.revision if entry else 0, deleted))
        listing = cache.list(prefix)
        assert [each.key for each in listing.entries] == sorted(key for key in cache._entries if key.startswith(prefix))
        states[listing.revision] = [(each.key, each.revision) for each in listing.entries]
    for revision, expected in states.items():
        found: list[tuple[str, int]] = []
        start = ""
        while True:
            page = await cache.at(revision, prefix, start, limit)
            found += [(each.key, each.revision) for each in page.entries]
            assert page.remaining == len(expected) - len(found)
            if not page.remaining:
                break
            start = found[-1][0] + "\0"
        assert found == expected
    await log.close()
