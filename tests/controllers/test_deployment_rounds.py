"""What the controller of Deployments does at one look: which ReplicaSets it makes, scales and deletes, what it writes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apiserver.api.objects import Json
from controllers.workloads.deployment.replicasets import DESIRED, HASH_LABEL, HISTORY, MAX_REPLICAS, REVISION
from tests.controllers.deploymentrounds import Look, deployment, held

pytestmark = pytest.mark.integration

# --- the ReplicaSet of the template


def test_a_template_without_a_replica_set_gets_one() -> None:
    look = Look(deployment(said={"mine": "z", REVISION: "9"}, minReadySeconds=5), held("old", 4, 1))()
    [made] = look.made
    code = made["metadata"]["labels"][HASH_LABEL]
    assert (made["apiVersion"], made["kind"], made["metadata"]["namespace"]) == ("apps/v1", "ReplicaSet", "ns")
    assert made["metadata"]["name"] == f"d-{code}"
    assert made["metadata"]["labels"] == {"app": "x", HASH_LABEL: code}
    assert made["metadata"]["annotations"] == {"mine": "z", REVISION: "2", DESIRED: "4", MAX_REPLICAS: "5"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert (made["spec"]["replicas"], made["spec"]["minReadySeconds"]) == (1, 5)
    assert made["spec"]["selector"] == {"matchLabels": {"app": "x", HASH_LABEL: code}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "x", HASH_LABEL: code}
    assert look.messages == [f"Scaled up replica set d-{code} from 0 to 1"]
    [first, *_] = look.of_kind("update/status", "Deployment")
    assert first["metadata"]["annotations"] == {"mine": "z", REVISION: "2"}
    [created] = first["status"]["conditions"]
    assert (created["reason"], created["message"]) == ("NewReplicaSetCreated", f'Created new replica set "d-{code}"')
    assert look.progress == ("True", "ReplicaSetUpdated")
    assert look.again == timedelta(seconds=61)
    plain = Look(deployment(replicas=0, progressDeadlineSeconds=None))()
    assert (plain.messages, plain.progress, plain.again) == ([], None, None)
    assert "minReadySeconds" not in plain.made[0]["spec"]
    assert plain.made[0]["metadata"]["annotations"][REVISION] == "1"


def test_a_long_name_leaves_room_for_the_hash() -> None:
    of = deployment()
    of["metadata"]["name"] = "d" * 253
    look = Look(of)
    look.component.owners.set_object("ns/d", of)
    [made] = look().made
    code = made["metadata"]["labels"][HASH_LABEL]
    assert made["metadata"]["name"] == f"{'d' * (252 - len(code))}-{code}"


def test_a_name_that_is_taken_is_ours_or_counted() -> None:
    exists = (409, "AlreadyExists")
    name = Look(deployment()).__call__().made[0]["metadata"]["name"]
    ours = Look(deployment(), create=exists)
    ours.client.there["ReplicaSet", name] = held("new", 4, 1)
    assert (ours().error, ours.told.events, ours.of_kind("update/status", "Deployment")[0]["status"]) == (None, [], {})
    for other in (held("old", 4, 1), {**held("new", 4, 1), "metadata": {"name": name, "namespace": "ns", "uid": "z"}}):
        theirs = Look(deployment(status={"collisionCount": 2}), create=exists)
        code = Look(deployment(status={"collisionCount": 2}))().made[0]["metadata"]["name"]
        assert code != name
        theirs.client.there["ReplicaSet", code] = other
        assert theirs().error is not None
        assert theirs.status["collisionCount"] == 3


def test_a_replica_set_that_cannot_be_made_is_told() -> None:
    look = Look(deployment(), create=(500, "InternalError"))()
    name = look.made[0]["metadata"]["name"]
    text = f'Failed to create new replica set "{name}": refused'
    assert look.told.events == [("Warning", "ReplicaSetCreateError", text)]
    assert look.progress == ("False", "ReplicaSetCreateError")
    assert look.error is not None
    kept = Look(deployment(status={"collisionCount": 2}), create=(500, "InternalError"))()
    assert kept.status["collisionCount"] == 2
    again = Look(deployment(status=look.status), create=(500, "InternalError"))()
    assert again.of_kind("update/status", "Deployment") == []
    unlimited = Look(deployment(progressDeadlineSeconds=2**31 - 1), create=(500, "InternalError"))()
    assert (unlimited.progress, len(unlimited.told.events)) == (None, 1)


def test_what_the_replica_set_of_the_template_says_follows() -> None:
    found = Look(deployment(said={REVISION: "1"}), held("new", 4, 1, of=4))()
    assert (found.sizes, found.progress) == ({}, ("True", "NewReplicaSetAvailable"))
    first = found.of_kind("update/status", "Deployment")[0]["status"]["conditions"][0]
    assert (first["reason"], first["message"]) == ("FoundNewReplicaSet", 'Found new replica set "d-new"')
    seconds = Look(deployment(minReadySeconds=7), held("new", 4, 1, of=4))()
    assert [each["spec"]["minReadySeconds"] for each in seconds.of_kind("update", "ReplicaSet")] == [7]
    back = Look(deployment(said={"mine": "z"}), held("new", 4, 1, of=4), held("old", 0, 2))()
    [updated] = back.of_kind("update", "ReplicaSet")
    assert updated["metadata"]["annotations"] == {
        REVISION: "3", HISTORY: "1", "mine": "z", DESIRED: "4", MAX_REPLICAS: "5",
    }  # fmt: skip
    told = Look(deployment(), held("new", 4, 2, of=4))()
    assert told.of_kind("update/status", "Deployment")[0]["metadata"]["annotations"] == {REVISION: "2"}


# --- from one template to another


@pytest.mark.parametrize(
    ("new", "old", "surge", "missing", "sizes"),
    [
        ((0, 0), [(4, 4)], 1, 0, {"new": 1}),
        ((1, 0), [(4, 4)], 1, 0, {}),
        ((1, 1), [(4, 4)], 1, 0, {"old": 3}),
        ((1, 1), [(3, 3)], 1, 0, {"new": 2}),
        ((3, 3), [(4, 4)], 3, 0, {"old": 1}),
        ((2, 0), [(4, 2)], 2, 1, {"old": 3}),
        ((2, 1), [(4, 1)], 2, 0, {"old": 3}),
        ((2, 2), [(2, 2), (2, 2)], 2, 0, {"a": 0}),
        ((2, 2), [(1, 1), (3, 3)], 2, 0, {"a": 0, "old": 2}),
        ((2, 2), [(2, 0), (2, 2)], 2, 0, {"a": 0}),
        ((2, 2), [(2, 1), (2, 1)], 2, 0, {"a": 1, "old": 1}),
        ((3, 3), [(2, 1), (2, 1)], 3, 0, {"a": 0, "old": 1}),
        ((4, 3), [(1, 1)], 1, 0, {}),
        ((4, 4), [(1, 1)], 1, 0, {"old": 0}),
        ((5, 5), [(1, 1)], 1, 0, {"new": 4}),
    ],
)
def test_a_roll_out_goes_as_far_as_surge_and_availability_let_it(
    new: tuple[int, int], old: list[tuple[int, int]], surge: int, missing: int, sizes: dict[str, int]
) -> None:
    names = ["a", "old"][-len(old) :]
    sets = [
        held(name, size, number, ready) for number, (name, (size, ready)) in enumerate(zip(names, old, strict=True), 1)
    ]
    look = Look(deployment(surge=surge, missing=missing), held("new", new[0], 5, new[1]), *reversed(sets))()
    assert look.sizes == sizes


def test_sizes_are_told_with_their_direction_and_remembered() -> None:
    look = Look(deployment(), held("new", 1, 2, of=4), held("old", 4, 1, of=4))()
    assert look.messages == ["Scaled down replica set d-old from 4 to 3"]
    [updated] = look.of_kind("update", "ReplicaSet")
    assert updated["metadata"]["annotations"] == {REVISION: "1", DESIRED: "4", MAX_REPLICAS: "5"}


def pod(of: str, phase: str = "Running", uid: str = "") -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"d-{of}", "uid": uid or of, "controller": True}
    metadata = {"name": f"p-{of}", "namespace": "ns", "uid": f"p-{of}", "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase}}


RECREATE = {"strategy": {"type": "Recreate"}}


def test_made_anew_nothing_new_comes_before_the_old_has_ended() -> None:
    first = Look(deployment(**RECREATE), held("old", 4, 1), held("older", 0, 1))()
    assert (first.sizes, first.made) == ({"old": 0}, [])
    counted = held("old", 0, 1)
    counted["status"] = {"replicas": 1}
    assert Look(deployment(**RECREATE), counted)().made == []
    assert Look(deployment(**RECREATE), held("old", 0, 1), pods=(pod("old"),))().made == []
    assert (
        Look(deployment(**RECREATE), held("old", 0, 1), pods=(pod("old", "Failed"),))().made[0]["spec"]["replicas"] == 4
    )
    grown = Look(deployment(**RECREATE), held("new", 2, 2), held("old", 0, 1), pods=(pod("new"),))()
    assert grown.sizes == {"new": 4}


def test_the_last_pod_that_goes_wakes_a_deployment_that_is_made_anew() -> None:
    def woken(of: Json, known: Json) -> list[str]:
        look, queue = Look(of, held("old", 0, 1), pods=(known,)), list[str]()
        look.component.queue = queue.append  # type: ignore[method-assign]
        look.pods.set_object("ns/" + known["metadata"]["name"], None)
        return queue

    assert woken(deployment(**RECREATE), pod("old")) == ["ns/d"]
    assert woken(deployment(), pod("old")) == woken(deployment(**RECREATE), pod("gone")) == []
    assert woken(deployment(**RECREATE), pod("old", uid="other")) == []
    bare = pod("old")
    bare["metadata"]["ownerReferences"][0]["kind"] = "Job"
    assert woken(deployment(**RECREATE), bare) == []
