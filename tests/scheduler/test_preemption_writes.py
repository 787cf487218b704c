"""What preemption writes: to the pods that have to go, and to those that waited for their node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.events import EventRecorder
from controllers.runtime.kinds import EVENTS, PODS
from controllers.scheduler.state.nodes import Nominator
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.evictions import Evictions
from tests.scheduler.test_failing_writes import fails, faults
from tests.scheduler.world import World
from tests.support.objects import make_node, make_pod

HELD = {"finalizers": ["example.com/held"]}


class Room:
    """A server with pods, and what makes room there."""

    def __init__(self, world: World) -> None:
        self.world, self.nominator = world, Nominator()
        self.recorder = EventRecorder(world.client, "test-scheduler", "here")
        self.evictions = Evictions(world.client, self.nominator, self.recorder)

    async def pod(self, name: str, priority: int = 0, waits_for: str = "", **metadata: Any) -> PodInfo:
        made = make_pod(name, schedulerName="test-scheduler")
        pod = await self.world.create(PODS, {**made, "metadata": {**made["metadata"], **metadata}})
        if waits_for:
            patch = {"status": {"nominatedNodeName": waits_for}}
            pod = await self.world.client.patch(PODS, name, patch, "ns", subresource="status")
        info = PodInfo({**pod, "spec": {**pod["spec"], "priority": priority}})
        if waits_for:
            self.nominator.add(info, waits_for)
        return info

    async def there(self, name: str) -> Json | None:
        try:
            return await self.world.pod(name)
        except StatusError:
            return None

    async def nominated(self, name: str) -> str | None:
        found = await self.there(name)
        return None if found is None else found["status"].get("nominatedNodeName")

    async def events(self) -> list[Json]:
        writing = asyncio.create_task(self.recorder.run())
        await asyncio.sleep(5)
        writing.cancel()
        return (await self.world.client.list(EVENTS, "ns"))["items"]  # type: ignore[no-any-return]


async def test_a_victim_is_marked_deleted_and_told_for_whom() -> None:
    async with World() as world:
        room = Room(world)
        victim, urgent = await room.pod("victim", **HELD), await room.pod("urgent", 10)
        await room.evictions.evict_for_pod(urgent, "n1", [victim])
        left = await room.there("victim")
        assert left is not None
        assert left["metadata"]["deletionTimestamp"]
        [condition] = [c for c in left["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert condition["status"] == "True"
        assert condition["reason"] == "PreemptionByScheduler"
        assert condition["message"] == "test-scheduler: preempting to accommodate a higher priority pod"
        [event] = await room.events()
        assert event["note"] == f"Preempted by pod {urgent.uid} on node n1"
        assert (event["type"], event["reason"], event["action"]) == ("Normal", "Preempted", "Preempting")
        assert event["regarding"]["name"] == "victim"
        assert event["related"]["name"] == "urgent"


async def test_a_group_ends_pods_wherever_they_are_and_says_so() -> None:
    async with World() as world:
        room = Room(world)
        victims = [await room.pod(name) for name in ("a", "b")]
        waiting = await room.pod("waiting", 0, "n1")
        group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
                 "metadata": {"name": "g", "namespace": "ns", "uid": "of-the-group"}}  # fmt: skip
        await room.evictions.evict_for_group(group, "test-scheduler", victims)
        assert [await room.there(name) for name in ("a", "b")] == [None, None]
        notes = [event["note"] for event in await room.events()]
        assert notes == ["Preempted by podgroup of-the-group on node cluster"] * 2
        assert await room.nominated(waiting.name) == "n1"


async def test_a_victim_that_is_going_already_is_left_alone() -> None:
    async with World() as world:
        room = Room(world)
        await room.pod("victim", **HELD)
        await world.client.delete(PODS, "victim", "ns")
        victim = PodInfo(await world.pod("victim"))
        await room.evictions.evict_for_pod(await room.pod("urgent", 10), "n1", [victim])
        left = await room.there("victim")
        assert left is not None
        assert not [c for c in left["status"].get("conditions", ()) if c["type"] == "DisruptionTarget"]
        assert await room.events() == []


@pytest.mark.parametrize("refusal", [None, ("patch", "pods/status", 409), ("delete", "pods", 409)])
async def test_a_victim_that_is_gone_meanwhile_counts_as_evicted(refusal: tuple[str, str, int] | None) -> None:
    """409 is the answer where another pod has its name."""

    async with World() as world:
        room = Room(world)
        victims = [await room.pod(name) for name in ("gone", "other")]
        urgent = await room.pod("urgent", 10)
        if refusal is None:
            await world.client.delete(PODS, "gone", "ns")
        else:
            faults(world, fails(*refusal, name="gone"))
        await room.evictions.evict_for_pod(urgent, "n1", victims)
        assert await room.there("other") is None
        assert [event["regarding"]["name"] for event in await room.events()] == ["other"]


async def code_of(write: Awaitable[None]) -> int | None:
    """With which status it failed."""
    try:
        await write
    except StatusError as error:
        return error.code
    return None


@pytest.mark.parametrize(("status", "code"), [(409, None), (429, 429), (500, 500)])
@pytest.mark.parametrize(("verb", "resource"), [("patch", "pods/status"), ("delete", "pods")])
async def test_an_eviction_fails_with_what_the_server_says(
    verb: str, resource: str, status: int, code: int | None
) -> None:
    async with World() as world:
        room = Room(world)
        faults(world, fails(verb, resource, status))
        assert await code_of(room.evictions.evict_for_pod(await room.pod("u", 9), "n1", [await room.pod("v")])) == code


async def test_who_waited_for_the_node_and_is_less_important_waits_no_more() -> None:
    async with World() as world:
        await world.add(make_node("n1"))
        room = Room(world)
        waiting = [("low", 1, "n1"), ("equal", 10, "n1"), ("high", 11, "n1"), ("elsewhere", 1, "n2")]
        for name, priority, node in waiting:
            await room.pod(name, priority, node)
        await room.evictions.evict_for_pod(await room.pod("urgent", 10), "n1", [])
        left = {name: await room.nominated(name) for name, _, _ in waiting}
        assert left == {"low": None, "equal": "n1", "high": "n1", "elsewhere": "n2"}
        known = {node: sorted(pod.name for pod in pods.values()) for node, pods in room.nominator.waiting.items()}
        assert known == {"n1": ["equal", "high"], "n2": ["elsewhere"]}


@pytest.mark.parametrize(("status", "code"), [(0, None), (409, None), (500, 500)])
async def test_who_waited_and_is_gone_meanwhile_does_not_matter(status: int, code: int | None) -> None:
    async with World() as world:
        room = Room(world)
        await room.pod("low", 1, "n1")
        if status:
            faults(world, fails("patch", "pods/status", status, name="low"))
        else:
            await world.client.delete(PODS, "low", "ns")
        assert await code_of(room.evictions.evict_for_pod(await room.pod("urgent", 10), "n1", [])) == code
        assert not room.nominator.waiting
