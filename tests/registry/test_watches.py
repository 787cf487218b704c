"""Watches: their start, their events and their end."""

from __future__ import annotations

import asyncio
import math
import random

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.registry.definition.options import ListOptions
from apiserver.registry.verbs.watch import open_watch
from apiserver.request.messages import User
from apiserver.storage.log.types import StorageUnavailable
from tests.registry.conftest import World

ADMIN = User("admin")


async def put(world: World, name: str, **labels: str) -> None:
    await world.create("configmaps", {"metadata": {"name": name, "labels": labels}})


async def test_a_watch_without_version_starts_with_what_there_is_in_key_order(world: World) -> None:
    await put(world, "b")
    await put(world, "a")
    watch = await world.watch("configmaps")
    assert await watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]
    await put(world, "c")
    await world.merge("configmaps", "a", {"data": {"x": "1"}})
    await world.delete("configmaps", "b")
    assert await watch.take(3) == [("ADDED", "c"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_a_watch_from_a_version_sees_what_followed_it(world: World) -> None:
    await put(world, "a")
    since = world.registry.log.revision
    await put(world, "b")
    watch = await world.watch("configmaps", f"resourceVersion={since}")
    assert await watch.take(1) == [("ADDED", "b")]


async def test_a_selection_turns_changes_into_what_they_mean_for_it(world: World) -> None:
    await put(world, "a", on="1")
    await put(world, "b")
    watch = await world.watch("configmaps", f"labelSelector=on%3D1&resourceVersion={world.registry.log.revision}")
    await world.merge("configmaps", "b", {"metadata": {"labels": {"on": "1"}}})
    await world.merge("configmaps", "a", {"data": {"x": "1"}})
    left = await world.merge("configmaps", "a", {"metadata": {"labels": {"on": None}}})
    await world.merge("configmaps", "a", {"data": {"x": "2"}})
    await world.delete("configmaps", "b")
    assert await watch.take(2) == [("ADDED", "b"), ("MODIFIED", "a")]
    kind, entry = await watch.next_change()
    assert (kind, entry.obj["metadata"]["labels"]) == ("DELETED", {"on": "1"})
    assert entry.obj["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
    assert await watch.take(1) == [("DELETED", "b")]


async def test_watchers_share_events(world: World) -> None:
    since = world.registry.log.revision
    watches = [await world.watch("configmaps", f"resourceVersion={since}") for _ in range(3)]
    selected = await world.watch("configmaps", f"resourceVersion={since}&labelSelector=!x")
    await put(world, "a")
    events = [await watch.next() for watch in (*watches, selected)]
    assert all(event is events[0] for event in events)


async def test_other_namespaces_are_not_seen(world: World) -> None:
    await world.create("namespaces", {"metadata": {"name": "other"}})
    since = world.registry.log.revision
    here = await world.watch("configmaps", f"resourceVersion={since}")
    everywhere = await world.watch("configmaps", f"resourceVersion={since}", namespace="")
    labelled = await world.watch("configmaps", f"labelSelector=!on&resourceVersion={since}")
    named = await world.watch("configmaps", f"fieldSelector=metadata.name%3Da&resourceVersion={since}")
    for name in "xa":
        await world.create("configmaps", {"metadata": {"name": name}}, namespace="other")
    await put(world, "c")
    await put(world, "a")
    assert await here.take(2) == [("ADDED", "c"), ("ADDED", "a")]
    assert await labelled.take(2) == [("ADDED", "c"), ("ADDED", "a")]
    kind, entry = await named.next_change()
    assert (kind, entry.key) == ("ADDED", "/registry/configmaps/default/a")
    assert await everywhere.take(4) == [("ADDED", "x"), ("ADDED", "a"), ("ADDED", "c"), ("ADDED", "a")]


async def test_initial_events_end_with_a_bookmark(world: World) -> None:
    await put(world, "a")
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    watch = await world.watch("configmaps", query)
    assert await watch.take(1) == [("ADDED", "a")]
    end = await watch.next()
    assert (end.type, end.initial_end, end.revision) == ("BOOKMARK", True, world.registry.log.revision)


async def test_initial_events_are_of_a_state_that_is_not_older_than_asked_for(world: World) -> None:
    begin = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    await put(world, "a")
    late = await world.watch("configmaps", f"{begin}&resourceVersion={world.registry.log.revision + 1}")
    waiting = asyncio.ensure_future(late.take(2))
    await asyncio.sleep(0)
    await put(world, "b")
    assert await waiting == [("ADDED", "a"), ("ADDED", "b")]
    asked: list[int] = []

    async def consistent() -> None:
        asked.append(1)

    world.registry.consistent = consistent  # type: ignore[method-assign]
    for query, number in ((begin, 1), (f"{begin}&resourceVersion=1", 0), ("resourceVersion=1", 0)):
        asked.clear()
        assert await (await world.watch("configmaps", query)).take(1) == [("ADDED", "a")]
        assert len(asked) == number, query
    asked.clear()
    nothing = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    watch = await world.watch("configmaps", nothing)
    following = asyncio.ensure_future(watch.take(1))
    await asyncio.sleep(0)
    await put(world, "c")
    assert (await following, asked[:1]) == ([("ADDED", "c")], [1])


async def test_a_watch_from_the_past_waits_for_a_database_that_is_away_as_long_as_it_lasts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apiserver.registry.verbs.watch.RETRY_SECONDS", 0.01)
    await put(world, "a")
    cache = world.store("configmaps").cache
    reach_back, tried, most = cache.reach_back, 0, 3

    async def away(since: int) -> None:
        nonlocal tried
        tried += 1
        if tried <= most:
            raise StorageUnavailable("away")
        await reach_back(since)

    cache.reach_back = away  # type: ignore[method-assign]
    watch = await world.watch("configmaps", "resourceVersion=1&timeoutSeconds=60")
    assert await watch.take(1) == [("ADDED", "a")]
    assert tried == 4
    tried, most = 0, 99
    store = world.store("configmaps")
    ctx, options = store.context(user=ADMIN, version="v1", verb="watch"), ListOptions(resource_version="1", timeout=1)
    times = iter((100.0, 100.5, 100.98, 100.995))
    ((event,),) = [batch async for batch in open_watch(store, ctx, options, lambda: next(times))]
    assert event.status is not None
    assert (event.type, event.status["code"], tried) == ("ERROR", 503, 3), "as long as there is time for another try"
    tried = 0
    cache.close()
    ended = await world.watch("configmaps", "resourceVersion=1&timeoutSeconds=60")
    assert ((await ended.next()).type, tried) == ("ERROR", 1), "nothing follows any more"


async def test_bookmarks_come_when_nothing_else_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apiserver.registry.verbs.watch.BOOKMARK_SECONDS", 0.01)
    watch = await world.watch("configmaps", f"allowWatchBookmarks=true&resourceVersion={world.registry.log.revision}")
    assert (await watch.next()).type == "BOOKMARK"
    await world.create("leases", {"metadata": {"name": "l"}})
    revisions = {(await watch.next()).revision for _ in range(2)}
    assert world.registry.log.revision in revisions


async def test_without_periodic_bookmarks_the_last_event_is_one(world: World) -> None:
    """A client in the server's process continues from it: the history before may be gone by then."""
    store = world.store("configmaps")
    ctx, since = store.context(user=ADMIN, version="v1", verb="watch"), str(world.registry.log.revision)
    await world.create("leases", {"metadata": {"name": "l"}})
    for bookmarks, found in ((True, [("BOOKMARK", world.registry.log.revision)]), (False, [])):
        times = iter((100.0, 100.0, 129.99, 130.0))
        options = ListOptions(watch=True, resource_version=since, timeout=30, allow_bookmarks=bookmarks)
        events = open_watch(store, ctx, options, lambda times=times: next(times), math.inf)  # type: ignore[misc]
        assert [(event.type, event.revision) async for batch in events for event in batch] == found


async def test_a_watch_ends_in_time(world: World) -> None:
    store = world.store("configmaps")
    ctx = store.context(user=ADMIN, version="v1", verb="watch")
    times = iter((100.0, 129.9, 129.9999, 130.0))
    batches = open_watch(store, ctx, ListOptions(watch=True, resource_version="999", timeout=30), lambda: next(times))
    assert [batch async for batch in batches] == []
    assert list(times) == []


@pytest.mark.parametrize(("chance", "end"), [(0.0, 110.0), (1 - 1e-9, 120.0)])
async def test_a_watch_that_says_no_time_ends_after_the_servers_to_twice_that(
    world: World, monkeypatch: pytest.MonkeyPatch, chance: float, end: float
) -> None:
    monkeypatch.setattr(random, "random", lambda: chance)
    store = world.store("configmaps")
    store.registry.watch_seconds = 10.0
    ctx = store.context(user=ADMIN, version="v1", verb="watch")
    times = iter((100.0, end - 0.02, end))
    batches = open_watch(store, ctx, ListOptions(watch=True, resource_version="999"), lambda: next(times))
    assert [batch async for batch in batches] == []
    assert next(times, None) is None, "it lasted until then"


async def test_a_version_that_is_gone_is_an_error_event(world: World) -> None:
    await put(world, "a")
    for i in range(3):
        await world.merge("configmaps", "a", {"data": {"n": str(i)}})
    await world.forget_history("configmaps")
    watch = await world.watch("configmaps", "resourceVersion=1")
    status = await watch.next_error()
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


async def test_who_falls_behind_is_told_how_far_they_had_read(world: World) -> None:
    watch = await world.watch("configmaps", f"resourceVersion={world.registry.log.revision}")
    await put(world, "a")
    assert await watch.take(1) == [("ADDED", "a")]
    read = world.registry.log.revision
    for i in range(3):
        await world.merge("configmaps", "a", {"data": {"n": str(i)}})
    await world.forget_history("configmaps")
    assert (await watch.next_error())["message"].startswith(f"too old resource version: {read} (")


async def test_a_watch_without_a_timeout_lasts_half_an_hour_to_an_hour(world: World) -> None:
    watch = await world.watch("configmaps", f"resourceVersion={world.registry.log.revision}")
    with pytest.raises(StopAsyncIteration):
        await watch.next()
    assert 1800 <= asyncio.get_running_loop().time() <= 3600


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("resourceVersion=abc", 500, 'resourceVersion: Invalid value: "abc"'),
        ("labelSelector=,", 400, "found ','"),
        ("timeoutSeconds=abc", 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        (
            "sendInitialEvents=true&resourceVersion=5",
            422,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "resourceVersionMatch=NotOlderThan&resourceVersion=5",
            422,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
async def test_wrong_options_are_told_before_the_watch_opens(world: World, query: str, code: int, words: str) -> None:
    with pytest.raises(StatusError) as wrong:
        await world.watch("configmaps", query)
    assert wrong.value.code == code
    assert words in wrong.value.message
