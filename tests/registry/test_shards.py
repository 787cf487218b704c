"""Shards: a part of a collection, by the hashes of uids or namespaces (alpha, gate ShardedListAndWatch)."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import Features
from apiserver.registry.verbs.shards import ShardError, parse_shards
from tests.registry.conftest import World, open_world

#: FNV-1a of 64 bits, from the reference values of its authors (draft-eastlake-fnv, appendix C).
KNOWN = {"": 0xCBF29CE484222325, "a": 0xAF63DC4C8601EC8C, "foobar": 0x85944171F73967E8}
HALVES = (
    "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
    "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')",
)


@asynccontextmanager
async def open_sharded_world() -> AsyncIterator[World]:
    """Open a world with the gate; its uids are so similar that a weak hash would put them into one shard."""
    async with open_world(features=Features((1, 36), {"ShardedListAndWatch": True})) as world:
        numbers = itertools.count()
        world.registry.new_uid = lambda: f"{next(numbers)}-of-these"
        yield world


@pytest.fixture
def sharded_world() -> AbstractAsyncContextManager[World]:
    return open_sharded_world()


def names(listing: Any) -> list[str]:
    return [entry.obj["metadata"]["name"] for entry in listing.entries]


@pytest.mark.parametrize(("text", "value"), KNOWN.items())
def test_a_range_holds_its_start_and_not_its_end(text: str, value: int) -> None:
    def holds(start: int, end: int) -> bool:
        selector = f"shardRange(object.metadata.namespace, '0x{start:016x}', '0x{end:016x}')"
        return parse_shards(selector).compile()({"namespace": text})

    assert holds(value, value + 1)
    assert not holds(value - 1, value)
    assert not holds(value + 1, 1 << 64)


def test_a_selector_is_shown_in_one_form() -> None:
    text = "  shardRange( object.metadata.uid,'0x0000000000000000' ,\"0x8000000000000000\" )||" + HALVES[1]
    assert str(parse_shards(text)) == " || ".join(HALVES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        ("shardRange(", "CEL parse error: Syntax error: mismatched input '<EOF>' expecting"),
        ("object.metadata.uid", "unexpected expression kind 7; expected shardRange() call or || operator"),
        ("f(x)", 'unsupported function "f"; only shardRange() and || are allowed'),
        ("shardRange(x)", "shardRange() requires exactly 3 arguments, got 1"),
        ("shardRange(f(x), '', '')", "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 1"),
        ("shardRange(object.metadata.name, '', '')", 'unsupported field path "object.metadata.name"; supported: object.metadata.uid, object.metadata.namespace'),
        ("shardRange(object.metadata.uid, x, '')", "hexStart must be a string literal (e.g. '0xff'), got expression kind 3"),
        ("shardRange(object.metadata.uid, 0, '')", "hexStart must be a string literal, got int64"),
        ("shardRange(object.metadata.uid, '00', '')", "hexStart must have '0x' prefix, got \"00\""),
        ("shardRange(object.metadata.uid, '0x', '')", "hexStart: hex value is required after '0x'"),
        ("shardRange(object.metadata.uid, '0x000000000000000000', '')", 'hexStart: hex value too long (18 chars, max 17): "000000000000000000"'),
        ("shardRange(object.metadata.uid, '0x000000000000000A', '')", 'hexStart: invalid hex character "A" in "0x000000000000000A"'),
        ("shardRange(object.metadata.uid, '0x10000000000000001', '')", "hexStart: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x10000000000000001\""),
        ("shardRange(object.metadata.uid, '0x0000000000000000', '0xff')", 'hexEnd must be a 0x-prefixed 16-digit hex value, got "0xff" (did you mean "0x00000000000000ff"?)'),
        ("shardRange(object.metadata.uid, '0x8000000000000000', '0x8000000000000000')", "shard range start 0x8000000000000000 must be less than end 0x8000000000000000"),
        (HALVES[0] + " || " + HALVES[1].replace("uid", "namespace"), 'all shard ranges must use the same field, got "object.metadata.uid" and "object.metadata.namespace"'),
    ],
)  # fmt: skip
def test_what_is_no_selector_is_refused_in_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(ShardError) as caught:
        parse_shards(text)
    assert str(caught.value).startswith(message)


async def test_every_object_is_in_one_shard_and_pages_and_labels_select_within_it(sharded_world: World) -> None:
    for number in range(8):
        labels = {"odd": str(number % 2)}
        await sharded_world.create("configmaps", {"metadata": {"name": f"c{number}", "labels": labels}})
    first, second = [await sharded_world.list("configmaps", f"shardSelector={quote(half)}") for half in HALVES]
    assert sorted(names(first) + names(second)) == [f"c{number}" for number in range(8)]
    assert names(first), "of eight names some are in each"
    assert names(second), "of eight names some are in each"
    assert (first.shards, second.shards) == HALVES
    page = await sharded_world.list("configmaps", f"shardSelector={quote(HALVES[0])}&limit=1")
    assert names(page) == names(first)[:1]
    odd = await sharded_world.list("configmaps", f"shardSelector={quote(HALVES[1])}&labelSelector=odd%3D1")
    assert names(odd) == [name for name in names(second) if int(name[1:]) % 2]
    await sharded_world.call("deletecollection", "configmaps", query=f"shardSelector={quote(HALVES[0])}")
    assert names(await sharded_world.list("configmaps")) == names(second)


async def test_a_watch_sees_the_changes_in_its_shard(sharded_world: World) -> None:
    since = f"resourceVersion={sharded_world.registry.log.revision}&shardSelector="
    watches = [await sharded_world.watch("configmaps", since + quote(half)) for half in HALVES]
    inside = [parse_shards(half).compile() for half in HALVES]
    expected: list[list[tuple[str, str]]] = [[], []]
    for number in range(6):
        made = await sharded_world.create("configmaps", {"metadata": {"name": f"c{number}"}})
        shard = 0 if inside[0](made["metadata"]) else 1
        await sharded_world.merge("configmaps", f"c{number}", {"data": {"x": "1"}})
        await sharded_world.delete("configmaps", f"c{number}")
        expected[shard] += [(event, f"c{number}") for event in ("ADDED", "MODIFIED", "DELETED")]
    for watch, events in zip(watches, expected, strict=True):
        assert await watch.take(len(events)) == events


async def test_a_wrong_selector_is_a_server_error(sharded_world: World) -> None:
    for verb in ("list", "watch", "deletecollection"):
        with pytest.raises(StatusError, match=r"invalid shard selector: empty shard selector") as caught:
            await sharded_world.call(verb, "configmaps", query="shardSelector=%20")
        assert (caught.value.code, caught.value.reason) == (500, "")


async def test_without_the_gate_a_selector_is_ignored(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}})
    listing = await world.list("configmaps", "shardSelector=%20")
    assert (names(listing), listing.shards) == (["a"], "")
