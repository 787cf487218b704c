"""Events reach the server, once each, with repetitions counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from apiserver.api.objects import Json
from controllers.runtime.events import CoreEventRecorder, EventRecorder
from controllers.runtime.kinds import CORE_EVENTS, EVENTS, NAMESPACES, PODS, Kind
from tests.scheduler.world import World
from tests.support.objects import make_pod

pytestmark = pytest.mark.integration


async def events(world: World, kind: Kind, wanted: Callable[[list[Json]], bool]) -> list[Json]:
    """Return the events of the namespace once they meet the condition."""
    found: dict[str, Json] = {}
    async with asyncio.timeout(10):
        async for batch in world.client.watch(kind, "ns", initial_events=True):
            found |= {e.object["metadata"]["name"]: e.object for e in batch if e.type in ("ADDED", "MODIFIED")}
            if wanted(list(found.values())):
                break
    return list(found.values())


async def test_an_event_that_repeats_becomes_a_series_of_one_object() -> None:
    async with World() as world:
        pod = await world.create(PODS, make_pod("p"))
        recorder = EventRecorder(world.client, "comp", "host")
        running = asyncio.create_task(recorder.run())
        recorder.record(pod, "Warning", "R", "A", "note")
        [event] = await events(world, EVENTS, lambda found: len(found) == 1)
        assert event["reportingInstance"] == "comp-host"
        assert event["note"] == "note"
        assert "series" not in event
        recorder.record(pod, "Warning", "R", "A", "another note does not make another event")
        [event] = await events(world, EVENTS, lambda found: bool(found) and "series" in found[0])
        assert event["series"]["count"] == 2
        assert event["note"] == "note"
        recorder.record(pod, "Warning", "other reason", "A", "note")
        assert len(await events(world, EVENTS, lambda found: len(found) == 2)) == 2
        running.cancel()


async def test_the_same_core_event_counts_up() -> None:
    async with World() as world:
        pod = await world.create(PODS, make_pod("p"))
        recorder = CoreEventRecorder(world.client, "comp")
        running = asyncio.create_task(recorder.run())
        recorder.record(pod, "Normal", "R", "message")
        [event] = await events(world, CORE_EVENTS, lambda found: len(found) == 1)
        assert (event["count"], event["source"], event["reportingComponent"]) == (1, {"component": "comp"}, "comp")
        assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
        recorder.record(pod, "Normal", "R", "message")
        [event] = await events(world, CORE_EVENTS, lambda found: bool(found) and found[0]["count"] == 2)
        running.cancel()


async def test_an_event_about_a_cluster_scoped_object_goes_to_the_namespace_default() -> None:
    async with World() as world:
        namespace = await world.client.get(NAMESPACES, "ns")
        recorder = EventRecorder(world.client, "comp", "host")
        running = asyncio.create_task(recorder.run())
        recorder.record(namespace, "Normal", "R", "A", "note")
        async with asyncio.timeout(10):
            async for batch in world.client.watch(EVENTS, "default", initial_events=True):
                if any(event.type == "ADDED" for event in batch):
                    break
        running.cancel()
