"""Reservations: taken before a write, given back if it fails, released with the object."""

from __future__ import annotations

import itertools
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from tests.registry.conftest import World, open_world

LEASE = {"metadata": {"name": "l"}}


class Numbers:
    """A reservation: gives each object a number and records the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._next = itertools.count(1)

    async def reserve(self, ctx: Any, obj: Json, old: Json | None) -> Any:
        if old is None:
            obj["spec"] = {**(obj.get("spec") or {}), "leaseTransitions": next(self._next)}
        self.calls.append("taken" if old is None else "kept")
        return self

    async def finish(self, *, stored: bool) -> None:
        self.calls.append("stored" if stored else "given back")

    async def release(self, ctx: Any, obj: Json) -> None:
        self.calls.append(f"released {obj['metadata']['name']}")

    def take_calls(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def numbers() -> Numbers:
    return Numbers()


@pytest.fixture
def world(numbers: Numbers) -> AbstractAsyncContextManager[World]:
    return open_world(reservations={("coordination.k8s.io", "leases"): numbers})


async def test_what_is_made_takes_its_part_and_what_is_refused_gives_it_back(world: World, numbers: Numbers) -> None:
    made = await world.create("leases", LEASE)
    assert (made["spec"]["leaseTransitions"], numbers.take_calls()) == (1, ["taken", "stored"])
    for wrong in (LEASE, {"metadata": {"name": "Bad!"}}):
        with pytest.raises(StatusError):
            await world.create("leases", wrong)
        assert numbers.take_calls() == ["taken", "given back"]


async def test_a_put_that_makes_an_object_takes_its_part_too(world: World, numbers: Numbers) -> None:
    made = await world.update("leases", "l", LEASE)
    assert (made["spec"]["leaseTransitions"], numbers.take_calls()) == (1, ["taken", "stored"])
    with pytest.raises(StatusError):
        await world.update("leases", "m", {"metadata": {"name": "m", "labels": {"-": "x"}}})
    assert numbers.take_calls() == ["taken", "given back"]


async def test_a_change_keeps_its_part_whether_it_is_stored_or_not(world: World, numbers: Numbers) -> None:
    await world.create("leases", LEASE)
    numbers.take_calls()
    await world.merge("leases", "l", {"spec": {"holderIdentity": "me"}})
    assert numbers.take_calls() == ["kept", "stored"]
    with pytest.raises(StatusError):
        await world.merge("leases", "l", {"metadata": {"labels": {"-": "x"}}})
    assert numbers.take_calls() == ["kept", "given back"]


async def test_what_an_object_had_is_released_when_it_is_gone_and_not_before(world: World, numbers: Numbers) -> None:
    held = {"metadata": {"name": "h", "finalizers": ["example.com/f"]}}
    await world.create("leases", LEASE)
    await world.create("leases", held)
    numbers.take_calls()
    await world.delete("leases", "l", query="dryRun=All")
    assert numbers.take_calls() == []
    await world.delete("leases", "l")
    assert numbers.take_calls() == ["released l"]
    await world.delete("leases", "h")
    assert numbers.take_calls() == []
    free = {"metadata": {"finalizers": None}}
    await world.merge("leases", "h", free, "dryRun=All")
    assert numbers.take_calls()[:1] == ["kept"]
    await world.merge("leases", "h", {"metadata": {"labels": {"a": "b"}}})
    assert "released h" not in numbers.take_calls()
    await world.merge("leases", "h", free)
    assert "released h" in numbers.take_calls()
