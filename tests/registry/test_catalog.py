"""The catalog of a running server: resources are added, replaced and removed, and listeners get events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apiserver.api.schema.language import STRING, Struct, field
from apiserver.api.types.meta import ObjectMeta
from apiserver.registry.catalog.catalog import Catalog, CatalogError, CatalogEvent
from apiserver.registry.definition.resource import Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.storage.log.types import Write
from tests.registry.conftest import World

THING = Struct("io.test.v1.Thing", (field("metadata", 1, ObjectMeta), field("text", 2, STRING)))
OTHER = Struct("io.test.v2.Thing", (field("metadata", 1, ObjectMeta),))
THINGS = Resource(
    group="g", kind="Thing", plural="things", singular="thing", namespaced=True, strategy=Strategy(), columns=(),
    versions=(Version(name="v2", schema=OTHER), Version(name="v1", schema=THING)), storage_prefix="g/things",
)  # fmt: skip


def opened(world: World, *resources: Resource, served: Any = lambda *_: True) -> tuple[Catalog, list[CatalogEvent]]:
    """Open a second catalog in a running server; return it with the events of its listener."""
    catalog = Catalog(world.registry, served)
    events: list[CatalogEvent] = []
    catalog.open(resources)
    catalog.subscribe(events.append)
    return catalog, events


async def stored(world: World, name: str) -> None:
    value = b'{"metadata":{"name":"%b","namespace":"n"}}' % name.encode()
    await world.registry.log.append(Write(f"/registry/g/things/n/{name}", value, 0))


def versions(catalog: Catalog) -> list[str]:
    return [f"{resource.plural} {version.name}" for resource, version in catalog.served()]


async def test_what_is_added_is_served_with_what_was_stored_of_it_and_what_comes(world: World) -> None:
    catalog, told = opened(world)
    await stored(world, "before")
    await catalog.add(THINGS)
    await stored(world, "after")
    store = world.registry.stores["g", "things"]
    assert [entry.key[-6:] for entry in store.cache.list().entries] == ["/after", "before"]
    assert versions(catalog) == ["things v2", "things v1"]
    assert world.registry.kinds.schema("g/v1", "Thing") is THING
    assert [(event.type, event.resource) for event in told] == [("added", THINGS)]


async def test_a_resource_is_served_in_the_versions_that_are_named(world: World) -> None:
    catalog, _ = opened(world)
    await catalog.add(THINGS, ["v1"])
    assert versions(catalog) == ["things v1"]
    catalog.replace(THINGS, ["v2"])
    assert versions(catalog) == ["things v2"]
    catalog.replace(THINGS)
    assert versions(catalog) == ["things v2", "things v1"]
    with pytest.raises(CatalogError, match=r"^things\.g has no version v3, v4$"):
        catalog.replace(THINGS, ["v4", "v1", "v3"])


async def test_from_the_start_a_resource_is_served_in_versions_that_are_on_and_nobody_is_told(world: World) -> None:
    catalog, told = opened(world, THINGS, served=lambda resource, version: version.name == "v2")
    assert versions(catalog) == ["things v2"]
    assert told == []


async def test_no_two_resources_have_one_name_one_place_or_one_kind(world: World) -> None:
    catalog, told = opened(world)
    await catalog.add(THINGS)
    for wrong, words in (
        (THINGS, "things.g is served already; replace it"),
        (
            replace(THINGS, group="h", kind="Other"),
            "things.h would be stored under /registry/g/things/, where other objects are",
        ),
        (replace(THINGS, plural="others", storage_prefix="g/others"), "the kind Thing of others.g is that of things.g"),
    ):
        with pytest.raises(CatalogError) as refused:
            await catalog.add(wrong)
        assert str(refused.value) == words
    assert len(told) == 1
    for fine in (
        replace(THINGS, group="h", storage_prefix="h/things"),
        replace(THINGS, kind="Other", plural="others", storage_prefix="g/others"),
    ):
        await catalog.add(fine)
    assert len(told) == 3


async def test_a_resource_that_could_not_be_read_is_not_there_and_may_be_added_again(world: World) -> None:
    catalog, told = opened(world)
    cache = world.registry.cache
    load = cache.load

    async def broken(*caches: Any) -> None:
        cache.load = load  # type: ignore[method-assign]
        with pytest.raises(CatalogError, match="served already"):
            await catalog.add(THINGS)  # its name is taken meanwhile
        raise OSError("away")

    cache.load = broken  # type: ignore[method-assign]
    with pytest.raises(OSError, match="away"):
        await catalog.add(THINGS)
    assert (versions(catalog), told) == ([], [])
    with pytest.raises(KeyError):
        cache["/registry/g/things/"]
    await catalog.add(THINGS)
    assert len(versions(catalog)) == 2


async def test_what_is_replaced_keeps_its_objects_where_they_are_and_ends_its_watches(world: World) -> None:
    catalog, told = opened(world)
    await catalog.add(THINGS)
    await stored(world, "a")
    cursor = world.registry.stores["g", "things"].cache.cursor(world.registry.log.revision)
    renamed = replace(THINGS, kind="Renamed")
    catalog.replace(renamed)
    assert cursor.closed
    store = world.registry.stores["g", "things"]
    assert store.resource is renamed
    assert len(store.cache) == 1
    kinds = world.registry.kinds
    assert (kinds.schema("g/v1", "Thing"), kinds.schema("g/v1", "Renamed")) == (None, THING)
    assert [(event.type, event.resource) for event in told] == [("added", THINGS), ("replaced", renamed)]
    for moved in (replace(THINGS, storage_prefix="other"), replace(THINGS, namespaced=False)):
        with pytest.raises(CatalogError) as refused:
            catalog.replace(moved)
        assert str(refused.value) == "things.g cannot change where or in which scope its objects are stored"


async def test_what_is_removed_is_not_served_until_it_is_added_again(world: World) -> None:
    catalog, told = opened(world)
    await catalog.add(THINGS)
    await stored(world, "a")
    cursor = world.registry.stores["g", "things"].cache.cursor(world.registry.log.revision)
    catalog.remove("g", "things")
    assert cursor.closed
    assert (versions(catalog), world.registry.stores.get(("g", "things"))) == ([], None)
    assert world.registry.kinds.schema("g/v1", "Thing") is None
    assert [event.type for event in told] == ["added", "removed"]
    with pytest.raises(CatalogError, match=r"^things\.g is not served$"):
        catalog.remove("g", "things")
    with pytest.raises(CatalogError, match=r"^things\.g is not served$"):
        catalog.replace(THINGS)
    with pytest.raises(CatalogError, match=r"^bindings is not served$"):
        catalog.remove("", "bindings")
    await catalog.add(THINGS)
    assert len(world.registry.stores["g", "things"].cache) == 1


async def test_resources_that_share_their_objects_share_them_until_the_last_goes(world: World) -> None:
    twin = replace(THINGS, group="h", kind="Twin", plural="twins")
    catalog, _ = opened(world, THINGS, twin)
    stores = world.registry.stores
    assert stores["g", "things"].cache is stores["h", "twins"].cache
    assert (stores["g", "things"].kind_group, stores["h", "twins"].kind_group) == ("g", "g")
    cache = stores["g", "things"].cache
    catalog.remove("g", "things")
    assert world.registry.cache["/registry/g/things/"] is cache
    assert versions(catalog) == ["twins v2", "twins v1"]
    catalog.remove("h", "twins")
    with pytest.raises(KeyError):
        world.registry.cache["/registry/g/things/"]


async def test_who_no_longer_listens_is_told_nothing(world: World) -> None:
    catalog, told = opened(world)
    other: list[CatalogEvent] = []
    catalog.subscribe(other.append)()
    await catalog.add(THINGS)
    assert (len(told), other) == (1, [])
