"""The cache of claims: own writes count before the watch delivers them, and the watch has the last word."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.allocator import AllocatedState
from controllers.scheduler.dra.claims import ClaimCache
from tests.support.objects import make_claim
from tests.support.virtual import passes

DEVICE = ("gpu.example.com", "n", "gpu-0")


def version(claim: Json, number: int, allocated: bool = False, **metadata: Any) -> Json:
    result = {"request": "r", **dict(zip(("driver", "pool", "device"), DEVICE, strict=True))}
    status = {"allocation": {"devices": {"results": [result]}}} if allocated else {}
    return {**claim, "metadata": {**claim["metadata"], "resourceVersion": str(number), **metadata}, "status": status}


class RecordedCache(ClaimCache):
    """A cache whose changes are recorded as pairs of versions."""

    def __init__(self) -> None:
        self.allocated = AllocatedState()
        super().__init__(self.allocated)
        self.changes: list[tuple[str | None, str | None]] = []
        self.on_change(lambda old, new: self.changes.append((self._version(old), self._version(new))))

    @staticmethod
    def _version(claim: Json | None) -> str | None:
        return claim["metadata"]["resourceVersion"] if claim else None

    @property
    def latest(self) -> str | None:
        return self._version(self.get("ns/c"))

    @property
    def is_device_used(self) -> bool:
        return self.allocated.is_used(DEVICE)


@pytest.fixture
def cache() -> RecordedCache:
    return RecordedCache()


def test_members_of_a_group_share_what_its_placement_allocated(cache: RecordedCache) -> None:
    before, within = make_claim("c"), make_claim("d")
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


def test_a_write_counts_immediately_and_older_versions_of_the_watch_do_not(cache: RecordedCache) -> None:
    claim = make_claim("c")
    cache.added(version(claim, 5))
    cache.record_write(version(claim, 8, allocated=True))
    assert cache.latest == "8"
    assert cache.is_device_used
    cache.updated({}, version(claim, 6))
    assert cache.latest == "8"
    assert cache.is_device_used
    cache.updated({}, version(claim, 8, allocated=True))
    cache.updated({}, version(claim, 9))
    assert cache.latest == "9"
    assert not cache.is_device_used
    assert cache.changes == [(None, "5"), ("5", "8"), ("8", "9")]


def test_a_response_older_than_the_watch_or_of_another_claim_changes_nothing(cache: RecordedCache) -> None:
    claim = make_claim("c")
    cache.record_write(version(claim, 4))
    assert cache.latest is None
    cache.added(version(claim, 5))
    for late in (version(claim, 5, allocated=True), version(claim, 4), version(claim, 9, uid="other")):
        cache.record_write(late)
    assert cache.latest == "5"
    assert cache.changes == [(None, "5")]


def test_a_recreated_claim_replaces_the_writes_to_the_old_one(cache: RecordedCache) -> None:
    claim = make_claim("c")
    cache.added(version(claim, 5))
    cache.record_write(version(claim, 20, allocated=True))
    cache.updated({}, version(claim, 9, uid="new"))
    assert cache.latest == "9"


def test_a_deleted_claim_frees_its_devices(cache: RecordedCache) -> None:
    claim = make_claim("c")
    cache.added(version(claim, 5))
    cache.record_write(version(claim, 8, allocated=True))
    cache.deleted(version(claim, 9, allocated=True))
    assert cache.latest is None
    assert not cache.is_device_used
    assert cache.changes[-1] == ("8", None)


async def test_waiting_for_the_watch_to_deliver_a_claim_ends_at_the_timeout(cache: RecordedCache) -> None:
    claim = make_claim("c")
    waiting = asyncio.ensure_future(cache.wait_observed(claim, timedelta(seconds=5)))
    await passes(4)
    assert not waiting.done()
    cache.added(claim)
    await passes()
    assert waiting.done()
    await cache.wait_observed(claim, timedelta(seconds=5))
    other = asyncio.ensure_future(cache.wait_observed(make_claim("d"), timedelta(seconds=5)))
    await passes(5)
    assert other.done()
