"""Watches: where they start, what they see, how they end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.registry.definition.options import ListOptions
from apiserver.registry.verbs.watch import open_watch
from apiserver.request.messages import User
from apiserver.storage.log.types import StorageUnavailable

ADMIN = User("admin")

Play = Callable[[Callable[[Any], Coroutine[Any, Any, None]]], None]


async def put(world: Any, name: str, **labels: str) -> None:
    await world.create("configmaps", {"metadata": {"name": name, "labels": labels}})


def test_a_watch_without_version_starts_with_what_there_is_in_key_order(play: Play) -> None:
    async def scenario(world: Any) -> None:
        await put(world, "b")
        await put(world, "a")
        watch = await world.watch("configmaps")
        assert await watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        await put(world, "c")
        await world.merge("configmaps", "a", {"data": {"x": "1"}})
        await world.delete("configmaps", "b")
        assert await watch.take(3) == [("ADDED", "c"), ("MODIFIED", "a"), ("DELETED", "b")]

    play(scenario)


def test_a_watch_from_a_version_sees_what_followed_it(play: Play) -> None:
    async def scenario(world: Any) -> None:
        await put(world, "a")
        since = world.registry.log.revision
        await put(world, "b")
        watch = await world.watch("configmaps", f"resourceVersion={since}")
        assert await watch.take(1) == [("ADDED", "b")]

    play(scenario)


def test_a_selection_turns_changes_into_what_they_mean_for_it(play: Play) -> None:
    async def scenario(world: Any) -> None:
        await put(world, "a", on="1")
        await put(world, "b")
        watch = await world.watch("configmaps", f"labelSelector=on%3D1&resourceVersion={world.registry.log.revision}")
        await world.merge("configmaps", "b", {"metadata": {"labels": {"on": "1"}}})
        await world.merge("configmaps", "a", {"data": {"x": "1"}})
        left = await world.merge("configmaps", "a", {"metadata": {"labels": {"on": None}}})
        await world.merge("configmaps", "a", {"data": {"x": "2"}})
        await world.delete("configmaps", "b")
        assert await watch.take(2) == [("ADDED", "b"), ("MODIFIED", "a")]
        event = await watch.next()
        assert event.type == "DELETED"
        assert event.entry.obj["metadata"]["labels"] == {"on": "1"}
        assert event.entry.obj["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        assert await watch.take(1) == [("DELETED", "b")]

    play(scenario)


def test_watchers_share_events(play: Play) -> None:
    async def scenario(world: Any) -> None:
        since = world.registry.log.revision
        watches = [await world.watch("configmaps", f"resourceVersion={since}") for _ in range(3)]
        selected = await world.watch("configmaps", f"resourceVersion={since}&labelSelector=!x")
        await put(world, "a")
        events = [await watch.next() for watch in (*watches, selected)]
        assert all(event is events[0] for event in events)

    play(scenario)


def test_other_namespaces_are_not_seen(play: Play) -> None:
    async def scenario(world: Any) -> None:
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
        event = await named.next()
        assert (event.entry.key, event.type) == ("/registry/configmaps/default/a", "ADDED")
        assert await everywhere.take(4) == [("ADDED", "x"), ("ADDED", "a"), ("ADDED", "c"), ("ADDED", "a")]

    play(scenario)


def test_initial_events_end_with_a_bookmark(play: Play) -> None:
    async def scenario(world: Any) -> None:
        await put(world, "a")
        query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        watch = await world.watch("configmaps", query)
        assert await watch.take(1) == [("ADDED", "a")]
        end = await watch.next()
        assert (end.type, end.initial_end, end.revision) == ("BOOKMARK", True, world.registry.log.revision)

    play(scenario)


def test_initial_events_are_of_a_state_that_is_not_older_than_asked_for(play: Play) -> None:
    begin = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"

    async def scenario(world: Any) -> None:
        await put(world, "a")
        late = await world.watch("configmaps", f"{begin}&resourceVersion={world.registry.log.revision + 1}")
        waiting = asyncio.ensure_future(late.take(2))
        await asyncio.sleep(0)
        await put(world, "b")
        assert await waiting == [("ADDED", "a"), ("ADDED", "b")]
        asked: list[int] = []

        async def consistent() -> None:
            asked.append(1)

        world.registry.consistent = consistent
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

    play(scenario)


def test_a_watch_from_the_past_waits_for_a_database_that_is_away_as_long_as_it_lasts(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apiserver.registry.verbs.watch.RETRY_SECONDS", 0.01)

    async def scenario(world: Any) -> None:
        await put(world, "a")
        cache = world.store("configmaps").cache
        reach_back, tried, most = cache.reach_back, 0, 3

        async def away(since: int) -> None:
            nonlocal tried
            tried += 1
            if tried <= most:
                raise StorageUnavailable("away")
            await reach_back(since)

        cache.reach_back = away
        watch = await world.watch("configmaps", "resourceVersion=1&timeoutSeconds=60")
        assert await watch.take(1) == [("ADDED", "a")]
        assert tried == 4
        tried, most = 0, 99
        store = world.store("configmaps")
        ctx, options = (
            store.context(user=ADMIN, version="v1", verb="watch"),
            ListOptions(resource_version="1", timeout=1),
        )
        times = iter((100.0, 100.5, 100.98, 100.995))
        ((event,),) = [batch async for batch in open_watch(store, ctx, options, lambda: next(times))]
        assert (event.type, event.status["code"], tried) == ("ERROR", 503, 3), (
            "as long as there is time for another try"
        )
        tried = 0
        cache.close()
        ended = await world.watch("configmaps", "resourceVersion=1&timeoutSeconds=60")
        assert ((await ended.next()).type, tried) == ("ERROR", 1), "nothing follows any more"

    play(scenario)


def test_bookmarks_come_when_nothing_else_does(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apiserver.registry.verbs.watch.BOOKMARK_SECONDS", 0.01)

    async def scenario(world: Any) -> None:
        watch = await world.watch(
            "configmaps", f"allowWatchBookmarks=true&resourceVersion={world.registry.log.revision}"
        )
        assert (await watch.next()).type == "BOOKMARK"
        await world.create("leases", {"metadata": {"name": "l"}})
        revisions = {(await watch.next()).revision for _ in range(2)}
        assert world.registry.log.revision in revisions

    play(scenario)


def test_a_watch_ends_in_time(play: Play) -> None:
    async def scenario(world: Any) -> None:
        store = world.store("configmaps")
        ctx = store.context(user=ADMIN, version="v1", verb="watch")
        times = iter((100.0, 129.9, 129.9999, 130.0))
        batches = open_watch(
            store, ctx, ListOptions(watch=True, resource_version="999", timeout=30), lambda: next(times)
        )
        assert [batch async for batch in batches] == []
        assert list(times) == []

    play(scenario)


@pytest.mark.parametrize(("chance", "end"), [(0.0, 110.0), (1 - 1e-9, 120.0)])
def test_a_watch_that_says_no_time_ends_after_the_servers_to_twice_that(
    play: Play, monkeypatch: pytest.MonkeyPatch, chance: float, end: float
) -> None:
    monkeypatch.setattr(random, "random", lambda: chance)

    async def scenario(world: Any) -> None:
        store = world.store("configmaps")
        store.registry.watch_seconds = 10.0
        ctx = store.context(user=ADMIN, version="v1", verb="watch")
        times = iter((100.0, end - 0.02, end))
        batches = open_watch(store, ctx, ListOptions(watch=True, resource_version="999"), lambda: next(times))
        assert [batch async for batch in batches] == []
        assert next(times, None) is None, "it lasted until then"

    play(scenario)


def test_a_version_that_is_gone_is_an_error_event(play: Play) -> None:
    async def scenario(world: Any) -> None:
        await put(world, "a")
        for i in range(3):
            await world.merge("configmaps", "a", {"data": {"n": str(i)}})
        await world.forget_history("configmaps")
        watch = await world.watch("configmaps", "resourceVersion=1")
        event = await watch.next()
        assert event.type == "ERROR"
        assert (event.status["code"], event.status["reason"]) == (410, "Expired")
        assert event.status["message"].startswith("too old resource version: 1 (")

    play(scenario)


def test_who_falls_behind_is_told_how_far_they_had_read(play: Play) -> None:
    async def scenario(world: Any) -> None:
        watch = await world.watch("configmaps", f"resourceVersion={world.registry.log.revision}")
        await put(world, "a")
        assert await watch.take(1) == [("ADDED", "a")]
        read = world.registry.log.revision
        for i in range(3):
            await world.merge("configmaps", "a", {"data": {"n": str(i)}})
        await world.forget_history("configmaps")
        assert (await watch.next()).status["message"].startswith(f"too old resource version: {read} (")

    play(scenario)


async def test_a_watch_that_says_nothing_about_time_lasts_half_an_hour_to_an_hour(
    new_world: Callable[..., AbstractAsyncContextManager[Any]],
) -> None:
    async with new_world("memory:") as world:
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
def test_wrong_options_are_told_before_the_watch_opens(play: Play, query: str, code: int, words: str) -> None:
    async def scenario(world: Any) -> None:
        with pytest.raises(StatusError) as wrong:
            await world.watch("configmaps", query)
        assert wrong.value.code == code
        assert words in wrong.value.message

    play(scenario)
