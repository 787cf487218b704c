"""Deployments roll out their templates, on a control plane in virtual time."""

from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra.pytest_plugin import Kube

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]
LABELS = {"app": "web"}
REVISION = "deployment.kubernetes.io/revision"


def deployment(replicas: int = 4, image: str = "i:1", **spec: Any) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def patch(kube: Any, **spec: Any) -> None:
    kube.client().patch("deployment/web", {"spec": spec})


def roll_out(kube: Any, image: str) -> None:
    patch(kube, template={"spec": {"containers": [{"name": "c", "image": image}]}})


def sets(kube: Any) -> dict[str, Json]:
    """Return the ReplicaSets by image."""
    found = kube.client().list("replicasets")
    return {each["spec"]["template"]["spec"]["containers"][0]["image"]: each for each in found}


def sizes(kube: Any) -> dict[str, int]:
    return {image: each["spec"]["replicas"] for image, each in sets(kube).items()}


def condition(kube: Any, type: str) -> tuple[str, str, str]:
    conditions = kube.get("deployment/web")["status"]["conditions"]
    found = next(each for each in conditions if each["type"] == type)
    return found["status"], found["reason"], found["message"]


def events(kube: Any, reason: str = "ScalingReplicaSet") -> list[str]:
    found = [event for event in kube.client().list("events") if event["reason"] == reason]
    return [each["message"] for each in sorted(found, key=lambda each: each["metadata"]["name"])]


def test_a_deployment_becomes_available(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([deployment()])
    kube.run_until_idle()
    [replica_set] = kube.client().list("replicasets")
    code = replica_set["metadata"]["labels"]["pod-template-hash"]
    name = f"web-{code}"
    assert replica_set["metadata"]["name"] == name
    assert replica_set["metadata"]["annotations"] == {
        REVISION: "1", "deployment.kubernetes.io/desired-replicas": "4", "deployment.kubernetes.io/max-replicas": "5",
    }  # fmt: skip
    assert replica_set["spec"]["selector"] == {"matchLabels": {**LABELS, "pod-template-hash": code}}
    found = kube.get("deployment/web")
    assert found["metadata"]["annotations"][REVISION] == "1"
    status = found["status"]
    assert {name: status[name] for name in status if name != "conditions"} == {
        "observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4,
        "terminatingReplicas": 0,
    }  # fmt: skip
    assert condition(kube, "Available") == (
        "True", "MinimumReplicasAvailable", "Deployment has minimum availability.",
    )  # fmt: skip
    done = f'ReplicaSet "{name}" has successfully progressed.'
    assert condition(kube, "Progressing") == ("True", "NewReplicaSetAvailable", done)
    assert events(kube) == [f"Scaled up replica set {name} from 0 to 4"]


def test_a_roll_out_never_has_too_few_nor_too_many(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([deployment(strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})])
    kube.run_until_idle()
    roll_out(kube, "i:2")
    kube.run_until_idle()
    assert sizes(kube) == {"i:1": 0, "i:2": 4}
    old, new = (sets(kube)[image]["metadata"]["name"] for image in ("i:1", "i:2"))
    assert events(kube)[1:3] == [
        f"Scaled up replica set {new} from 0 to 1",
        f"Scaled down replica set {old} from 4 to 3",
    ]
    assert events(kube)[-1] == f"Scaled down replica set {old} from 1 to 0"
    assert kube.get("deployment/web")["metadata"]["annotations"][REVISION] == "2"


def test_a_roll_out_that_gets_nowhere_is_late_and_can_be_undone(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([deployment(progressDeadlineSeconds=60)])
    kube.run_until_idle()
    patch(kube, template={"spec": {"nodeSelector": {"no": "where"}}})
    kube.advance(seconds=30)
    assert condition(kube, "Progressing")[1] == "ReplicaSetUpdated"
    kube.advance(seconds=60)
    late = kube.client().list("replicasets")
    name = next(each["metadata"]["name"] for each in late if each["metadata"]["annotations"][REVISION] == "2")
    assert condition(kube, "Progressing") == (
        "False", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.',
    )  # fmt: skip
    assert condition(kube, "Available")[0] == "True"
    patch(kube, template={"spec": {"nodeSelector": None}})
    kube.run_until_idle()
    assert condition(kube, "Progressing")[1] == "NewReplicaSetAvailable"
    first = next(each for each in kube.client().list("replicasets") if each["metadata"]["name"] != name)
    annotations = first["metadata"]["annotations"]
    assert (annotations[REVISION], annotations["deployment.kubernetes.io/revision-history"]) == ("3", "1")
    assert len(kube.client().list("pods")) == 4


def test_recreate_never_runs_two_templates_at_the_same_time(kube: Kube) -> None:
    kube.apply([deployment(2, strategy={"type": "Recreate"})])
    for pod in kube.client().list("pods"):
        kube.client().patch(f"pod/{pod['metadata']['name']}", {"metadata": {"finalizers": ["example.com/keep"]}})
    roll_out(kube, "i:2")
    assert sizes(kube) == {"i:1": 0}
    for pod in kube.client().list("pods"):
        kube.client().patch(f"pod/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
    assert sizes(kube) == {"i:1": 0, "i:2": 2}


def test_paused_it_is_scaled_and_not_rolled_out(kube: Kube) -> None:
    kube.apply([deployment(2, paused=True)])
    assert condition(kube, "Progressing") == ("Unknown", "DeploymentPaused", "Deployment is paused")
    assert sizes(kube) == {}
    patch(kube, paused=False)
    patch(kube, paused=True)
    roll_out(kube, "i:2")
    patch(kube, replicas=5)
    assert sizes(kube) == {"i:1": 5}
    patch(kube, paused=False)
    assert set(sizes(kube)) == {"i:1", "i:2"}


def test_history_is_kept_up_to_the_limit_and_goes_back(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([deployment(1, revisionHistoryLimit=2)])
    for image in ("i:2", "i:3", "i:4"):
        kube.advance(seconds=5)
        roll_out(kube, image)
    kube.advance(seconds=5)
    assert set(sets(kube)) == {"i:2", "i:3", "i:4"}
    kube.client().patch("deployment/web", {"metadata": {"annotations": {"deprecated.deployment.rollback.to": "2"}}})
    kube.advance(seconds=5)
    assert sizes(kube) == {"i:2": 1, "i:3": 0, "i:4": 0}
    assert events(kube, "DeploymentRollback") == ['Rolled back deployment "web" to revision 2']
    assert "deprecated.deployment.rollback.to" not in kube.get("deployment/web")["metadata"]["annotations"]
