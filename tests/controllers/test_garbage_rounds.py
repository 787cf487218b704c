"""What the garbage collector does at one look at an object, by what is known of its owners and of what it owns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.cleanup.garbage_collector import GarbageCollector
from controllers.options.options import Options
from controllers.runtime.kinds import CONFIG_MAPS, NODES, PODS, Kind
from tests.support.recording import FakeRecorder, RecordingClient, make_informers

pytestmark = pytest.mark.integration

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


def ref(name: str, kind: Kind = CONFIG_MAPS, **more: Any) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": f"u-{name}", **more}


def thing(
    name: str, *owners: Json, going: bool = False, namespace: str = "ns", finalizers: tuple[str, ...] = ()
) -> Json:
    metadata: Json = {"name": name, "uid": f"u-{name}", "resourceVersion": "7"}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {"ownerReferences": list(owners)} if owners else {}
    metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    return {"metadata": {**metadata, **({"finalizers": list(finalizers)} if finalizers else {})}}


class Collector:
    """The component with a graph of these objects."""

    def __init__(self, *known: Json, kinds: tuple[Kind, ...] = (CONFIG_MAPS, NODES, PODS)) -> None:
        self.client, self.told, self.informers = RecordingClient(), FakeRecorder(), make_informers(CONFIG_MAPS)
        self.component = GarbageCollector(self.client, self.informers, Options())  # type: ignore[arg-type]
        self.component._recorder = self.told  # type: ignore[assignment]
        self.of = {kind.kind: self.component._follow(kind) for kind in kinds}
        for obj in known:
            self.sees(obj)

    def sees(self, obj: Json | None, name: str = "", kind: Kind = CONFIG_MAPS) -> None:
        """The informer has this; None: it is gone."""
        metadata = obj["metadata"] if obj else {"name": name, "namespace": "ns"}
        self.of[kind.kind].set_object("/".join(filter(None, (metadata.get("namespace"), metadata["name"]))), obj)

    def queued(self) -> set[str]:
        """What is to be looked at since this was asked last."""
        queue = self.component._controller.queue
        found = {uid.removeprefix("u-") for uid in queue._dirty}
        queue._dirty.clear()
        queue._order.clear()
        return found

    def look(self, name: str) -> list[tuple[str, Any]]:
        self.client.writes.clear()
        asyncio.run(self.component.reconcile(f"u-{name}"))
        return [(verb, what) for verb, _, what in self.client.writes]


def deleted(name: str, policy: str = "Background") -> list[tuple[str, Any]]:
    return [("delete", (f"ns/{name}", {"uid": f"u-{name}", "propagation": policy}))]


def patched(name: str, **change: Any) -> tuple[str, Any]:
    return ("patch", (name, {"metadata": {"uid": f"u-{name}", "resourceVersion": "7", **change}}))


def test_an_object_goes_when_none_of_its_owners_is_there() -> None:
    collector = Collector(thing("a", ref("gone")), thing("b", ref("gone"), ref("owner")), thing("owner"), thing("free"))
    assert collector.look("a") == deleted("a")
    assert collector.look("b") == [patched("b", ownerReferences=[ref("owner")])]
    assert collector.look("free") == collector.look("owner") == collector.look("unknown") == []
    collector.sees(thing("c", ref("owner")))
    assert collector.look("c") == []


def test_an_owner_that_is_not_known_is_asked_for() -> None:
    collector = Collector(thing("a", ref("late")))
    collector.client.there["ConfigMap", "late"] = thing("late")
    assert collector.look("a") == []
    collector.client.there["ConfigMap", "late"] = {"metadata": {"name": "late", "uid": "another"}}
    assert collector.look("a") == deleted("a")
    collector.client.refuses["get"] = (500, "InternalError")
    with pytest.raises(StatusError):
        collector.look("a")


def test_an_owner_counts_by_kind_place_and_name() -> None:
    collector = Collector(
        thing("owner"), thing("a", {**ref("owner"), "name": "renamed"}), thing("b", ref("owner", PODS))
    )
    assert collector.look("a") == deleted("a")
    assert collector.look("b") == deleted("b")
    elsewhere = thing("c", ref("far"))
    collector.sees(thing("far", namespace="other"))
    collector.sees(elsewhere)
    assert collector.look("c") == deleted("c")
    [(kind, reason, text)] = collector.told.events
    assert (kind, reason) == ("Warning", "OwnerRefInvalidNamespace")
    assert text == 'ownerRef [v1/ConfigMap, namespace: ns, name: far, uid: u-far] does not exist in namespace "ns"'


def test_owners_of_no_namespace_and_of_kinds_that_nobody_knows() -> None:
    collector = Collector(thing("a", ref("node", NODES)), thing("b", {**ref("x"), "apiVersion": "example.com/v1"}))
    assert collector.look("a") == deleted("a")
    assert collector.look("b") == []
    collector.sees(thing("node", namespace=""), kind=NODES)
    assert collector.look("a") == []
    collector.sees(thing("high", ref("low"), namespace=""), kind=NODES)
    assert collector.look("high") == []


@pytest.mark.parametrize(
    ("finalizers", "policy"),
    [((), "Background"), ((ORPHAN,), "Orphan"), ((FOREGROUND,), "Foreground"), (("x",), "Background")],
)
def test_an_object_goes_the_way_that_was_asked_for(finalizers: tuple[str, ...], policy: str) -> None:
    assert Collector(thing("a", ref("gone"), finalizers=finalizers)).look("a") == deleted("a", policy)


def test_what_is_being_deleted_is_not_deleted_again() -> None:
    assert Collector(thing("a", ref("gone"), going=True)).look("a") == []


@pytest.mark.parametrize(("reason", "raised"), [("NotFound", False), ("Conflict", False), ("Forbidden", True)])
def test_an_object_that_is_gone_or_another_one_need_not_go(reason: str, raised: bool) -> None:
    collector = Collector(thing("a", ref("gone")))
    collector.client.refuses["delete"] = (400, reason)
    if raised:
        with pytest.raises(StatusError):
            collector.look("a")
    else:
        collector.look("a")


EMPTYING = thing("owner", going=True, finalizers=(FOREGROUND,))


def test_dependents_of_an_owner_that_waits_for_them_go_in_the_foreground_if_they_have_any() -> None:
    collector = Collector(EMPTYING, thing("a", ref("owner")), thing("b", ref("owner")), thing("c", ref("b")))
    assert collector.look("a") == deleted("a")
    assert collector.look("b") == deleted("b", "Foreground")
    both = Collector(EMPTYING, thing("other"), thing("a", ref("owner"), ref("other")))
    assert both.look("a") == [patched("a", ownerReferences=[ref("other")])]


def test_a_circle_of_owners_that_wait_for_each_other_is_opened() -> None:
    first = thing("owner", ref("a", blockOwnerDeletion=True), going=True, finalizers=(FOREGROUND,))
    collector = Collector(first, thing("a", ref("owner", blockOwnerDeletion=True)))
    assert collector.look("a") == [
        patched("a", ownerReferences=[ref("owner", blockOwnerDeletion=False)]), *deleted("a", "Foreground"),
    ]  # fmt: skip
    free = Collector(first, thing("a", ref("owner")))
    assert free.look("a") == deleted("a", "Foreground")


def test_an_owner_goes_when_nothing_blocks_it_any_more() -> None:
    collector = Collector(EMPTYING, thing("a", ref("owner", blockOwnerDeletion=True)), thing("b", ref("owner")))
    assert collector.look("owner") == []
    collector.sees(None, "a")
    assert collector.look("owner") == [patched("owner", finalizers=None)]
    kept = Collector(thing("owner", going=True, finalizers=("mine", FOREGROUND)))
    assert kept.look("owner") == [patched("owner", finalizers=["mine"])]


def test_an_orphaned_object_is_owned_by_nobody_else_less() -> None:
    going = thing("owner", going=True, finalizers=(ORPHAN, "mine"))
    collector = Collector(going, thing("a", ref("owner")), thing("b", ref("owner"), ref("x")))
    assert sorted(collector.look("owner"), key=str) == sorted(
        [
            patched("a", ownerReferences=None), patched("b", ownerReferences=[ref("x")]),
            patched("owner", finalizers=["mine"]),
        ],
        key=str,
    )  # fmt: skip
    collector.client.refuses["patch"] = (404, "NotFound")
    collector.look("owner")
    collector.client.refuses["patch"] = (409, "Conflict")
    with pytest.raises(StatusError):
        collector.look("owner")
    assert Collector(thing("owner", finalizers=(ORPHAN,))).look("owner") == []


def test_the_graph_forgets_what_nobody_names() -> None:
    collector = Collector(thing("owner"), thing("a", ref("owner"), ref("unseen")))
    graph = collector.component._graph
    assert set(graph) == {"u-owner", "u-a", "u-unseen"}
    collector.sees(None, "owner")
    assert set(graph) == {"u-owner", "u-a", "u-unseen"}
    collector.sees(thing("a", ref("unseen")))
    assert set(graph) == {"u-a", "u-unseen"}
    collector.sees({**thing("a"), "metadata": {**thing("a")["metadata"], "uid": "u-new"}})
    assert set(graph) == {"u-new"}
    collector.sees(None, "a")
    assert not graph


def test_a_kind_that_is_served_no_more_is_forgotten_and_its_objects_own_on() -> None:
    collector = Collector(thing("owner", namespace=""), thing("a", ref("owner", NODES)))
    collector.sees(thing("node", namespace=""), kind=NODES)
    collector.sees(thing("b", ref("node", NODES)))
    collector.component._unfollow(NODES)
    assert collector.look("b") == []
    assert "u-node" in collector.component._graph
    assert collector.component._graph["u-node"].obj is None


def test_what_has_owners_is_looked_at_when_it_comes_and_when_one_of_them_goes() -> None:
    collector = Collector(thing("owner"), thing("free"), thing("a", ref("owner")), thing("b", ref("owner")))
    assert collector.queued() == {"a", "b"}
    collector.sees({**thing("a", ref("owner")), "data": {"x": "y"}})
    assert collector.queued() == set()
    collector.sees(None, "owner")
    assert collector.queued() == {"a", "b"}


def test_an_owner_that_waits_is_looked_at_when_a_dependent_goes_or_lets_it_go() -> None:
    blocking = thing("a", ref("owner", blockOwnerDeletion=True))
    collector = Collector(thing("owner"), blocking, thing("b", ref("owner")), thing("c", ref("owner")))
    collector.queued()
    collector.sees(EMPTYING)
    assert collector.queued() == {"owner", "a", "b", "c"}
    collector.sees(thing("a", ref("owner")))
    assert collector.queued() == {"owner"}
    collector.sees(thing("b"))
    assert collector.queued() == {"owner"}
    collector.sees(None, "c")
    assert collector.queued() == {"owner"}
    quiet = Collector(thing("owner"), thing("b", ref("owner")))
    quiet.queued()
    quiet.sees(None, "b")
    assert quiet.queued() == set()
