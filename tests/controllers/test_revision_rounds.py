"""Revisions of workloads: which template is which, how they are numbered and named, and which go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.controller import NotYetError
from controllers.runtime.kinds import CONTROLLER_REVISIONS, DAEMON_SETS
from controllers.workloads.common.history import (
    History,
    is_same_data,
    next_number,
    sort_revisions,
    template_of,
    template_patch,
    with_template,
)
from controllers.workloads.daemonset.nodes import HASH_LABEL
from controllers.workloads.daemonset.revisions import Revisions
from tests.support.recording import RecordingClient, make_informers

pytestmark = pytest.mark.integration


def owner(image: str = "a", status: Json | None = None, **annotations: str) -> Json:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    metadata = {"name": "d", "namespace": "ns", "uid": "u", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "status": status or {},
            "spec": {"template": template, "selector": {"matchLabels": {"app": "d"}}}}  # fmt: skip


def revision(name: str, number: int, image: str = "a", made: int = 1, **labels: str) -> Json:
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    metadata = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": f"2026-01-0{made}T00:00:00Z",
                "labels": {"app": "d", HASH_LABEL: name, **labels}, "ownerReferences": [reference]}  # fmt: skip
    return {"metadata": metadata, "revision": number, "data": template_patch(owner(image))}


def pod(name: str, code: str) -> Json:
    return {"metadata": {"name": name, "namespace": "ns", "labels": {HASH_LABEL: code}}}


class Known:
    """The revisions of a DaemonSet."""

    def __init__(self, *revisions: Json, **refuses: tuple[int, str]) -> None:
        self.client = RecordingClient()
        self.client.refuses = refuses
        history = History(self.client, make_informers(CONTROLLER_REVISIONS).of(CONTROLLER_REVISIONS), DAEMON_SETS)  # type: ignore[arg-type]
        component = SimpleNamespace(client=self.client, record_write=lambda *given: given[-1])
        owned = SimpleNamespace(of=lambda _: list(revisions))
        self.revisions = Revisions(component, history, owned)  # type: ignore[arg-type]

    def of(self, of: Json, *pods: Json) -> tuple[Json, list[str]]:
        current, old = asyncio.run(self.revisions.of(of, pods))
        return current, [each["metadata"]["name"] for each in old]

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [
            (verb, what[0].removeprefix("ns/") if isinstance(what, tuple) else what["metadata"]["name"])
            for verb, _, what in self.client.writes
        ]


def test_a_new_template_gets_the_next_number_and_a_name_by_its_hash() -> None:
    known = Known(revision("x", 3, "b"), revision("y", 7, "c"))
    current, old = known.of(owner(mine="z"), pod("p", "x"))
    code = current["metadata"]["labels"][HASH_LABEL]
    assert (current["revision"], old) == (8, ["x", "y"])
    assert current["metadata"]["name"] == f"d-{code}"
    assert current["metadata"]["annotations"] == {"mine": "z"}
    assert current["metadata"]["labels"]["app"] == "d"
    assert template_of(current) == owner()["spec"]["template"]
    first, _ = Known().of(owner())
    assert first["revision"] == 1
    assert "annotations" not in first["metadata"]


def test_a_template_that_was_there_before_becomes_the_latest() -> None:
    known = Known(revision("x", 1), revision("y", 2, "b"))
    current, old = known.of(owner())
    assert (current["metadata"]["name"], current["revision"], old) == ("x", 3, ["y"])
    assert known.steps == [("update", "x")]
    latest = Known(revision("x", 3), revision("y", 2, "b"))
    assert latest.of(owner())[0]["revision"] == 3
    assert latest.steps == []


def test_of_several_with_one_template_the_latest_stays_and_has_the_pods() -> None:
    known = Known(revision("x", 1), revision("y", 2), revision("z", 1, "b"))
    current, old = known.of(owner(), pod("p", "x"), pod("q", "y"))
    assert (current["metadata"]["name"], old) == ("y", ["z"])
    assert known.steps == [("patch", "p"), ("delete", "x")]
    assert known.client.writes[0][2][1] == {"metadata": {"labels": {HASH_LABEL: "y"}}}
    Known(revision("x", 1), revision("y", 2), delete=(404, "NotFound")).of(owner())
    with pytest.raises(StatusError):
        Known(revision("x", 1), revision("y", 2), delete=(500, "InternalError")).of(owner())


def test_a_revision_of_an_old_controller_gets_its_label() -> None:
    bare = revision("x", 1)
    del bare["metadata"]["labels"][HASH_LABEL]
    known = Known(bare)
    assert known.of(owner())[0]["metadata"]["labels"] == {"app": "d", HASH_LABEL: "x"}
    assert known.steps == [("update", "x")]


def test_a_name_that_another_template_has_is_counted_and_tried_again() -> None:
    name = Known().of(owner())[0]["metadata"]["name"]
    taken = Known(create=(409, "AlreadyExists"))
    taken.client.there["ControllerRevision", name] = revision(name, 1, "b")
    with pytest.raises(NotYetError, match=f"revision name {name} is already in use"):
        taken.of(owner())
    assert taken.client.writes[-1][2]["status"] == {"collisionCount": 1}
    taken.client.there["ControllerRevision", name] = revision(name, 1)
    assert taken.of(owner())[0]["metadata"]["name"] == name
    other = Known().of(owner(status={"collisionCount": 1}))[0]["metadata"]["name"]
    assert other != name
    with pytest.raises(StatusError):
        Known(create=(500, "InternalError")).of(owner())


@pytest.mark.parametrize(("limit", "gone"), [(0, ["a", "c"]), (1, ["a", "c"]), (2, ["a"]), (3, []), (9, [])])
def test_the_oldest_that_no_pod_has_go(limit: int, gone: list[str]) -> None:
    known = Known()
    old = [revision(name, number) for number, name in enumerate("abc")]
    asyncio.run(known.revisions.clean_up(old, [pod("p", "b")], limit))
    assert [name for _, name in known.steps] == gone


# --- of all workloads


def test_revisions_go_by_number_then_time_then_name() -> None:
    found = [revision("c", 1), revision("b", 1), revision("a", 1, made=2), revision("z", 0)]
    assert [each["metadata"]["name"] for each in sort_revisions(found)] == ["z", "b", "c", "a"]
    assert (next_number([]), next_number(sort_revisions(found))) == (1, 2)


def test_what_is_null_counts_as_absent() -> None:
    one = {"data": {"spec": {"x": None, "list": [{"y": None, "z": 1}]}}}
    assert is_same_data(one, {"data": {"spec": {"list": [{"z": 1}]}}})
    assert not is_same_data(one, {"data": {"spec": {"list": [{"z": 2}]}}})
    assert with_template(owner("new"), revision("x", 1, "old"))["spec"]["template"] == owner("old")["spec"]["template"]
    assert template_of({"data": {}}) == {}


class Made:
    """The history of a StatefulSet, say."""

    def __init__(self, *taken: Json, **refuses: tuple[int, str]) -> None:
        self.client = RecordingClient()
        self.client.refuses = refuses
        for each in taken:
            self.client.there["ControllerRevision", each["metadata"]["name"]] = each
        self.history = History(self.client, make_informers(CONTROLLER_REVISIONS).of(CONTROLLER_REVISIONS), DAEMON_SETS)  # type: ignore[arg-type]


def test_a_revision_is_made_under_the_next_free_name() -> None:
    made = Made()
    wanted = made.history.new(owner(), 1, 0, {"mine": "z"})
    assert wanted["metadata"]["annotations"] == {"mine": "z"}
    assert "annotations" not in made.history.new(owner(), 1, 0)["metadata"]
    names = [made.history.new(owner(), 1, collisions)["metadata"]["name"] for collisions in range(3)]
    assert len(set(names)) == 3
    assert asyncio.run(made.history.create(owner(), wanted, 0)) == (wanted, 0)
    same = {**wanted, "metadata": {**wanted["metadata"], "name": names[1]}}
    taken = Made(revision(names[0], 1, "b"), same, create=(409, "AlreadyExists"))
    assert asyncio.run(taken.history.create(owner(), wanted, 0)) == (same, 1)
    with pytest.raises(StatusError):
        asyncio.run(Made(create=(500, "InternalError")).history.create(owner(), wanted, 0))


def test_revisions_that_nobody_uses_go_beyond_the_limit() -> None:
    found = [revision(name, number) for number, name in enumerate("abcd")]
    for limit, gone in ((0, ["a", "c", "d"]), (2, ["a"]), (3, []), (4, [])):
        made = Made()
        asyncio.run(made.history.truncate(found, ["b"], limit))
        assert [what[0] for _, _, what in made.client.writes] == [f"ns/{name}" for name in gone]
    asyncio.run(Made(delete=(404, "NotFound")).history.truncate(found, [], 0))
    with pytest.raises(StatusError):
        asyncio.run(Made(delete=(500, "InternalError")).history.truncate(found, [], 0))
    made = Made()
    assert asyncio.run(made.history.renumber(found[0], 0)) is found[0]
    assert asyncio.run(made.history.renumber(found[0], 5))["revision"] == 5
    assert made.client.verbs == ["update"]
