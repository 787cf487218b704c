"""Writes of preemption: to the victims and to pods that were nominated for the node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Self

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
from tests.support.objects import make_node, make_pod, make_pod_group

pytestmark = pytest.mark.integration

HELD: Json = {"finalizers": ["example.com/held"]}


class EvictingWorld(World):
    """A server with the evictions of a scheduler."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.nominator = Nominator()
        self.recorder = EventRecorder(self.client, "test-scheduler", "here")
        self.evictions = Evictions(self.client, self.nominator, self.recorder)
        return self

    async def add_pod(self, name: str, priority: int = 0, nominated: str = "", **fields: Any) -> PodInfo:
        pod = await self.add(make_pod(name, schedulerName="test-scheduler", **fields))
        if nominated:
            patch = {"status": {"nominatedNodeName": nominated}}
            pod = await self.client.patch(PODS, name, patch, "ns", subresource="status")
        info = PodInfo({**pod, "spec": {**pod["spec"], "priority": priority}})
        if nominated:
            self.nominator.add(info, nominated)
        return info

    async def names(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in await self.items(PODS))

    async def nominations(self) -> dict[str, str | None]:
        pods = await self.items(PODS)
        return {pod["metadata"]["name"]: pod["status"].get("nominatedNodeName") for pod in pods}

    async def events(self) -> list[Json]:
        writing = asyncio.create_task(self.recorder.run())
        await asyncio.sleep(5)
        writing.cancel()
        return await self.items(EVENTS)


async def test_a_victim_gets_a_condition_an_event_and_is_deleted() -> None:
    async with EvictingWorld() as world:
        victim, urgent = await world.add_pod("victim", **HELD), await world.add_pod("urgent", 10)
        await world.evictions.evict_for_pod(urgent, "n1", [victim])
        left = await world.pod("victim")
        assert left["metadata"]["deletionTimestamp"]
        [condition] = [c for c in left["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == "test-scheduler: preempting to accommodate a higher priority pod"
        [event] = await world.events()
        assert event["note"] == f"Preempted by pod {urgent.uid} on node n1"
        assert (event["type"], event["reason"], event["action"]) == ("Normal", "Preempted", "Preempting")
        assert event["regarding"]["name"] == "victim"
        assert event["related"]["name"] == "urgent"


async def test_a_group_evicts_pods_of_any_node() -> None:
    async with EvictingWorld() as world:
        victims = [await world.add_pod(name) for name in ("a", "b")]
        await world.add_pod("waiting", 0, "n1")
        await world.evictions.evict_for_group(make_pod_group(), "test-scheduler", victims)
        notes = [event["note"] for event in await world.events()]
        assert notes == ["Preempted by podgroup uid-g on node cluster"] * 2
        assert await world.nominations() == {"waiting": "n1"}


async def test_a_terminating_victim_is_not_written() -> None:
    async with EvictingWorld() as world:
        await world.add_pod("victim", **HELD)
        await world.client.delete(PODS, "victim", "ns")
        victim = PodInfo(await world.pod("victim"))
        await world.evictions.evict_for_pod(await world.add_pod("urgent", 10), "n1", [victim])
        conditions = (await world.pod("victim"))["status"].get("conditions", ())
        assert not [c for c in conditions if c["type"] == "DisruptionTarget"]
        assert await world.events() == []


@pytest.mark.parametrize("refusal", [None, ("patch", "pods/status", 409), ("delete", "pods", 409)])
async def test_a_victim_that_was_deleted_meanwhile_counts_as_evicted(refusal: tuple[str, str, int] | None) -> None:
    """The server answers 409 where another pod has the name."""
    async with EvictingWorld() as world:
        victims = [await world.add_pod(name) for name in ("gone", "other")]
        urgent = await world.add_pod("urgent", 10)
        if refusal is None:
            await world.client.delete(PODS, "gone", "ns")
        else:
            faults(world, fails(*refusal, name="gone"))
        await world.evictions.evict_for_pod(urgent, "n1", victims)
        assert "other" not in await world.names()
        assert [event["regarding"]["name"] for event in await world.events()] == ["other"]


async def code_of(write: Awaitable[None]) -> int | None:
    """Return the status code with which the write failed."""
    try:
        await write
    except StatusError as error:
        return error.code
    return None


@pytest.mark.parametrize(("status", "code"), [(409, None), (429, 429), (500, 500)])
@pytest.mark.parametrize(("verb", "resource"), [("patch", "pods/status"), ("delete", "pods")])
async def test_an_eviction_fails_with_the_error_of_the_server(
    verb: str, resource: str, status: int, code: int | None
) -> None:
    async with EvictingWorld() as world:
        faults(world, fails(verb, resource, status))
        assert (
            await code_of(world.evictions.evict_for_pod(await world.add_pod("u", 9), "n1", [await world.add_pod("v")]))
            == code
        )


async def test_pods_of_lower_priority_lose_their_nomination_for_the_node() -> None:
    async with EvictingWorld() as world:
        await world.add(make_node("n1"))
        waiting = [("low", 1, "n1"), ("equal", 10, "n1"), ("high", 11, "n1"), ("elsewhere", 1, "n2")]
        for name, priority, node in waiting:
            await world.add_pod(name, priority, node)
        await world.evictions.evict_for_pod(await world.add_pod("urgent", 10), "n1", [])
        expected = {"urgent": None, "low": None, "equal": "n1", "high": "n1", "elsewhere": "n2"}
        assert await world.nominations() == expected
        nominated = {node: sorted(pod.name for pod in pods.values()) for node, pods in world.nominator.waiting.items()}
        assert nominated == {"n1": ["equal", "high"], "n2": ["elsewhere"]}


@pytest.mark.parametrize(("status", "code"), [(0, None), (409, None), (500, 500)])
async def test_a_nominated_pod_that_was_deleted_meanwhile_is_no_error(status: int, code: int | None) -> None:
    async with EvictingWorld() as world:
        await world.add_pod("low", 1, "n1")
        if status:
            faults(world, fails("patch", "pods/status", status, name="low"))
        else:
            await world.client.delete(PODS, "low", "ns")
        assert await code_of(world.evictions.evict_for_pod(await world.add_pod("urgent", 10), "n1", [])) == code
        assert not world.nominator.waiting
