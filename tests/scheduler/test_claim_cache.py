"""The scheduler's claims: its own writes count before the watch shows them, and the watch has the last word."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError, conflict
from apiserver.api.objects import Json
from controllers.allocator import AllocatedState
from controllers.runtime.client import Client
from controllers.runtime.kinds import PODS, RESOURCE_CLAIMS
from controllers.scheduler.dra.claims import ClaimCache
from tests.scheduler.world import World, scheduled
from tests.support.objects import make_claim, make_device_class, make_node, make_pod, make_slice
from tests.support.virtual import passes

DEVICE = ("gpu.example.com", "n", "gpu-0")


def version(claim: Json, number: int, allocated: bool = False, **metadata: Any) -> Json:
    result = {"request": "r", **dict(zip(("driver", "pool", "device"), DEVICE, strict=True))}
    status = {"allocation": {"devices": {"results": [result]}}} if allocated else {}
    return {**claim, "metadata": {**claim["metadata"], "resourceVersion": str(number), **metadata}, "status": status}


class Known:
    """A cache and what it told."""

    def __init__(self) -> None:
        self.allocated = AllocatedState()
        self.cache = ClaimCache(self.allocated)
        self.told: list[tuple[str | None, str | None]] = []
        self.cache.on_change(lambda *claims: self.told.append(tuple(map(self._version, claims))))  # type: ignore[arg-type]

    @staticmethod
    def _version(claim: Json | None) -> str | None:
        return claim["metadata"]["resourceVersion"] if claim else None

    @property
    def shown(self) -> str | None:
        return self._version(self.cache.get("ns/c"))


def test_members_of_a_group_share_what_was_allocated_while_the_group_was_placed() -> None:
    cache, before, within = Known().cache, make_claim("c"), make_claim("d")
    allocation = version(before, 5, allocated=True)["status"]["allocation"]
    cache.allocate(before, allocation)
    assert cache.shared_allocation(before) is None
    cache.begin_group()
    cache.allocate(within, allocation)
    assert (cache.shared_allocation(before), cache.shared_allocation(within)) == (None, allocation)
    cache.confirm(within)
    assert cache.shared_allocation(within) is None
    cache.end_group()
    assert cache.shared_allocation(within) is None


def test_a_write_counts_at_once_and_what_the_watch_says_of_older_versions_does_not() -> None:
    known, claim = Known(), make_claim("c")
    known.cache.added(version(claim, 5))
    known.cache.record_write(version(claim, 8, allocated=True))
    assert known.shown == "8"
    assert known.allocated.is_used(DEVICE)
    known.cache.updated({}, version(claim, 6))
    assert known.shown == "8"
    assert known.allocated.is_used(DEVICE)
    known.cache.updated({}, version(claim, 8, allocated=True))
    known.cache.updated({}, version(claim, 9))
    assert known.shown == "9"
    assert not known.allocated.is_used(DEVICE)
    assert known.told == [(None, "5"), ("5", "8"), ("8", "9")]


def test_an_answer_that_the_watch_has_overtaken_or_that_is_of_another_claim_changes_nothing() -> None:
    known, claim = Known(), make_claim("c")
    known.cache.record_write(version(claim, 4))
    assert known.shown is None
    known.cache.added(version(claim, 5))
    for late in (version(claim, 5, allocated=True), version(claim, 4), version(claim, 9, uid="other")):
        known.cache.record_write(late)
    assert known.shown == "5"
    assert known.told == [(None, "5")]


def test_a_claim_that_was_made_anew_replaces_what_was_written_to_the_old_one() -> None:
    known, claim = Known(), make_claim("c")
    known.cache.added(version(claim, 5))
    known.cache.record_write(version(claim, 20, allocated=True))
    known.cache.updated({}, version(claim, 9, uid="new"))
    assert known.shown == "9"


def test_a_deleted_claim_gives_back_its_devices() -> None:
    known, claim = Known(), make_claim("c")
    known.cache.added(version(claim, 5))
    known.cache.record_write(version(claim, 8, allocated=True))
    known.cache.deleted(version(claim, 9, allocated=True))
    assert known.shown is None
    assert not known.allocated.is_used(DEVICE)
    assert known.told[-1] == ("8", None)


async def test_one_can_wait_until_the_watch_shows_a_claim_but_not_for_ever() -> None:
    known, claim = Known(), make_claim("c")
    waiting = asyncio.ensure_future(known.cache.wait_observed(claim, timedelta(seconds=5)))
    await passes(4)
    assert not waiting.done()
    known.cache.added(claim)
    await passes()
    assert waiting.done()
    await known.cache.wait_observed(claim, timedelta(seconds=5))
    other = asyncio.ensure_future(known.cache.wait_observed(make_claim("d"), timedelta(seconds=5)))
    await passes(5)
    assert other.done()


# On a server that answers with conflicts


async def with_a_device(world: World) -> None:
    await world.add(make_device_class(), make_node("n"), make_slice("n", 1), make_claim("c"))


def refuses(monkeypatch: pytest.MonkeyPatch, method: str, times: int) -> list[str]:
    """The first writes of claims by a method are refused as conflicts; gives what was asked."""
    asked: list[str] = []
    real = getattr(Client, method)

    async def write(self: Client, kind: Any, obj: Json, *rest: Any, **more: Any) -> Json:
        if kind.plural == RESOURCE_CLAIMS.plural:
            asked.append(obj["metadata"]["name"])
            if len(asked) <= times:
                raise conflict("resourceclaims", "resource.k8s.io", "c", "try again")
        answer: Json = await real(self, kind, obj, *rest, **more)
        return answer

    monkeypatch.setattr(Client, method, write)
    return asked


@pytest.mark.parametrize("method", ["update", "update_status"])
async def test_a_conflict_is_tried_again_with_the_newest_claim(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with World("scheduler") as world:
        await with_a_device(world)
        asked = refuses(monkeypatch, method, 1)
        await world.add(make_pod("p", claims={"g": "c"}))
        await world.bound("p")
        claim = await world.claim("c")
        assert claim["status"]["reservedFor"][0]["name"] == "p"
        assert len(asked) > 1


async def test_too_many_conflicts_fail_the_attempt_and_the_device_is_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with World("scheduler") as world:
        await with_a_device(world)
        refuses(monkeypatch, "update_status", 1000)
        await world.add(make_pod("p", claims={"g": "c"}))
        pod = await world.until(PODS, "ns/p", lambda obj: scheduled(obj).get("reason") == "SchedulerError")
        assert scheduled(pod)["message"].startswith(
            'running PreBind plugin "DynamicResources": add allocation and reservation to claim ns/c: '
        )
        monkeypatch.undo()
        await world.bound("p")


async def test_a_claim_that_somebody_else_allocated_meanwhile_fails_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with World("scheduler") as world:
        await with_a_device(world)
        real = Client.update_status
        taken = False

        async def write(self: Client, kind: Any, obj: Json, *rest: Any, **more: Any) -> Json:
            nonlocal taken
            if kind.plural == RESOURCE_CLAIMS.plural and not taken:
                taken = True
                await real(self, kind, {**obj, "status": {**obj["status"], "reservedFor": []}})
                raise StatusError(409, "Conflict", "somebody was first")
            answer: Json = await real(self, kind, obj, *rest, **more)
            return answer

        monkeypatch.setattr(Client, "update_status", write)
        await world.add(make_pod("p", claims={"g": "c"}))
        pod = await world.until(PODS, "ns/p", lambda obj: scheduled(obj).get("reason") == "SchedulerError")
        assert "claim ns/c got allocated elsewhere in the meantime" in scheduled(pod)["message"]
        await world.bound("p")
