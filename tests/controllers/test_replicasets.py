"""ReplicaSets and ReplicationControllers keep as many pods as they are asked for, on a control plane in virtual time."""

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.runtime.kinds import PODS, REPLICA_SETS
from controllers.runtime.times import go_time
from controllers.workloads.replicaset.replicaset import MANY
from kubedra.pytest_plugin import Kube
from tests.scheduler.world import World
from tests.support.virtual import passes

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]
LABELS = {"app": "web"}


def replica_set(name: str = "web", replicas: int = 3, **spec: Any) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}


def pod(name: str, **metadata: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "labels": LABELS, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def pods(kube: Any) -> list[Json]:
    found: list[Json] = kube.client().list("pods")
    return found


def events(kube: Any, reason: str) -> list[str]:
    return [event["message"] for event in kube.client().list("events") if event["reason"] == reason]


def test_pods_are_made_counted_and_replaced(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([replica_set()])
    made = pods(kube)
    assert len(made) == 3
    owner = kube.get("replicaset/web")
    for each in made:
        assert each["metadata"]["generateName"] == "web-"
        assert each["metadata"]["ownerReferences"] == [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}
        ]  # fmt: skip
    assert sorted(events(kube, "SuccessfulCreate")) == sorted(f"Created pod: {p['metadata']['name']}" for p in made)
    kube.run_until_idle()
    assert kube.get("replicaset/web")["status"] == {
        "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "terminatingReplicas": 0, "observedGeneration": 1,
    }  # fmt: skip
    kube.client().delete(f"pod/{made[0]['metadata']['name']}")
    kube.run_until_idle()
    assert len(pods(kube)) == 3
    assert kube.get("replicaset/web")["status"]["readyReplicas"] == 3


def test_labels_of_a_changed_template_are_counted_again(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([replica_set()])
    kube.run_until_idle()
    for labels, number in (({**LABELS, "version": "2"}, 0), ({"version": None}, 3)):
        kube.client().patch("replicaset/web", {"spec": {"template": {"metadata": {"labels": labels}}}})
        kube.run_until_idle()
        assert kube.get("replicaset/web")["status"].get("fullyLabeledReplicas", 0) == number


def test_orphans_are_adopted_and_pods_that_do_not_match_given_up(kube: Kube) -> None:
    kube.apply([pod("bare")])
    kube.apply([replica_set(replicas=2)])
    uid = kube.get("replicaset/web")["metadata"]["uid"]
    assert [owner["uid"] for owner in kube.get("pod/bare")["metadata"]["ownerReferences"]] == [uid]
    assert len(pods(kube)) == 2
    kube.client().patch("pod/bare", {"metadata": {"labels": {"app": "other"}}})
    assert "ownerReferences" not in kube.get("pod/bare")["metadata"]
    assert len(pods(kube)) == 3
    kube.client().patch("pod/bare", {"metadata": {"labels": LABELS}})
    assert len([each for each in pods(kube) if "deletionTimestamp" not in each["metadata"]]) == 2


def test_a_replication_controller_does_the_same(kube: Kube) -> None:
    kube.add_node("worker")
    spec = {**replica_set(replicas=2)["spec"], "selector": LABELS}
    kube.apply([{"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}, "spec": spec}])
    kube.run_until_idle()
    assert kube.get("replicationcontroller/old")["status"] == {
        "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1,
    }  # fmt: skip
    assert {
        event["source"]["component"] for event in kube.client().list("events") if "Created" in event["message"]
    } == {"replication-controller"}


def _in_ns(obj: Json) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "ns"}}


async def test_changes_of_many_pods_are_handled_in_one_pass() -> None:
    async with World("replicaset-controller") as world:
        number = MANY * 2
        await world.create(REPLICA_SETS, _in_ns(replica_set("many", number)))
        await passes(2)
        [component] = world.manager.components
        looks = 0
        sync = component.sync  # type: ignore[attr-defined]

        async def counted(key: str, owner: Json) -> Any:
            nonlocal looks
            looks += 1
            return await sync(key, owner)

        component.sync = counted  # type: ignore[attr-defined]
        for pod in (await world.client.list(PODS, "ns"))["items"]:
            condition = {"type": "Ready", "status": "True", "lastTransitionTime": go_time(now())}
            await world.client.update_status(PODS, {**pod, "status": {"phase": "Running", "conditions": [condition]}})
        await passes(1)
        assert (await world.client.get(REPLICA_SETS, "many", "ns"))["status"]["readyReplicas"] == number
        assert looks < number / 10
