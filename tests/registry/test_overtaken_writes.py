"""A write that another one overtakes is computed again on the current object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Attributes, Handlers, Plugin, Reinvocation
from apiserver.registry.verbs.replace import replace_object
from apiserver.request.messages import User
from apiserver.storage.log.types import KeyMissing, RevisionConflict, Write
from apiserver.storage.watchcache.cache import Entry
from tests.registry.conftest import World


def overtake(world: World, plural: str, overtaking: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Let another write overtake the next write of a kind, between its computation and its storage."""
    store = world.store(plural)
    append = store.append

    async def late(write: Write) -> Entry:
        store.append = append  # type: ignore[method-assign]
        await overtaking()
        return await append(write)

    store.append = late  # type: ignore[method-assign]


async def test_a_write_that_is_overtaken_is_made_again_on_what_is_there_now(world: World) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    body = {"metadata": {"name": "a", "ownerReferences": [owner, owner]}, "data": {"mine": "1"}, "nope": 1}

    async def other() -> None:
        await world.merge("configmaps", "a", {"data": {"other": "1"}, "metadata": {"finalizers": None}})

    await world.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    overtake(world, "configmaps", other)
    put = await world.update("configmaps", "a", body)
    assert (put["data"], put["metadata"]["ownerReferences"]) == ({"mine": "1"}, [owner])
    assert len(world.warnings) == 2, "an unknown field and an owner, each once"
    overtake(world, "configmaps", other)
    merged = await world.merge("configmaps", "a", {"data": {"late": "1"}, "nope": 1})
    assert merged["data"] == {"mine": "1", "other": "1", "late": "1"}
    assert len(world.warnings) == 1
    await world.merge("configmaps", "a", {"metadata": {"finalizers": ["example.com/f"]}})
    overtake(world, "configmaps", other)
    assert (await world.delete("configmaps", "a")).gone, "the finalizer that held it went meanwhile"


class Reinvoking(Plugin):
    """A plugin that requests reinvocation, and records whether a call is the second one."""

    def __init__(self) -> None:
        self.calls: list[bool] = []

    def admit(self, attributes: Attributes) -> None:
        reinvocation = attributes.reinvocation = attributes.reinvocation or Reinvocation()
        reinvocation.requested = True
        self.calls.append(reinvocation.second_round)


async def test_plugins_see_a_write_that_is_overtaken_as_a_new_one(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}})
    plugin = Reinvoking()
    overtake(world, "configmaps", lambda: world.merge("configmaps", "a", {"data": {"other": "1"}}))
    world.store("configmaps").handlers = lambda *_: Handlers((plugin,), ())  # type: ignore[method-assign]
    await world.merge("configmaps", "a", {"data": {"mine": "1"}})
    assert plugin.calls == [False, True] * 3, "the first attempt, the other write, the second attempt"


@pytest.mark.parametrize("node", [None, ""])
async def test_a_deletion_that_is_overtaken_ends_with_what_the_other_writer_left(
    world: World, node: str | None
) -> None:
    """`node` "": the object is marked first, and another write comes before its removal."""
    plural = "configmaps" if node is None else "pods"
    body = {"metadata": {"name": "a"}} | ({} if node is None else {"spec": {"containers": [], "nodeName": node}})

    async def label() -> None:
        await world.merge(plural, "a", {"metadata": {"labels": {"last": "1"}}})

    async def remove() -> None:
        assert (await world.delete(plural, "a")).gone

    async def overtaken_by(other: Callable[[], Coroutine[Any, Any, None]]) -> Any:
        await world.create(plural, body)

        async def after_the_mark() -> None:
            overtake(world, plural, other)

        overtake(world, plural, other if node is None else after_the_mark)
        return await world.delete(plural, "a")

    async def replace() -> None:
        await remove()
        await world.create(plural, body)

    for other in (label, replace):  # the name is free afterwards; an update of what was marked removes it
        result = await overtaken_by(other)
        labels = {"last": "1"} if other is label and node is None else None
        assert (result.gone, result.entry.obj["metadata"].get("labels")) == (True, labels)
        with pytest.raises(StatusError, match='"a" not found'):
            await world.get(plural, "a")
    if node is None:
        with pytest.raises(StatusError, match='"a" not found'):
            await overtaken_by(remove)
    else:
        assert (await overtaken_by(remove)).gone, "the object that it marked is gone"


async def test_what_another_writer_made_or_deleted_first_is_there_or_not(world: World) -> None:
    lease: Json = {"metadata": {"name": "l"}}
    overtake(world, "leases", lambda: world.create("leases", lease))
    with pytest.raises(StatusError, match="Invalid value: 0: must be specified"):
        await world.update("leases", "l", lease)
    overtake(world, "leases", lambda: world.delete("leases", "l"))
    with pytest.raises(StatusError, match='"l" not found'):
        await world.merge("leases", "l", {"spec": {"holderIdentity": "x"}})


async def test_who_replaces_an_object_does_that_after_the_write_that_is_under_way(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}})
    store = world.store("configmaps")
    ctx = store.context(user=User("u"), version="v1", verb="update", namespace="default", name="a")

    def doubled(obj: Any) -> Any:
        return {**obj, "data": {"x": obj["data"]["x"] * 2}}

    entries = await asyncio.gather(*(replace_object(store, ctx, doubled) for _ in range(3)))
    assert [entry.obj["data"]["x"] for entry in entries] == ["11", "1111", "11111111"]
    dry = await replace_object(store, ctx, doubled, dry_run=True)
    same = await replace_object(store, ctx, lambda obj: obj)
    assert (len(dry.obj["data"]["x"]), same.revision, len(same.obj["data"]["x"])) == (16, entries[-1].revision, 8)
    uid, version = same.obj["metadata"]["uid"], same.obj["metadata"]["resourceVersion"]
    await replace_object(store, ctx, doubled, uid=uid, resource_version=version)
    with pytest.raises(StatusError, match="UID in precondition: v"):
        await replace_object(store, ctx, doubled, uid="v")
    with pytest.raises(StatusError, match="ResourceVersion in precondition: 1"):
        await replace_object(store, ctx, doubled, resource_version="1")
    overtake(world, "configmaps", lambda: world.merge("configmaps", "a", {"data": {"x": "y"}}))
    assert (await replace_object(store, ctx, doubled)).obj["data"] == {"x": "yy"}
    await world.delete("configmaps", "a")
    with pytest.raises(StatusError, match="not found"):
        await replace_object(store, ctx, doubled)


async def test_who_was_refused_waits_until_the_reason_is_seen_here(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apiserver.registry.store.store.WAIT_SECONDS", 0.01)
    registry = world.registry
    await registry.catch_up(RevisionConflict("/a", 1, registry.log.revision))
    await registry.catch_up(KeyMissing("/a", 1, 0))
    with pytest.raises(StatusError, match="this server has not caught up with the database") as late:
        await registry.catch_up(RevisionConflict("/a", 1, registry.log.revision + 1))
    assert late.value.code == 503
