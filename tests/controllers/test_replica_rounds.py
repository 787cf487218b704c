"""One pass over a ReplicaSet: the pods that it makes and deletes, and its status, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.options.options import Options
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import REPLICA_SETS, REPLICATION_CONTROLLERS, Kind
from controllers.runtime.times import go_time
from controllers.workloads.common.pod_control import BURST
from controllers.workloads.replicaset.replicaset import NAME, ReplicaSets
from tests.support.objects import make_metadata, make_pod
from tests.support.recording import RecordingClient, build

pytestmark = pytest.mark.integration

LABELS = {"app": "web"}


def owner(replicas: int | None = 2, name: str = "web", kind: str = "ReplicaSet", owners: Any = (), **spec: Any) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": []}}
    selector = LABELS if kind == "ReplicationController" else {"matchLabels": LABELS}
    size = {} if replicas is None else {"replicas": replicas}
    metadata = make_metadata(name, "ns", f"u-{name}", generation=3, ownerReferences=owners)
    spec = {**size, "selector": selector, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def pod(name: str, of: str = "web", ready: bool = False, age: float = 60, deleted: bool = False, **more: Any) -> Json:
    """Build a pod. `age`: seconds, also since it was ready."""
    created = go_time(clock.now() - timedelta(seconds=age))
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": created}] if ready else []
    status = {"phase": more.pop("phase", "Running"), "conditions": conditions}
    fields = {"uid": name, "node": "n", "labels": LABELS, "status": status, **more}
    return make_pod(name, owner=owner(name=of), created=created, deleted=created if deleted else "", **fields)


class ReplicaSetClient(RecordingClient):
    @property
    def deleted(self) -> list[str]:
        return sorted(name.removeprefix("ns/") for name, _ in self.bodies("delete"))


async def reconcile(
    found: Json, *objects: Json, pauses: Sequence[float] = (0,), kind: Kind = REPLICA_SETS, **more: Any
) -> ReplicaSetClient:
    """Sync the owner after each of these pauses. The client keeps the writes of the last pass."""

    def builder(client: Any, informers: Informers, options: Options) -> ReplicaSets:
        return ReplicaSets(NAME, client, informers, options, kind, source=NAME, queue="replicaset")

    client = build(builder, ReplicaSetClient(), found, *objects, **more)
    for pause in pauses:
        await asyncio.sleep(pause)
        client.writes = []
        await client.run(client.component.sync("ns/web", found))
    return client


@pytest.mark.parametrize(
    ("replicas", "there", "made", "gone"),
    [(None, 0, 1, 0), (None, 1, 0, 0), (0, 1, 0, 1), (2, 0, 2, 0), (2, 2, 0, 0), (2, 5, 0, 3), (3, 2, 1, 0),
     (BURST + 9, 0, BURST, 0)],
)  # fmt: skip
async def test_the_difference_is_made_or_deleted(replicas: int | None, there: int, made: int, gone: int) -> None:
    client = await reconcile(owner(replicas), *(pod(f"p{number}") for number in range(there)))
    assert (client.verbs.count("create"), client.verbs.count("delete")) == (made, gone)
    assert client.reasons == ["SuccessfulCreate"] * made + ["SuccessfulDelete"] * gone
    assert all(body["metadata"]["labels"] == LABELS for body in client.bodies("create"))
    assert client.status["replicas"] == there


async def test_pods_that_end_or_go_are_replaced_and_deleted_ones_are_counted() -> None:
    pods = [pod("ended", phase="Failed"), pod("goes", deleted=True), pod("over", phase="Succeeded", deleted=True),
            pod("other", labels={"app": "x"}, deleted=True), pod("others", of="another", deleted=True)]  # fmt: skip
    client = await reconcile(owner(1), *pods)
    assert client.verbs.count("create") == 1
    assert client.status == {"replicas": 0, "terminatingReplicas": 1, "observedGeneration": 3}
    off = await reconcile(owner(1), *pods, gates={"DeploymentReplicaSetTerminatingReplicas": False})
    assert off.status == {"replicas": 0, "observedGeneration": 3}
    old = owner(1, kind="ReplicationController")
    assert "terminatingReplicas" not in (await reconcile(old, *pods, kind=REPLICATION_CONTROLLERS)).status


async def test_an_owner_that_is_being_deleted_makes_and_deletes_nothing() -> None:
    found = owner(0)
    found["metadata"]["deletionTimestamp"] = "x"
    client = await reconcile(found, pod("a"))
    assert (client.verbs, client.status["replicas"]) == (["update/status"], 1)


@pytest.mark.parametrize(
    ("replicas", "verb", "seconds", "refuses", "writes"),
    [
        (2, "create", 1, {}, 0),
        (2, "create", 299, {}, 0),
        (2, "create", 301, {}, 2),
        (0, "delete", 1, {}, 0),
        (0, "delete", 301, {}, 1),
        (2, "create", 1, {"create": (403, "Forbidden")}, 1),
        (0, "delete", 1, {"delete": (403, "Forbidden")}, 1),
    ],
)
async def test_a_write_is_not_repeated_until_it_is_seen_or_was_refused(
    replicas: int, verb: str, seconds: float, refuses: Json, writes: int
) -> None:
    pods = [] if replicas else [pod("a")]
    client = await reconcile(owner(replicas), *pods, pauses=(0, seconds), refuses=refuses)
    assert client.verbs.count(verb) == writes


async def test_an_owner_that_is_gone_has_no_expectations() -> None:
    client = await reconcile(owner(2))
    assert not client.component._expectations.is_satisfied("ns/web")
    client.component.owner_deleted("ns/web")
    assert client.component._expectations.is_satisfied("ns/web")


@pytest.mark.parametrize(
    ("replicas", "names", "verb", "reason"),
    [(None, "", "create", "FailedCreate"), (2, "", "create", "FailedCreate"), (0, "ab", "delete", "FailedDelete")],
)
async def test_a_failure_sets_a_condition_and_is_tried_again(
    replicas: int | None, names: str, verb: str, reason: str
) -> None:
    client = await reconcile(owner(replicas), *(pod(name) for name in names), refuses={verb: (403, "Forbidden")})
    assert client.error is not None
    [condition] = client.status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "ReplicaFailure", "True", reason, str(client.error),
    )  # fmt: skip
    assert set(client.reasons) == {reason}


async def test_a_condition_stays_while_it_fails_and_goes_when_it_does_not() -> None:
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedDelete", "message": "before"}
    other = {"type": "Mine", "status": "True"}
    found = {**owner(1), "status": {"replicas": 7, "readyReplicas": 7, "mine": 1, "conditions": [failed, other]}}
    again = await reconcile(found, refuses={"create": (403, "Forbidden")})
    assert again.status["conditions"] == [failed, other]
    well = await reconcile(found)
    assert well.status == {
        "replicas": 0, "terminatingReplicas": 0, "observedGeneration": 3, "mine": 1, "conditions": [other],
    }  # fmt: skip


async def test_a_pod_that_is_gone_needs_no_deletion() -> None:
    client = await reconcile(owner(0), pod("a"), refuses={"delete": (404, "NotFound")})
    assert (client.error, client.reasons, client.status["replicas"]) == (None, [], 1)


async def test_an_unchanged_status_is_not_written() -> None:
    status = {"replicas": 1, "fullyLabeledReplicas": 1, "terminatingReplicas": 0, "observedGeneration": 3}
    assert (await reconcile({**owner(1), "status": status}, pod("a"))).writes == []


async def test_pods_are_counted_by_labels_and_readiness() -> None:
    labels = {**LABELS, "tier": "x"}
    pods = [pod("a", ready=True, age=100), pod("b", ready=True, age=0), pod("c"), pod("d", labels=labels)]
    full = owner(4)
    full["spec"]["template"]["metadata"]["labels"] = labels
    counts = {"replicas": 4, "fullyLabeledReplicas": 1, "readyReplicas": 2, "availableReplicas": 2}
    immediate = await reconcile(full, *pods)
    assert {name: immediate.status[name] for name in counts} == counts
    assert immediate.requeue_after is None
    full["spec"]["minReadySeconds"] = 60
    later = await reconcile(full, *pods)
    assert (later.status["availableReplicas"], later.requeue_after) == (1, timedelta(seconds=60))
    bare = owner(4)
    bare["spec"]["template"] = {}
    assert (await reconcile(bare, *pods)).status["fullyLabeledReplicas"] == 4


async def test_pods_on_nodes_with_more_of_the_same_controller_go_first() -> None:
    controller = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u-d", "controller": True}]
    another = [{**controller[0], "uid": "another"}]

    def other(name: str, owners: Any) -> Json:
        return owner(2, name, owners=owners, selector={"matchLabels": {"app": name}})

    pods = [pod("x", node="full", ready=True, age=10), pod("y", node="other", ready=True, age=10),
            pod("s", of="sibling", node="full", labels={"app": "sibling"}),
            *(pod(f"t{n}", of="stranger", node="other", labels={"app": "stranger"}) for n in range(3))]  # fmt: skip
    client = await reconcile(owner(1, owners=controller), *pods, other("sibling", controller), other("stranger", ()))
    assert client.deleted == ["x"]
    alone = [pod("x", node="a", age=10), pod("y", node="b", age=10), pod("z", node="b", age=10)]
    assert len((await reconcile(owner(1), *alone, other("sibling", another))).deleted) == 2


@pytest.mark.parametrize(
    ("ages", "replicas", "ratios"),
    [
        ([(100, True), (1000, True)], 1, [1]),
        ([(100, True), (250, True), (100, False)], 0, []),
        ([(100, True), (250, True), (50, False)], 2, []),
        ([(100, True), (2_000_000, True), (2_000_001, True)], 1, [1, 20000]),
        ([(0, True), (0, True)], 1, []),
    ],
)
async def test_the_age_of_deleted_pods_is_measured_by_the_youngest(
    ages: list[tuple[float, bool]], replicas: int, ratios: list[int]
) -> None:
    client = await reconcile(
        owner(replicas), *(pod(f"p{n}", ready=ready, age=age) for n, (age, ready) in enumerate(ages))
    )
    assert len(client.deleted) == len(ages) - replicas
    [sample] = client.component._age_ratio._samples.values()
    assert (sum(sample.counts), sample.sum) == (len(ratios), sum(ratios))
