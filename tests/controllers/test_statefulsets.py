"""StatefulSets keep numbered pods and their claims, on a control plane in virtual time."""

from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra.pytest_plugin import Kube

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]
LABELS = {"app": "db"}


def stateful_set(replicas: int = 3, image: str = "i:1", **spec: Any) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {
        "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": LABELS}, "template": template, **spec,
    }  # fmt: skip
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def names(kube: Any, kind: str = "pods") -> list[str]:
    return sorted(each["metadata"]["name"] for each in kube.client().list(kind))


def images(kube: Any) -> list[str]:
    return [kube.get(f"pod/{name}")["spec"]["containers"][0]["image"] for name in names(kube)]


def patch(kube: Any, **spec: Any) -> None:
    kube.client().patch("statefulset/db", {"spec": spec})


def roll_out(kube: Any, image: str) -> None:
    patch(kube, template={"spec": {"containers": [{"name": "c", "image": image}]}})
    kube.advance(seconds=5)


def events(kube: Any) -> list[str]:
    found = [event for event in kube.client().list("events") if event["involvedObject"]["kind"] == "StatefulSet"]
    return [each["message"] for each in sorted(found, key=lambda each: each["metadata"]["name"])]


def test_pods_come_in_order_with_names_and_claims(kube: Kube) -> None:
    kube.apply([stateful_set(volumeClaimTemplates=[CLAIM])])
    assert names(kube) == ["db-0"]
    kube.add_node("worker")
    kube.advance(seconds=1)
    assert names(kube)[0] == "db-0"
    pod = kube.get("pod/db-0")
    assert pod["metadata"]["labels"] == {
        **LABELS, "statefulset.kubernetes.io/pod-name": "db-0", "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": kube.get("statefulset/db")["status"]["updateRevision"],
    }  # fmt: skip
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "db")
    assert pod["spec"]["volumes"][0] == {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    assert names(kube, "persistentvolumeclaims")[0] == "data-db-0"
    assert "Create Pod db-0 in StatefulSet db successful" in events(kube)
    assert "Create Claim data-db-0 Pod db-0 in StatefulSet db success" in events(kube)


def test_the_last_goes_first_and_updates_go_backwards(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([stateful_set()])
    kube.advance(seconds=10)
    assert names(kube) == ["db-0", "db-1", "db-2"]
    patch(kube, updateStrategy={"rollingUpdate": {"partition": 1}})
    roll_out(kube, "i:2")
    assert images(kube) == ["i:1", "i:2", "i:2"]
    status = kube.get("statefulset/db")["status"]
    assert (status["currentReplicas"], status["updatedReplicas"]) == (1, 2)
    assert status["currentRevision"] != status["updateRevision"]
    kube.client().delete("pod/db-0")
    kube.advance(seconds=5)
    assert images(kube) == ["i:1", "i:2", "i:2"]
    patch(kube, updateStrategy={"rollingUpdate": {"partition": 0}})
    kube.advance(seconds=5)
    assert images(kube) == ["i:2", "i:2", "i:2"]
    status = kube.get("statefulset/db")["status"]
    assert {name: status[name] for name in status if "Revision" not in name} == {
        "observedGeneration": 4, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "currentReplicas": 3,
        "updatedReplicas": 3, "collisionCount": 0,
    }  # fmt: skip
    assert status["currentRevision"] == status["updateRevision"]
    kube.client().patch("pod/db-2", {"metadata": {"finalizers": ["example.com/keep"]}})
    patch(kube, replicas=1)
    kube.advance(seconds=5)
    assert [("deletionTimestamp" in kube.get(f"pod/{name}")["metadata"]) for name in names(kube)] == [
        False,
        False,
        True,
    ]
    kube.client().patch("pod/db-2", {"metadata": {"finalizers": None}})
    kube.advance(seconds=5)
    assert names(kube) == ["db-0"]


def test_a_pod_that_is_not_ready_stops_the_others(kube: Kube) -> None:
    kube.apply([stateful_set(2)])
    assert names(kube) == ["db-0"]
    kube.add_node("worker")
    kube.advance(seconds=5)
    assert names(kube) == ["db-0", "db-1"]


def test_history_goes_back_to_the_same_revision(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([stateful_set(1, revisionHistoryLimit=1)])
    kube.advance(seconds=5)
    first = kube.get("statefulset/db")["status"]["currentRevision"]
    roll_out(kube, "i:2")
    roll_out(kube, "i:1")
    assert kube.get("statefulset/db")["status"]["currentRevision"] == first
    revisions = {each["metadata"]["name"]: each["revision"] for each in kube.client().list("controllerrevisions")}
    assert revisions[first] == 3
    roll_out(kube, "i:3")
    roll_out(kube, "i:4")
    assert len(kube.client().list("controllerrevisions")) == 2


@pytest.mark.parametrize(
    ("policy", "kept", "left"),
    [
        ({}, ["data-db-0", "data-db-1"], ["data-db-0", "data-db-1"]),
        ({"whenScaled": "Delete"}, ["data-db-0"], ["data-db-0"]),
        ({"whenDeleted": "Delete", "whenScaled": "Delete"}, ["data-db-0"], []),
    ],
)
def test_claims_stay_or_go_by_the_retention_policy(kube: Kube, policy: Json, kept: list[str], left: list[str]) -> None:
    spec: Json = {"volumeClaimTemplates": [CLAIM], "podManagementPolicy": "Parallel"}
    if policy:
        spec["persistentVolumeClaimRetentionPolicy"] = policy
    kube.apply([stateful_set(2, **spec)])
    assert names(kube, "persistentvolumeclaims") == ["data-db-0", "data-db-1"]
    patch(kube, replicas=1)
    kube.advance(seconds=5)
    assert names(kube, "persistentvolumeclaims") == kept
    kube.client().delete("statefulset/db")
    kube.advance(seconds=5)
    assert names(kube, "persistentvolumeclaims") == left
