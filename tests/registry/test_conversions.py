"""Kinds with an external converter: every verb sees an object in the version of its request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Hub, Json, Stored
from apiserver.api.schema.language import STRING, Struct, field
from apiserver.api.types.meta import ObjectMeta
from apiserver.registry.body.convert import read
from apiserver.registry.catalog.catalog import Catalog
from apiserver.registry.definition.resource import Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.registry.store.conversion import ConvertedEntry, add_mark, read_mark, remove_mark
from apiserver.storage.watchcache.entry import Event
from tests.registry.conftest import World


class Colours:
    """A converter: v1 (of requests) has "shown " before the stored `text`. Objects named `bad` cannot be converted."""

    async def convert_entries(self, entries: Any, version: str, *, kept: bool) -> list[Any]:
        return [self._shown(entry, version) for entry in entries]

    def _shown(self, entry: Any, version: str) -> Any:
        obj = read(entry)
        if obj["metadata"]["name"] == "bad":
            raise StatusError(500, "", "cannot be converted")
        obj["metadata"].pop("resourceVersion", None)
        if "text" in obj:
            obj["text"] = f"shown {obj['text']}"
        return ConvertedEntry(entry, version, obj)

    async def convert_events(self, events: Any, version: str) -> list[Event]:
        return [
            Event(None if each.old is None else self._shown(each.old, version), self._shown(each.new, version), each.deleted)
            for each in events
        ]  # fmt: skip

    async def convert_to_stored(self, obj: Hub, version: str) -> Hub:
        return Hub({**obj, **({"text": obj["text"].removeprefix("shown ")} if "text" in obj else {})})

    def convert(self, obj: Json, source: str, version: str) -> Json:
        return obj


THING = Struct("io.test.v1.Thing", (field("metadata", 1, ObjectMeta), field("text", 2, STRING)))
THINGS = Resource(
    group="", kind="Thing", plural="things", singular="thing", namespaced=True, strategy=Strategy(), columns=(),
    versions=(Version(name="v1", schema=THING),), storage_prefix="things", conversion=Colours(),
    field_labels={"text": lambda obj: obj.get("text", "")},
)  # fmt: skip


def thing(name: str, text: str, **metadata: Any) -> Json:
    return {"metadata": {"name": name, **metadata}, "text": text}


async def stored_text(world: World, name: str) -> str:
    entry = world.store("things").cache.get(f"/registry/things/default/{name}")
    assert entry is not None
    return str(read(entry)["text"])


def names(listing: Any) -> list[str]:
    return [entry.obj["metadata"]["name"] for entry in listing.entries]


async def test_what_is_written_read_and_listed_has_the_version_of_the_request(world: World) -> None:
    await Catalog(world.registry).add(THINGS)
    assert (await world.create("things", thing("a", "shown red")))["text"] == "shown red"
    assert await stored_text(world, "a") == "red"
    assert (await world.get("things", "a"))["text"] == "shown red"
    changed = await world.update("things", "a", thing("a", "shown blue"))
    assert (changed["text"], await stored_text(world, "a")) == ("shown blue", "blue")
    same = await world.update("things", "a", thing("a", "shown blue"))
    assert same["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    merged = await world.merge("things", "a", {"metadata": {"labels": {"l": "1"}}})
    assert (merged["text"], await stored_text(world, "a")) == ("shown blue", "blue")
    await world.create("things", thing("b", "shown red"))
    for query, found in (
        ("", ["a", "b"]),
        ("fieldSelector=text%3Dshown+red", ["b"]),
        ("fieldSelector=text%3Dred", []),
        ("labelSelector=l%3D1", ["a"]),
        ("labelSelector=!l", ["b"]),
    ):
        listing = await world.list("things", query)
        assert names(listing) == found, query
        assert all(entry.obj["text"].startswith("shown ") for entry in listing.entries)


async def test_a_selected_page_holds_as_many_as_were_asked_for_and_goes_on(world: World) -> None:
    await Catalog(world.registry).add(THINGS)
    for name in "abcd":
        await world.create("things", thing(name, f"shown {'red' if name != 'b' else 'blue'}"))
    query = "fieldSelector=text%3Dshown+red"
    first = await world.list("things", f"{query}&limit=2")
    assert names(first) == ["a", "c"]
    second = await world.list("things", f"{query}&limit=2&continue={first.continue_token}")
    assert (names(second), second.continue_token) == (["d"], "")
    for limit in (3, 4):
        whole = await world.list("things", f"{query}&limit={limit}")
        assert (names(whole), whole.continue_token) == (["a", "c", "d"], "")


async def test_a_deletion_answers_in_the_version_of_the_request_and_stores_what_is_held(world: World) -> None:
    await Catalog(world.registry).add(THINGS)
    await world.create("things", thing("a", "shown red", finalizers=["example.com/f"]))
    held = await world.delete("things", "a")
    assert (held.gone, held.entry.obj["text"], await stored_text(world, "a")) == (False, "shown red", "red")
    await world.merge("things", "a", {"metadata": {"finalizers": None}})
    await world.create("things", thing("b", "shown red"))
    gone = await world.delete("things", "b")
    assert gone.gone
    assert gone.status is not None
    assert gone.status["details"]["name"] == "b"


async def test_a_watch_sees_the_present_and_changes_in_its_version_and_ends_where_they_cannot_be_converted(
    world: World,
) -> None:
    await Catalog(world.registry).add(THINGS)
    await world.create("things", thing("a", "shown red"))
    watch = await world.watch("things")
    blue = await world.watch("things", "fieldSelector=text%3Dshown+blue")
    kind, entry = await watch.next_change()
    assert (kind, entry.obj["text"]) == ("ADDED", "shown red")
    await world.update("things", "a", thing("a", "shown blue"))
    for each in (watch, blue):
        kind, entry = await each.next_change()
        assert (kind, entry.obj["text"]) == ("ADDED" if each is blue else "MODIFIED", "shown blue")
    with pytest.raises(StatusError, match="cannot be converted"):
        await world.create("things", thing("bad", "shown red"))
    assert (await watch.next_error())["code"] == 500
    with pytest.raises(StopAsyncIteration):
        await watch.next()


async def test_a_collection_is_deleted_object_by_object_up_to_the_first_that_cannot_be_converted(world: World) -> None:
    await Catalog(world.registry).add(THINGS)
    for name in ("a", "c"):
        await world.create("things", thing(name, "shown red"))
    await world.call("deletecollection", "things", query="fieldSelector=metadata.name%3Da")
    assert names(await world.list("things")) == ["c"]
    with pytest.raises(StatusError):
        await world.create("things", thing("bad", "shown red"))
    with pytest.raises(StatusError, match="cannot be converted"):
        await world.call("deletecollection", "things")
    assert len(world.store("things").cache) == 2


def test_a_row_names_its_version_at_its_end() -> None:
    value, mark = Stored(b'{"metadata":{},"a":{"b":1}}'), b',"apiVersion":"v2"}'
    assert add_mark(value, mark) == b'{"metadata":{},"a":{"b":1},"apiVersion":"v2"}'
    assert (read_mark(value), read_mark(add_mark(value, mark))) == ("", "v2")
    assert remove_mark(value) == remove_mark(add_mark(value, mark)) == value
    for other in (b'{"a":"x"}', b'{"metadata":{},"apiVersion":"g/v1"}', b'{"metadata":{},"apiVersion":""}'):
        assert (read_mark(other), remove_mark(other)) == ("", other)


async def test_a_resource_that_nobody_converts_is_shown_as_it_is(world: World) -> None:
    await Catalog(world.registry).add(replace(THINGS, conversion=None))
    assert (await world.create("things", thing("a", "red")))["text"] == "red"
    assert names(await world.list("things", "fieldSelector=text%3Dred")) == ["a"]
