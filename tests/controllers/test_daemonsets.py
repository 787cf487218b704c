"""DaemonSets keep one pod on each node that may have one, on a control plane in virtual time."""

from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra.pytest_plugin import Kube

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]
LABELS = {"app": "agent"}


def daemon_set(image: str = "i:1", pod: Json | None = None, **spec: Any) -> Json:
    pod = {"containers": [{"name": "c", "image": image}], **(pod or {})}
    spec = {
        "selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": pod}, **spec,
    }  # fmt: skip
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec}


def pods(kube: Any) -> list[Json]:
    found: list[Json] = kube.client().list("pods")
    return sorted(found, key=lambda each: (each["spec"].get("nodeName", ""), each["metadata"]["creationTimestamp"]))


def placements(kube: Any) -> list[tuple[str, str]]:
    """Node and image of each pod that stays."""
    return sorted(
        (each["spec"].get("nodeName", ""), each["spec"]["containers"][0]["image"])
        for each in pods(kube)
        if "deletionTimestamp" not in each["metadata"]
    )


def roll_out(kube: Any, image: str, **pod: Any) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": image}], **pod}}
    kube.client().patch("daemonset/agent", {"spec": {"template": template}})


def events(kube: Any, reason: str) -> list[str]:
    return [event["message"] for event in kube.client().list("events") if event["reason"] == reason]


def test_each_node_has_one_pod_that_is_meant_for_it(kube: Kube) -> None:
    for name in ("a", "b"):
        kube.add_node(name)
    kube.apply([daemon_set()])
    kube.advance(seconds=5)
    assert placements(kube) == [("a", "i:1"), ("b", "i:1")]
    pod = pods(kube)[0]
    [term] = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    tolerated = [each["key"].removeprefix("node.kubernetes.io/") for each in pod["spec"]["tolerations"]]
    assert tolerated == [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    ]
    [revision] = kube.client().list("controllerrevisions")
    code = pod["metadata"]["labels"]["controller-revision-hash"]
    assert pod["metadata"]["labels"]["pod-template-generation"] == "1"
    assert (revision["metadata"]["name"], revision["revision"]) == (f"agent-{code}", 1)
    assert kube.get("daemonset/agent")["status"] == {
        "currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberAvailable": 2, "numberMisscheduled": 0,
        "numberReady": 2, "observedGeneration": 1, "updatedNumberScheduled": 2,
    }  # fmt: skip
    kube.add_node("c")
    kube.advance(seconds=5)
    assert [node for node, _ in placements(kube)] == ["a", "b", "c"]


def test_taints_and_labels_decide_where_pods_run_and_stay(kube: Kube) -> None:
    for name in ("a", "b"):
        kube.add_node(name)
    kube.client().patch("node/a", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
    kube.apply([daemon_set()])
    kube.advance(seconds=5)
    assert placements(kube) == [("b", "i:1")]
    kube.client().patch("node/b", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
    kube.advance(seconds=5)
    assert placements(kube) == [("b", "i:1")]
    roll_out(kube, "i:1", nodeSelector={"kind": "gpu"})
    kube.advance(seconds=5)
    assert placements(kube) == []
    kube.client().patch("node/a", {"metadata": {"labels": {"kind": "gpu"}}, "spec": {"taints": None}})
    kube.advance(seconds=5)
    assert placements(kube) == [("a", "i:1")]


def test_a_roll_out_leaves_no_more_nodes_without_than_it_may(kube: Kube) -> None:
    for name in ("a", "b", "c"):
        kube.add_node(name)
    kube.apply([daemon_set(updateStrategy={"rollingUpdate": {"maxUnavailable": 2}}, revisionHistoryLimit=1)])
    kube.advance(seconds=5)
    roll_out(kube, "i:2", schedulingGates=[{"name": "example.com/wait"}])
    kube.advance(seconds=5)
    assert [image for _, image in placements(kube)].count("i:1") == 1
    roll_out(kube, "i:3", schedulingGates=None)
    kube.advance(seconds=10)
    assert placements(kube) == [("a", "i:3"), ("b", "i:3"), ("c", "i:3")]
    assert len(kube.client().list("controllerrevisions")) == 2


def test_with_surge_the_old_pod_goes_when_the_new_one_is_available(kube: Kube) -> None:
    for name in ("a", "b"):
        kube.add_node(name)
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    kube.apply([daemon_set(updateStrategy=strategy, minReadySeconds=30)])
    kube.advance(seconds=60)
    roll_out(kube, "i:2")
    kube.advance(seconds=10)
    assert [image for _, image in placements(kube)] in (["i:1", "i:1", "i:2"], ["i:1", "i:2", "i:1"])
    kube.advance(seconds=120)
    assert placements(kube) == [("a", "i:2"), ("b", "i:2")]


def test_going_back_makes_the_old_revision_the_latest(kube: Kube) -> None:
    kube.add_node("a")
    kube.apply([daemon_set(updateStrategy={"type": "OnDelete"})])
    roll_out(kube, "i:2")
    kube.advance(seconds=1)
    assert placements(kube) == [("a", "i:1")]
    roll_out(kube, "i:1")
    kube.advance(seconds=1)
    found = {
        each["data"]["spec"]["template"]["spec"]["containers"][0]["image"]: each["revision"]
        for each in kube.client().list("controllerrevisions")
    }
    assert found == {"i:1": 3, "i:2": 2}
    assert kube.get("daemonset/agent")["status"]["updatedNumberScheduled"] == 1
