"""What objects of a kind share: taken before an object is written, given back where it is not, released with it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
import pytest

from apiserver.admission.plugins.registered import build
from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.registry.catalog.catalog import Catalog
from apiserver.registry.store.store import Registry
from apiserver.storage import open_log
from apiserver.storage.watchcache.watchcache import WatchCache
from tests.registry.conftest import CATALOG, Clock, World

LEASE = {"metadata": {"name": "l"}}


class Numbers:
    """Gives each object a number, and notes what becomes of it."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self._next = itertools.count(1)

    async def reserve(self, ctx: Any, obj: Json, old: Json | None) -> Any:
        if old is None:
            obj["spec"] = {**(obj.get("spec") or {}), "leaseTransitions": next(self._next)}
        self.noted.append("taken" if old is None else "kept")
        return self

    async def finish(self, *, stored: bool) -> None:
        self.noted.append("stored" if stored else "given back")

    async def release(self, ctx: Any, obj: Json) -> None:
        self.noted.append(f"released {obj['metadata']['name']}")

    def said(self) -> list[str]:
        noted, self.noted = self.noted, []
        return noted


@asynccontextmanager
async def world_with(numbers: Numbers) -> AsyncIterator[World]:
    log = await open_log("memory:", poll_interval=30.0)
    cache = WatchCache(log, orjson.loads)
    clock = Clock()
    admission = partial(build, disable=("ServiceAccount",))
    registry = Registry(log, cache, admission=admission, features=Features(), clock=clock)
    Catalog(registry, reservations={("coordination.k8s.io", "leases"): numbers}).open(CATALOG)
    await cache.start()
    try:
        world = World(registry, clock)
        await world.create("namespaces", {"metadata": {"name": "default"}})
        yield world
    finally:
        cache.close()
        await log.close()


def played(scenario: Callable[[World, Numbers], Any]) -> None:
    async def run() -> None:
        numbers = Numbers()
        async with world_with(numbers) as world:
            await scenario(world, numbers)

    asyncio.run(run())


def test_what_is_made_takes_its_part_and_what_is_refused_gives_it_back() -> None:
    async def scenario(world: World, numbers: Numbers) -> None:
        made = await world.create("leases", LEASE)
        assert (made["spec"]["leaseTransitions"], numbers.said()) == (1, ["taken", "stored"])
        for wrong in (LEASE, {"metadata": {"name": "Bad!"}}):
            with pytest.raises(StatusError):
                await world.create("leases", wrong)
            assert numbers.said() == ["taken", "given back"]

    played(scenario)


def test_a_put_that_makes_an_object_takes_its_part_too() -> None:
    async def scenario(world: World, numbers: Numbers) -> None:
        made = await world.update("leases", "l", LEASE)
        assert (made["spec"]["leaseTransitions"], numbers.said()) == (1, ["taken", "stored"])
        with pytest.raises(StatusError):
            await world.update("leases", "m", {"metadata": {"name": "m", "labels": {"-": "x"}}})
        assert numbers.said() == ["taken", "given back"]

    played(scenario)


def test_a_change_keeps_its_part_whether_it_is_stored_or_not() -> None:
    async def scenario(world: World, numbers: Numbers) -> None:
        await world.create("leases", LEASE)
        numbers.said()
        await world.merge("leases", "l", {"spec": {"holderIdentity": "me"}})
        assert numbers.said() == ["kept", "stored"]
        with pytest.raises(StatusError):
            await world.merge("leases", "l", {"metadata": {"labels": {"-": "x"}}})
        assert numbers.said() == ["kept", "given back"]

    played(scenario)


def test_what_an_object_had_is_released_when_it_is_gone_and_not_before() -> None:
    held = {"metadata": {"name": "h", "finalizers": ["example.com/f"]}}

    async def scenario(world: World, numbers: Numbers) -> None:
        await world.create("leases", LEASE)
        await world.create("leases", held)
        numbers.said()
        await world.delete("leases", "l", query="dryRun=All")
        assert numbers.said() == []
        await world.delete("leases", "l")
        assert numbers.said() == ["released l"]
        await world.delete("leases", "h")
        assert numbers.said() == []
        free = {"metadata": {"finalizers": None}}
        await world.merge("leases", "h", free, "dryRun=All")
        assert numbers.said()[:1] == ["kept"]
        await world.merge("leases", "h", {"metadata": {"labels": {"a": "b"}}})
        assert "released h" not in numbers.said()
        await world.merge("leases", "h", free)
        assert "released h" in numbers.said()

    played(scenario)
