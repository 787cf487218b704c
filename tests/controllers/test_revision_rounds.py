"""Revisions of workloads: their templates, numbers and names, and which of them are deleted."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.controller import NotYetError
from controllers.runtime.kinds import DAEMON_SETS
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
from tests.support.objects import make_metadata, make_owner, make_pod
from tests.support.recording import RecordingClient

pytestmark = pytest.mark.integration


def owner(image: str = "a", status: Json | None = None, **annotations: str) -> Json:
    """Build the DaemonSet `d`."""
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "status": status or {},
            "metadata": make_metadata("d", "ns", "u", annotations=annotations),
            "spec": {"template": template, "selector": {"matchLabels": {"app": "d"}}}}  # fmt: skip


def revision(name: str, number: int, image: str = "a", made: int = 1) -> Json:
    metadata = make_metadata(
        name, "ns", name, creationTimestamp=f"2026-01-0{made}T00:00:00Z", labels={"app": "d", HASH_LABEL: name},
        ownerReferences=[make_owner(owner())],
    )  # fmt: skip
    return {
        "kind": "ControllerRevision",
        "metadata": metadata,
        "revision": number,
        "data": template_patch(owner(image)),
    }


def pod(name: str, revision: str) -> Json:
    return make_pod(name, labels={HASH_LABEL: revision})


class RevisionClient(RecordingClient):
    """The client of a history, and of the revisions of a DaemonSet. `live`: revisions that only the server has."""

    def __init__(self, *revisions: Json, live: Iterable[Json] = (), **refuses: tuple[int, str]) -> None:
        super().__init__()
        self.serve(*live)
        self.refuses = {**refuses}
        self.history = History(self, self.informer("ControllerRevision"), DAEMON_SETS)  # type: ignore[arg-type]
        component = SimpleNamespace(client=self, record_write=lambda *given: given[-1])
        owned = SimpleNamespace(of=lambda _: list(revisions))
        self.revisions = Revisions(component, self.history, owned)  # type: ignore[arg-type]

    async def find(self, of: Json, *pods: Json) -> tuple[Json, list[str]]:
        """Return the current revision and the names of the old ones."""
        current, old = await self.revisions.of(of, pods)
        return current, [each["metadata"]["name"] for each in old]

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [
            (verb, what[0].removeprefix("ns/") if isinstance(what, tuple) else what["metadata"]["name"])
            for verb, _, what in self.writes
        ]


async def test_a_new_template_gets_the_next_number_and_a_name_by_its_hash() -> None:
    known = RevisionClient(revision("x", 3, "b"), revision("y", 7, "c"))
    current, old = await known.find(owner(mine="z"), pod("p", "x"))
    code = current["metadata"]["labels"][HASH_LABEL]
    assert (current["revision"], old) == (8, ["x", "y"])
    assert current["metadata"]["name"] == f"d-{code}"
    assert current["metadata"]["annotations"] == {"mine": "z"}
    assert current["metadata"]["labels"]["app"] == "d"
    assert template_of(current) == owner()["spec"]["template"]
    first, _ = await RevisionClient().find(owner())
    assert first["revision"] == 1
    assert "annotations" not in first["metadata"]


async def test_a_template_that_was_there_before_becomes_the_latest() -> None:
    known = RevisionClient(revision("x", 1), revision("y", 2, "b"))
    current, old = await known.find(owner())
    assert (current["metadata"]["name"], current["revision"], old) == ("x", 3, ["y"])
    assert known.steps == [("update", "x")]
    latest = RevisionClient(revision("x", 3), revision("y", 2, "b"))
    assert (await latest.find(owner()))[0]["revision"] == 3
    assert latest.steps == []


async def test_of_several_with_one_template_the_latest_stays_and_has_the_pods() -> None:
    known = RevisionClient(revision("x", 1), revision("y", 2), revision("z", 1, "b"))
    current, old = await known.find(owner(), pod("p", "x"), pod("q", "y"))
    assert (current["metadata"]["name"], old) == ("y", ["z"])
    assert known.steps == [("patch", "p"), ("delete", "x")]
    assert known.writes[0][2][1] == {"metadata": {"labels": {HASH_LABEL: "y"}}}
    await RevisionClient(revision("x", 1), revision("y", 2), delete=(404, "NotFound")).find(owner())
    with pytest.raises(StatusError):
        await RevisionClient(revision("x", 1), revision("y", 2), delete=(500, "InternalError")).find(owner())


async def test_a_revision_of_an_old_controller_gets_its_label() -> None:
    bare = revision("x", 1)
    del bare["metadata"]["labels"][HASH_LABEL]
    known = RevisionClient(bare)
    assert (await known.find(owner()))[0]["metadata"]["labels"] == {"app": "d", HASH_LABEL: "x"}
    assert known.steps == [("update", "x")]


async def test_a_name_that_another_template_has_is_counted_and_tried_again() -> None:
    name = (await RevisionClient().find(owner()))[0]["metadata"]["name"]
    taken = RevisionClient(create=(409, "AlreadyExists"))
    taken.serve(revision(name, 1, "b"))
    with pytest.raises(NotYetError, match=f"revision name {name} is already in use"):
        await taken.find(owner())
    assert taken.writes[-1][2]["status"] == {"collisionCount": 1}
    taken.serve(revision(name, 1))
    assert (await taken.find(owner()))[0]["metadata"]["name"] == name
    other = (await RevisionClient().find(owner(status={"collisionCount": 1})))[0]["metadata"]["name"]
    assert other != name
    with pytest.raises(StatusError):
        await RevisionClient(create=(500, "InternalError")).find(owner())


@pytest.mark.parametrize(("limit", "gone"), [(0, ["a", "c"]), (1, ["a", "c"]), (2, ["a"]), (3, []), (9, [])])
async def test_the_oldest_that_no_pod_has_go(limit: int, gone: list[str]) -> None:
    known = RevisionClient()
    old = [revision(name, number) for number, name in enumerate("abc")]
    await known.revisions.clean_up(old, [pod("p", "b")], limit)
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


async def test_a_revision_is_made_under_the_next_free_name() -> None:
    made = RevisionClient()
    wanted = made.history.new(owner(), 1, 0, {"mine": "z"})
    assert wanted["metadata"]["annotations"] == {"mine": "z"}
    assert "annotations" not in made.history.new(owner(), 1, 0)["metadata"]
    names = [made.history.new(owner(), 1, number)["metadata"]["name"] for number in range(3)]
    assert len(set(names)) == 3
    created, collisions = await made.history.create(owner(), wanted, 0)
    assert (created["metadata"]["name"], created["data"], collisions) == (names[0], wanted["data"], 0)
    same = {**wanted, "metadata": {**wanted["metadata"], "name": names[1]}}
    taken = RevisionClient(live=[revision(names[0], 1, "b"), same], create=(409, "AlreadyExists"))
    assert await taken.history.create(owner(), wanted, 0) == (same, 1)
    with pytest.raises(StatusError):
        await RevisionClient(create=(500, "InternalError")).history.create(owner(), wanted, 0)


async def test_unused_revisions_go_beyond_the_limit() -> None:
    found = [revision(name, number) for number, name in enumerate("abcd")]
    for limit, gone in ((0, ["a", "c", "d"]), (2, ["a"]), (3, []), (4, [])):
        made = RevisionClient()
        await made.history.truncate(found, ["b"], limit)
        assert [what[0] for _, _, what in made.writes] == [f"ns/{name}" for name in gone]
    await RevisionClient(delete=(404, "NotFound")).history.truncate(found, [], 0)
    with pytest.raises(StatusError):
        await RevisionClient(delete=(500, "InternalError")).history.truncate(found, [], 0)
    made = RevisionClient()
    assert await made.history.renumber(found[0], 0) is found[0]
    assert (await made.history.renumber(found[0], 5))["revision"] == 5
    assert made.verbs == ["update"]
