"""Resources without storage: a function computes their objects, which are read and listed like any others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.catalog.catalog import Catalog
from tests.registry.conftest import CATALOG, World


async def states(store: Any, ctx: Any) -> list[Json]:
    return [{"metadata": {"name": name, "labels": {"first": str(name == "a").lower()}}} for name in ("a", "b")]


STATES = replace(
    CATALOG[1], kind="State", plural="states", singular="state", namespaced=False, storage_prefix="states",
    compute_objects=states,
)  # fmt: skip


def names(listing: Any) -> list[str]:
    return [entry.obj["metadata"]["name"] for entry in listing.entries]


async def test_what_is_shown_is_read_by_name_and_listed_by_selectors(world: World) -> None:
    await Catalog(world.registry).add(STATES)
    assert (await world.get("states", "b"))["metadata"]["labels"] == {"first": "false"}
    with pytest.raises(StatusError, match='state "c" not found'):
        await world.get("states", "c")
    for query, found in (
        ("", ["a", "b"]),
        ("labelSelector=first%3Dtrue", ["a"]),
        ("fieldSelector=metadata.name%3Db", ["b"]),
        ("fieldSelector=metadata.name!%3Db", ["a"]),
        ("labelSelector=first%3Dtrue&fieldSelector=metadata.name%3Db", []),
    ):
        listing = await world.list("states", query)
        assert (names(listing), listing.revision, listing.continue_token) == (found, 0, "")
    assert "states" not in world.registry.counts(), "there is nothing to count"
