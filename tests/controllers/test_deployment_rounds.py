"""The controller of Deployments in one pass: which ReplicaSets it makes, scales and deletes, what it writes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import PODS
from controllers.workloads.deployment.replicasets import DESIRED, HASH_LABEL, HISTORY, MAX_REPLICAS, REVISION
from tests.controllers.deployments import build, deployment, held, reconcile
from tests.support.objects import make_pod

pytestmark = pytest.mark.integration

# --- the ReplicaSet of the template


async def test_a_template_without_a_replica_set_gets_one() -> None:
    client = await reconcile(deployment(annotations={"mine": "z", REVISION: "9"}, minReadySeconds=5), held("old", 4, 1))
    [made] = client.made
    code = made["metadata"]["labels"][HASH_LABEL]
    assert (made["apiVersion"], made["kind"], made["metadata"]["namespace"]) == ("apps/v1", "ReplicaSet", "ns")
    assert made["metadata"]["name"] == f"d-{code}"
    assert made["metadata"]["labels"] == {"app": "x", HASH_LABEL: code}
    assert made["metadata"]["annotations"] == {"mine": "z", REVISION: "2", DESIRED: "4", MAX_REPLICAS: "5"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert (made["spec"]["replicas"], made["spec"]["minReadySeconds"]) == (1, 5)
    assert made["spec"]["selector"] == {"matchLabels": {"app": "x", HASH_LABEL: code}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "x", HASH_LABEL: code}
    assert client.messages == [f"Scaled up replica set d-{code} from 0 to 1"]
    [first, *_] = client.bodies("update/status", "Deployment")
    assert first["metadata"]["annotations"] == {"mine": "z", REVISION: "2"}
    [created] = first["status"]["conditions"]
    assert (created["reason"], created["message"]) == ("NewReplicaSetCreated", f'Created new replica set "d-{code}"')
    assert client.progress == ("True", "ReplicaSetUpdated")
    assert client.requeue_after == timedelta(seconds=61)
    plain = await reconcile(deployment(replicas=0, progressDeadlineSeconds=None))
    assert (plain.messages, plain.progress, plain.requeue_after) == ([], None, None)
    assert "minReadySeconds" not in plain.made[0]["spec"]
    assert plain.made[0]["metadata"]["annotations"][REVISION] == "1"


async def test_a_long_name_leaves_room_for_the_hash() -> None:
    of = deployment()
    of["metadata"]["name"] = "d" * 253
    client = build(of)
    client.component.owners.set_object("ns/d", of)
    [made] = (await client.reconcile("ns/d")).made
    code = made["metadata"]["labels"][HASH_LABEL]
    assert made["metadata"]["name"] == f"{'d' * (252 - len(code))}-{code}"


async def test_a_name_that_is_taken_is_ours_or_counted() -> None:
    exists = (409, "AlreadyExists")
    name = (await reconcile(deployment())).made[0]["metadata"]["name"]
    ours = build(deployment(), refuses={"create": exists})
    ours.there["ReplicaSet", name] = held("new", 4, 1)
    await ours.reconcile("ns/d")
    assert (ours.error, ours.events, ours.bodies("update/status", "Deployment")[0]["status"]) == (None, [], {})
    for other in (held("old", 4, 1), {**held("new", 4, 1), "metadata": {"name": name, "namespace": "ns", "uid": "z"}}):
        theirs = build(deployment(status={"collisionCount": 2}), refuses={"create": exists})
        code = (await reconcile(deployment(status={"collisionCount": 2}))).made[0]["metadata"]["name"]
        assert code != name
        theirs.there["ReplicaSet", code] = other
        assert (await theirs.reconcile("ns/d")).error is not None
        assert theirs.status["collisionCount"] == 3


async def test_a_replica_set_that_cannot_be_created_is_reported() -> None:
    client = await reconcile(deployment(), refuses={"create": (500, "InternalError")})
    name = client.made[0]["metadata"]["name"]
    text = f'Failed to create new replica set "{name}": refused'
    assert client.events == [("Warning", "ReplicaSetCreateError", text)]
    assert client.progress == ("False", "ReplicaSetCreateError")
    assert client.error is not None
    kept = await reconcile(deployment(status={"collisionCount": 2}), refuses={"create": (500, "InternalError")})
    assert kept.status["collisionCount"] == 2
    again = await reconcile(deployment(status=client.status), refuses={"create": (500, "InternalError")})
    assert again.bodies("update/status", "Deployment") == []
    unlimited = await reconcile(
        deployment(progressDeadlineSeconds=2**31 - 1), refuses={"create": (500, "InternalError")}
    )
    assert (unlimited.progress, len(unlimited.events)) == (None, 1)


async def test_the_annotations_and_fields_of_the_new_replica_set_follow_the_deployment() -> None:
    found = await reconcile(deployment(annotations={REVISION: "1"}), held("new", 4, 1, of=4))
    assert (found.sizes, found.progress) == ({}, ("True", "NewReplicaSetAvailable"))
    first = found.bodies("update/status", "Deployment")[0]["status"]["conditions"][0]
    assert (first["reason"], first["message"]) == ("FoundNewReplicaSet", 'Found new replica set "d-new"')
    seconds = await reconcile(deployment(minReadySeconds=7), held("new", 4, 1, of=4))
    assert [each["spec"]["minReadySeconds"] for each in seconds.bodies("update", "ReplicaSet")] == [7]
    back = await reconcile(deployment(annotations={"mine": "z"}), held("new", 4, 1, of=4), held("old", 0, 2))
    [updated] = back.bodies("update", "ReplicaSet")
    assert updated["metadata"]["annotations"] == {
        REVISION: "3", HISTORY: "1", "mine": "z", DESIRED: "4", MAX_REPLICAS: "5",
    }  # fmt: skip
    told = await reconcile(deployment(), held("new", 4, 2, of=4))
    assert told.bodies("update/status", "Deployment")[0]["metadata"]["annotations"] == {REVISION: "2"}


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
async def test_a_roll_out_goes_as_far_as_surge_and_availability_let_it(
    new: tuple[int, int], old: list[tuple[int, int]], surge: int, missing: int, sizes: dict[str, int]
) -> None:
    names = ["a", "old"][-len(old) :]
    sets = [
        held(name, size, number, ready) for number, (name, (size, ready)) in enumerate(zip(names, old, strict=True), 1)
    ]
    client = await reconcile(deployment(surge=surge, missing=missing), held("new", new[0], 5, new[1]), *reversed(sets))
    assert client.sizes == sizes


async def test_scaling_emits_an_event_and_sets_the_size_annotations() -> None:
    client = await reconcile(deployment(), held("new", 1, 2, of=4), held("old", 4, 1, of=4))
    assert client.messages == ["Scaled down replica set d-old from 4 to 3"]
    [updated] = client.bodies("update", "ReplicaSet")
    assert updated["metadata"]["annotations"] == {REVISION: "1", DESIRED: "4", MAX_REPLICAS: "5"}


def make_pod_of(image: str, phase: str = "Running", **owner: str) -> Json:
    """Build a pod of the ReplicaSet of an image."""
    replica_set = held(image, 0, 1)
    replica_set["metadata"] |= owner
    return make_pod(f"p-{image}", owner=replica_set, status={"phase": phase})


RECREATE: Json = {"strategy": {"type": "Recreate"}}


async def test_recreate_starts_no_new_pods_before_the_old_ones_have_ended() -> None:
    first = await reconcile(deployment(**RECREATE), held("old", 4, 1), held("older", 0, 1))
    assert (first.sizes, first.made) == ({"old": 0}, [])
    counted = held("old", 0, 1)
    counted["status"] = {"replicas": 1}
    assert (await reconcile(deployment(**RECREATE), counted)).made == []
    assert (await reconcile(deployment(**RECREATE), held("old", 0, 1), make_pod_of("old"))).made == []
    assert (await reconcile(deployment(**RECREATE), held("old", 0, 1), make_pod_of("old", "Failed"))).made[0]["spec"][
        "replicas"
    ] == 4
    grown = await reconcile(deployment(**RECREATE), held("new", 2, 2), held("old", 0, 1), make_pod_of("new"))
    assert grown.sizes == {"new": 4}


def test_the_last_pod_that_goes_enqueues_a_recreated_deployment() -> None:
    def woken(of: Json, known: Json) -> list[str]:
        client, queue = build(of, held("old", 0, 1), known), list[str]()
        client.component.queue = queue.append
        client.informers.of(PODS).set_object("ns/" + known["metadata"]["name"], None)
        return queue

    assert woken(deployment(**RECREATE), make_pod_of("old")) == ["ns/d"]
    assert woken(deployment(), make_pod_of("old")) == woken(deployment(**RECREATE), make_pod_of("gone")) == []
    assert woken(deployment(**RECREATE), make_pod_of("old", uid="other")) == []
    bare = make_pod_of("old")
    bare["metadata"]["ownerReferences"][0]["kind"] = "Job"
    assert woken(deployment(**RECREATE), bare) == []
