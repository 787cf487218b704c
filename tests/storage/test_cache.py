"""Reads and watches of the watch cache."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from apiserver.storage import Cache, Record, WatchCache, Write
from apiserver.storage.log.types import Expired, Snapshot
from apiserver.storage.watchcache.cache import RowConverter
from tests.storage.caches import Store, a_store, entry_of, names, value, with_store

pytestmark = pytest.mark.integration

Json = dict[str, Any]


def counting_decoder(calls: list[bytes]) -> Callable[[bytes], Any]:
    """Make a decoder that records its calls."""

    def decode(data: bytes) -> Any:
        calls.append(data)
        return json.loads(data)

    return decode


@with_store
async def test_a_written_object_is_in_the_cache_when_the_write_is_answered(store: Store) -> None:
    revision = await store.put("ns/a", node="n1")
    entry = store.entry("ns/a")
    assert (entry.revision, entry.create_revision, store.pods.revision) == (revision, revision, revision)
    assert entry.obj == {"metadata": {"resourceVersion": "1", "name": "ns/a"}, "spec": {"node": "n1"}}
    await store.delete("ns/a")
    assert store.pods.get("/registry/pods/ns/a") is None
    assert len(store.pods) == 0


@with_store
async def test_objects_and_lists_are_made_by_joining_tails(store: Store) -> None:
    await store.put("a")
    await store.put("b")
    entries = store.pods.list().entries
    one = b'{"kind":"Pod","apiVersion":"v1","metadata":{' + entries[0].tail
    assert json.loads(one)["metadata"] == {"resourceVersion": "1", "name": "a"}
    items = b'[{"metadata":{' + b',{"metadata":{'.join(entry.tail for entry in entries) + b"]"
    assert [item["metadata"] for item in json.loads(items)] == [entry.obj["metadata"] for entry in entries]
    assert [entry.value for entry in entries] == [value("a"), value("b")]


@with_store
async def test_an_object_without_metadata_members_is_spliced_as_well(store: Store) -> None:
    record = await store.log.append(Write("/registry/pods/x", b'{"metadata":{},"a":1}', 0))
    entry = store.entry("x")
    assert entry.obj == {"metadata": {"resourceVersion": "1"}, "a": 1}
    assert entry.value == record.value


@with_store
async def test_everything_is_decoded_and_encoded_at_most_once(store: Store) -> None:
    calls: list[bytes] = []
    caches = WatchCache(store.log, counting_decoder(calls))
    cache = caches.add("/registry/pods/")
    await caches.start()
    await store.put("a")
    assert calls == []
    entry = entry_of(cache, "/registry/pods/a")
    assert entry.obj is entry.obj
    assert len(calls) == 1
    entry.encodings["v2"] = b"..."
    assert cache.list().entries[0].encodings == {"v2": b"..."}
    await store.put("b")
    primed: Json = {"metadata": {}}
    entry_of(cache, "/registry/pods/b").prime(primed)
    assert entry_of(cache, "/registry/pods/b").obj is primed
    assert len(calls) == 1
    caches.close()


@with_store
async def test_lists_are_ranges_in_key_order_with_what_remains(store: Store) -> None:
    for name in ("b/2", "a/1", "b/1", "b-/1", "b/3"):
        await store.put(name)
    pods = store.pods
    assert names(pods.list()) == ["a/1", "b-/1", "b/1", "b/2", "b/3"]
    assert names(pods.list("/registry/pods/b/")) == ["b/1", "b/2", "b/3"]
    page = pods.list("/registry/pods/b/", limit=2)
    assert (names(page), page.remaining, page.revision) == (["b/1", "b/2"], 1, 5)
    rest = pods.list("/registry/pods/b/", start=page.entries[-1].key + "\0", limit=2)
    assert (names(rest), rest.remaining) == (["b/3"], 0)


@with_store
async def test_each_row_goes_to_the_cache_with_the_longest_prefix(store: Store) -> None:
    nested = store.caches.add("/registry/pods/special/")
    await store.caches.load(nested)
    await store.put("special/a")
    await store.put("special/deep/a")
    await store.put("other/a")
    await store.put("x", prefix="/registry/unknown/")
    assert names(nested.list()) == ["special/a", "special/deep/a"]
    assert names(store.pods.list()) == ["other/a"]
    assert store.caches.revision == nested.revision == store.pods.revision == 4


async def test_a_prefix_is_a_directory() -> None:
    async with a_store() as store:
        with pytest.raises(ValueError, match="slash"):
            store.caches.add("/registry/nodes")


@with_store
async def test_a_cache_that_is_added_later_holds_what_was_written_before_and_meanwhile(store: Store) -> None:
    gate, read = asyncio.Event(), store.log.state

    async def slow_read(*args: Any, **options: Any) -> Snapshot:
        page = await read(*args, **options)
        await gate.wait()
        return page

    store.log.state = slow_read  # type: ignore[method-assign]
    for number in range(450):  # more than one page
        await store.put(f"{number:03}", prefix="/registry/crs/")
    crs = store.caches.add("/registry/crs/")
    loading = asyncio.ensure_future(store.caches.load(crs))
    await asyncio.sleep(0)
    watching = asyncio.ensure_future(crs.cursor(store.log.revision).wait())
    revision = await store.put("000", prefix="/registry/crs/", changed=True)
    await store.delete("449", prefix="/registry/crs/")
    gate.set()
    await loading
    assert await watching, "a watch that began while it was read is told what came meanwhile"
    assert len(crs) == 449
    assert entry_of(crs, "/registry/crs/000").revision == revision
    assert [event.revision for event in crs.cursor(revision - 1).next_batch()] == [451, 452]


@with_store
async def test_removing_a_cache_ends_its_watches(store: Store) -> None:
    cursor, pods = store.pods.cursor(0), store.pods
    waiting = asyncio.ensure_future(cursor.wait())
    await asyncio.sleep(0)
    assert not pods.closed
    store.caches.remove("/registry/pods/")
    assert await waiting is False
    assert cursor.closed
    assert pods.closed
    await store.put("a")
    assert not cursor.pending
    assert await cursor.wait() is False


@with_store
async def test_a_watcher_that_is_interrupted_before_it_waits_does_not_wait_once(store: Store) -> None:
    cursor = store.pods.cursor(0)
    cursor.interrupt()
    assert await cursor.wait() is False
    waiting = asyncio.ensure_future(cursor.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    await store.put("a")
    assert await waiting


@with_store
async def test_an_index_follows_its_objects(store: Store) -> None:
    await store.put("b", node="n1")
    await store.put("a", node="n1")
    await store.put("c")
    assert names(store.pods.find("node", "n1")) == ["a", "b"]
    await store.put("b", node="n2")
    await store.delete("a")
    await store.put("x/y", node="n2")
    assert names(store.pods.find("node", "n1")) == []
    assert names(store.pods.find("node", "n2")) == ["b", "x/y"]
    assert names(store.pods.find("node", "n2", "/registry/pods/x/")) == ["x/y"]


@with_store
async def test_an_index_that_was_left_behind_by_the_window_is_built_again(store: Store) -> None:
    store.pods._window._max_events = 8
    await store.put("a", node="n1")
    assert names(store.pods.find("node", "n1")) == ["a"]
    for turn in range(30):
        await store.put("a", node=f"n{turn}")
    assert names(store.pods.find("node", "n29")) == ["a"]
    assert names(store.pods.find("node", "n1")) == []


def shown_on(node: str) -> RowConverter:
    """Make a form in which every object is on this node."""

    def form(record: Record) -> Record:
        obj = json.loads(record.value)
        obj["spec"] = {"node": node}
        return record._replace(value=json.dumps(obj, separators=(",", ":")).encode())

    return form


@with_store
async def test_watches_from_before_a_new_form_go_on_in_theirs_until_they_are_ended(store: Store) -> None:
    pods = store.pods
    pods.change_form({}, shown_on("first"))
    await store.put("a")
    before = pods.cursor(pods.revision)
    end = pods.change_form({}, shown_on("second"), to_former=shown_on("first"))
    since = pods.cursor(pods.revision)
    woken = asyncio.ensure_future(before.wait())
    await asyncio.sleep(0)
    await store.put("a", node="x")
    async with asyncio.timeout(30):
        assert await woken
    await store.put("b")
    await store.delete("b")
    for cursor, node in ((before, "first"), (since, "second")):
        assert await cursor.wait()
        events = cursor.next_batch()
        assert [(event.deleted, event.old and event.old.obj["spec"]) for event in events] == [
            (False, {"node": node}), (False, None), (True, {"node": node}),
        ]  # fmt: skip
        assert {event.new.obj["spec"]["node"] for event in events} == {node}
    waiting = asyncio.ensure_future(before.wait())
    await asyncio.sleep(0)
    end()
    assert (await waiting, before.closed, since.closed, pods.closed) == (False, True, False, False)
    await store.put("c")
    assert (before.pending, since.pending) == (False, True)


@with_store
async def test_a_watcher_of_another_form_has_to_list_again(store: Store) -> None:
    old = await store.put("a")
    await store.put("b")
    store.pods.change_form({}, shown_on("n"))
    with pytest.raises(Expired):
        await store.pods.reach_back(old)
    await store.pods.reach_back(store.pods.revision)


@with_store
async def test_the_end_of_a_cache_is_that_of_watches_from_before_a_new_form(store: Store) -> None:
    before = store.pods.cursor(store.pods.revision)
    store.pods.change_form({}, to_former=shown_on("n"))
    store.pods.close()
    assert before.closed


@with_store
async def test_an_object_that_a_writer_hands_over_is_not_decoded_while_its_cache_has_followers(store: Store) -> None:
    calls: list[bytes] = []
    caches = WatchCache(store.log, counting_decoder(calls))
    plain = caches.add("/registry/pods/")
    changing = caches.add("/registry/nodes/", to_current=lambda record: record)
    await caches.start()

    async def decoded(cache: Cache, name: str, *, value: bytes | None = None, taken_back: bool = False) -> bool:
        key, made = f"{cache.prefix}{name}", {"metadata": {"name": name}}
        written = json.dumps(made, separators=(",", ":")).encode()
        cache.preload(key, value or written, made)
        if taken_back:
            cache.discard_preloaded(key)
        calls.clear()
        record = await store.log.append(Write(key, written, 0))
        assert entry_of(cache, key).obj == {"metadata": {"resourceVersion": str(record.revision), "name": name}}
        return bool(calls)

    assert await decoded(plain, "nobody-follows")
    plain.followers = changing.followers = 1
    assert not await decoded(plain, "followed")
    assert await decoded(plain, "another-value", value=b'{"metadata":{"name":"x"}}')
    assert await decoded(plain, "refused", taken_back=True)
    assert await decoded(changing, "in-another-form")


@with_store
async def test_an_observer_is_told_of_each_row_once_it_is_there_and_of_each_new_state_until_it_ends(
    store: Store,
) -> None:
    calls: list[object] = []

    def applied(record: Record) -> None:
        calls.append((record.key, record.deleted, store.pods.get(record.key) is not None))

    end = store.pods.observe(applied, lambda: calls.append(len(store.pods)))
    await store.put("a")
    await store.put("a", prefix="/registry/nodes/")
    await store.delete("a")
    store.pods.load((await store.log.state("/registry/nodes/")).records, store.log.revision)
    assert calls == [("/registry/pods/a", False, True), ("/registry/pods/a", True, False), 1]
    end()
    await store.put("b")
    assert len(calls) == 3
