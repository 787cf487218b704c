"""The garbage collector in one pass over an object, by its owners and its dependents in the graph."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.cleanup.garbage_collector import GarbageCollector
from controllers.runtime.kinds import CONFIG_MAPS, NODES, PODS, Kind
from tests.support.objects import make_metadata
from tests.support.recording import RecordingClient, build

pytestmark = pytest.mark.integration

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


def ref(name: str, kind: Kind = CONFIG_MAPS, **more: Any) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": f"u-{name}", **more}


def obj(
    name: str, *owners: Json, deleted: bool = False, namespace: str = "ns", kind: Kind = CONFIG_MAPS, **metadata: Any
) -> Json:
    """Build a ConfigMap, or an object of another kind, with these owners."""
    metadata = {"uid": f"u-{name}", "resourceVersion": "7", **metadata}
    time = "2026-01-01T00:00:00Z" if deleted else ""
    return {"kind": kind.kind, "metadata": make_metadata(
        name, namespace, ownerReferences=list(owners), deletionTimestamp=time, **metadata
    )}  # fmt: skip


class Collector(RecordingClient):
    """The garbage collector with a graph of these objects."""

    def __init__(self, *objects: Json) -> None:
        super().__init__()
        build(GarbageCollector, self)
        for kind in (CONFIG_MAPS, NODES, PODS):
            self.component._follow(kind)
        self.set_objects(*objects)

    def queued(self) -> list[str]:
        """Return the names of the objects that were queued since the last call."""
        return [uid.removeprefix("u-") for uid in super().queued()]

    async def collect(self, name: str) -> list[tuple[str, Any]]:
        """Reconcile an object and return the writes."""
        self.writes.clear()
        await self.reconcile(f"u-{name}")
        return [(verb, what) for verb, _, what in self.writes]


def deleted(name: str, policy: str = "Background") -> list[tuple[str, Any]]:
    return [("delete", (f"ns/{name}", {"uid": f"u-{name}", "propagation": policy}))]


def patched(name: str, **change: Any) -> tuple[str, Any]:
    return ("patch", (name, {"metadata": {"uid": f"u-{name}", "resourceVersion": "7", **change}}))


async def test_an_object_goes_when_none_of_its_owners_is_there() -> None:
    collector = Collector(
        obj("a", ref("gone")),
        obj("b", ref("gone"), ref("owner")),
        obj("owner"),
        obj("free"),
    )
    assert await collector.collect("a") == deleted("a")
    assert await collector.collect("b") == [patched("b", ownerReferences=[ref("owner")])]
    for name in ("free", "owner", "unknown"):
        assert await collector.collect(name) == []
    collector.set_objects(obj("c", ref("owner")))
    assert await collector.collect("c") == []


async def test_an_owner_that_is_not_known_is_asked_for() -> None:
    collector = Collector(obj("a", ref("late")))
    collector.serve(obj("late"))
    assert await collector.collect("a") == []
    collector.serve(obj("late", uid="another"))
    assert await collector.collect("a") == deleted("a")
    collector.refuses["get"] = (500, "InternalError")
    await collector.collect("a")
    assert collector.error is not None


async def test_an_owner_counts_by_kind_place_and_name() -> None:
    collector = Collector(
        obj("owner"),
        obj("a", {**ref("owner"), "name": "renamed"}),
        obj("b", ref("owner", PODS)),
    )
    assert await collector.collect("a") == deleted("a")
    assert await collector.collect("b") == deleted("b")
    elsewhere = obj("c", ref("far"))
    collector.set_objects(obj("far", namespace="other"))
    collector.set_objects(elsewhere)
    assert await collector.collect("c") == deleted("c")
    [(kind, reason, text)] = collector.events
    assert (kind, reason) == ("Warning", "OwnerRefInvalidNamespace")
    assert text == 'ownerRef [v1/ConfigMap, namespace: ns, name: far, uid: u-far] does not exist in namespace "ns"'


async def test_owners_of_no_namespace_and_of_unknown_kinds() -> None:
    collector = Collector(obj("a", ref("node", NODES)), obj("b", {**ref("x"), "apiVersion": "example.com/v1"}))
    assert await collector.collect("a") == deleted("a")
    assert await collector.collect("b") == []
    collector.set_objects(obj("node", namespace="", kind=NODES))
    assert await collector.collect("a") == []
    collector.set_objects(obj("high", ref("low"), namespace="", kind=NODES))
    assert await collector.collect("high") == []


@pytest.mark.parametrize(
    ("finalizers", "policy"),
    [((), "Background"), ((ORPHAN,), "Orphan"), ((FOREGROUND,), "Foreground"), (("x",), "Background")],
)
async def test_an_object_goes_the_way_that_was_asked_for(finalizers: tuple[str, ...], policy: str) -> None:
    assert await Collector(obj("a", ref("gone"), finalizers=list(finalizers))).collect("a") == deleted("a", policy)


async def test_what_is_being_deleted_is_not_deleted_again() -> None:
    assert await Collector(obj("a", ref("gone"), deleted=True)).collect("a") == []


@pytest.mark.parametrize(("reason", "raised"), [("NotFound", False), ("Conflict", False), ("Forbidden", True)])
async def test_an_object_that_is_gone_or_another_one_need_not_go(reason: str, raised: bool) -> None:
    collector = Collector(obj("a", ref("gone")))
    collector.refuses["delete"] = (400, reason)
    await collector.collect("a")
    assert (collector.error is not None) is raised


EMPTYING = obj("owner", deleted=True, finalizers=[FOREGROUND])


async def test_dependents_of_an_owner_that_waits_for_them_go_in_the_foreground_if_they_have_any() -> None:
    collector = Collector(EMPTYING, obj("a", ref("owner")), obj("b", ref("owner")), obj("c", ref("b")))
    assert await collector.collect("a") == deleted("a")
    assert await collector.collect("b") == deleted("b", "Foreground")
    both = Collector(EMPTYING, obj("other"), obj("a", ref("owner"), ref("other")))
    assert await both.collect("a") == [patched("a", ownerReferences=[ref("other")])]


async def test_a_circle_of_owners_that_wait_for_each_other_is_opened() -> None:
    first = obj("owner", ref("a", blockOwnerDeletion=True), deleted=True, finalizers=[FOREGROUND])
    collector = Collector(first, obj("a", ref("owner", blockOwnerDeletion=True)))
    assert await collector.collect("a") == [
        patched("a", ownerReferences=[ref("owner", blockOwnerDeletion=False)]), *deleted("a", "Foreground"),
    ]  # fmt: skip
    free = Collector(first, obj("a", ref("owner")))
    assert await free.collect("a") == deleted("a", "Foreground")


async def test_an_owner_goes_when_nothing_blocks_it_any_more() -> None:
    collector = Collector(EMPTYING, obj("a", ref("owner", blockOwnerDeletion=True)), obj("b", ref("owner")))
    assert await collector.collect("owner") == []
    collector.remove_objects(obj("a"))
    assert await collector.collect("owner") == [patched("owner", finalizers=None)]
    kept = Collector(obj("owner", deleted=True, finalizers=["mine", FOREGROUND]))
    assert await kept.collect("owner") == [patched("owner", finalizers=["mine"])]


async def test_the_dependents_of_an_orphaning_owner_lose_only_that_owner() -> None:
    going = obj("owner", deleted=True, finalizers=[ORPHAN, "mine"])
    collector = Collector(going, obj("a", ref("owner")), obj("b", ref("owner"), ref("x")))
    assert sorted(await collector.collect("owner"), key=str) == sorted(
        [
            patched("a", ownerReferences=None), patched("b", ownerReferences=[ref("x")]),
            patched("owner", finalizers=["mine"]),
        ],
        key=str,
    )  # fmt: skip
    collector.refuses["patch"] = (404, "NotFound")
    await collector.collect("owner")
    collector.refuses["patch"] = (409, "Conflict")
    await collector.collect("owner")
    assert collector.error is not None
    assert await Collector(obj("owner", finalizers=[ORPHAN])).collect("owner") == []


def test_the_graph_drops_unnamed_objects() -> None:
    collector = Collector(obj("owner"), obj("a", ref("owner"), ref("unseen")))
    graph = collector.component._graph
    assert set(graph) == {"u-owner", "u-a", "u-unseen"}
    collector.remove_objects(obj("owner"))
    assert set(graph) == {"u-owner", "u-a", "u-unseen"}
    collector.set_objects(obj("a", ref("unseen")))
    assert set(graph) == {"u-a", "u-unseen"}
    collector.set_objects(obj("a", uid="u-new"))
    assert set(graph) == {"u-new"}
    collector.remove_objects(obj("a"))
    assert not graph


async def test_the_objects_of_a_kind_that_is_no_longer_served_remain_owners() -> None:
    collector = Collector(obj("owner", namespace=""), obj("a", ref("owner", NODES)))
    collector.set_objects(obj("node", namespace="", kind=NODES))
    collector.set_objects(obj("b", ref("node", NODES)))
    collector.component._unfollow(NODES)
    assert await collector.collect("b") == []
    assert "u-node" in collector.component._graph
    assert collector.component._graph["u-node"].obj is None


def test_an_object_with_owners_is_queued_when_it_comes_and_when_one_of_them_goes() -> None:
    collector = Collector(obj("owner"), obj("free"), obj("a", ref("owner")), obj("b", ref("owner")))
    assert collector.queued() == ["a", "b"]
    collector.set_objects({**obj("a", ref("owner")), "data": {"x": "y"}})
    assert collector.queued() == []
    collector.remove_objects(obj("owner"))
    assert collector.queued() == ["a", "b"]


def test_an_owner_that_waits_is_queued_when_a_dependent_goes_or_lets_it_go() -> None:
    blocking = obj("a", ref("owner", blockOwnerDeletion=True))
    collector = Collector(obj("owner"), blocking, obj("b", ref("owner")), obj("c", ref("owner")))
    collector.queued()
    collector.set_objects(EMPTYING)
    assert collector.queued() == ["a", "b", "c", "owner"]
    collector.set_objects(obj("a", ref("owner")))
    assert collector.queued() == ["owner"]
    collector.set_objects(obj("b"))
    assert collector.queued() == ["owner"]
    collector.remove_objects(obj("c"))
    assert collector.queued() == ["owner"]
    quiet = Collector(obj("owner"), obj("b", ref("owner")))
    quiet.queued()
    quiet.remove_objects(obj("b"))
    assert quiet.queued() == []
