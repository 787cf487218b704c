"""Deployments, ReplicaSets, StatefulSets, DaemonSets and ControllerRevisions: defaults, errors, generations, status."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.codec.codec import DecodeError
from apiserver.api.objects import Json
from apiserver.registry.definition.table import row_of
from tests.resources.conftest import NOW, Judge, find

KINDS = ("deployments", "replicasets", "statefulsets", "daemonsets")
LABELS = {"app": "x"}


def workload(pod: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    template = {
        "metadata": {"labels": LABELS if labels is None else labels},
        "spec": {"containers": [{"name": "c", "image": "img:1"}], **(pod or {})},
    }
    return {"spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec}}


def errors_of(judge: Judge, plural: str, obj: Json) -> list[str]:
    return judge.create(plural, obj)[1]


def test_a_workload_gets_an_update_strategy(judge: Judge) -> None:
    made = {plural: judge.create(plural, workload())[0]["spec"] for plural in KINDS}
    quarter = {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert made["deployments"]["strategy"] == {"type": "RollingUpdate", "rollingUpdate": quarter}
    assert (made["deployments"]["replicas"], made["deployments"]["progressDeadlineSeconds"]) == (1, 600)
    one = {"maxUnavailable": 1, "maxSurge": 0}
    assert made["daemonsets"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": one}
    assert made["statefulsets"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    retention = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert made["statefulsets"]["persistentVolumeClaimRetentionPolicy"] == retention
    assert made["replicasets"]["template"]["spec"]["restartPolicy"] == "Always"


@pytest.mark.parametrize("plural", KINDS)
def test_a_workload_selects_the_pods_of_its_template(judge: Judge, plural: str) -> None:
    error = 'spec.template.metadata.labels: Invalid value: {"other":"y"}: `selector` does not match template `labels`'
    assert errors_of(judge, plural, workload(labels={"other": "y"})) == [error]
    error = errors_of(judge, plural, workload(selector={}))[0]
    assert error.startswith("spec.selector: Invalid value: {}: empty selector is invalid for ")
    assert errors_of(judge, plural, workload()) == []


@pytest.mark.parametrize(
    ("plural", "kind"), list(zip(KINDS, ("ReplicaSet", "ReplicaSet", "StatefulSet", "DaemonSet"), strict=True))
)
def test_pods_of_a_workload_do_not_end(judge: Judge, plural: str, kind: str) -> None:
    assert errors_of(judge, plural, workload({"restartPolicy": "Never", "activeDeadlineSeconds": 5})) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {kind} is not Supported",
    ]


@pytest.mark.parametrize(
    ("plural", "spec", "error"),
    [
        ("deployments", {"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            "deployments", {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "deployments", {"strategy": {"rollingUpdate": {"maxUnavailable": "0%", "maxSurge": 0}}},
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0',
        ),
        (
            "deployments", {"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
        ),
        (
            "deployments", {"progressDeadlineSeconds": 5, "minReadySeconds": 5},
            "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
        ),
        (
            "daemonsets", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}},
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
        ),
        (
            "daemonsets", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
        ),
        ("statefulsets", {"podManagementPolicy": "Any"}, "spec.podManagementPolicy: Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'"),
        (
            "statefulsets", {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed for updateStrategy \'RollingUpdate\'',
        ),
        (
            "statefulsets", {"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}]},
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
        ),
    ],
)  # fmt: skip
def test_a_spec_that_makes_no_sense_is_errors_of(judge: Judge, plural: str, spec: Json, error: str) -> None:
    assert errors_of(judge, plural, workload(**spec))[0] == error


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
def test_a_selector_stays(judge: Judge, plural: str) -> None:
    old = judge.create(plural, workload(labels={"app": "x", "b": "y"}))[0]
    error = 'spec.selector: Invalid value: {"matchLabels":{"b":"y"}}: field is immutable'
    assert error in judge.update_spec(plural, old, selector={"matchLabels": {"b": "y"}})[1]


def test_only_some_fields_of_a_stateful_set_change(judge: Judge) -> None:
    old = judge.create("statefulsets", workload(serviceName="s"))[0]
    assert judge.update_spec("statefulsets", old, replicas=3, minReadySeconds=2, ordinals={"start": 1})[1] == []
    [error] = judge.update_spec("statefulsets", old, serviceName="t")[1]
    assert error.startswith("spec: Forbidden: updates to statefulset spec for fields other than 'replicas', ")


def test_a_claim_of_a_stateful_set_is_a_volume_of_its_pods(judge: Judge) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": spec}
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    mounted = {"containers": [container], "hostname": "Not A Name"}
    stored = judge.create_valid("statefulsets", workload(mounted, volumeClaimTemplates=[claim]))
    [kept] = stored["spec"]["volumeClaimTemplates"]
    assert (kept["kind"], kept["apiVersion"]) == ("PersistentVolumeClaim", "v1")
    assert (kept["spec"]["volumeMode"], kept["status"]) == ("Filesystem", {"phase": "Pending"})
    assert errors_of(judge, "statefulsets", workload(mounted))[0].endswith('volumeMounts[0].name: Not found: "data"')


def test_specs_and_for_deployments_annotations_make_generations(judge: Judge) -> None:
    for plural in KINDS:
        old = judge.create(plural, workload())[0]
        assert judge.update_spec(plural, old)[0]["metadata"]["generation"] == 1
        assert judge.update_spec(plural, old, minReadySeconds=1)[0]["metadata"]["generation"] == 2
        changed = {**deepcopy(old), "metadata": {**old["metadata"], "annotations": {"a": "b"}}}
        annotated = judge.update(plural, old, changed)[0]
        assert annotated["metadata"]["generation"] == (2 if plural == "deployments" else 1)


def test_a_daemon_set_counts_its_templates_in_an_annotation(judge: Judge) -> None:
    resource = find("daemonsets")
    [version] = resource.versions
    key = "deprecated.daemonset.template.generation"
    old = judge.create("daemonsets", workload())[0]
    assert version.from_hub(deepcopy(old))["metadata"]["annotations"] == {key: "1"}
    assert "annotations" not in old["metadata"]
    new = judge.update_spec("daemonsets", old, template=workload({"hostPID": True})["spec"]["template"])[0]
    assert version.from_hub(deepcopy(new))["metadata"]["annotations"] == {key: "2"}
    with pytest.raises(DecodeError, match="invalid syntax"):
        judge.create("daemonsets", {**workload(), "metadata": {"annotations": {key: "x"}}})


AVAILABLE = {"replicas": 2, "availableReplicas": 1}


@pytest.mark.parametrize(
    ("plural", "status", "error"),
    [
        (
            "deployments",
            {"readyReplicas": 2},
            "readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        ),
        ("replicasets", AVAILABLE, "availableReplicas: Invalid value: 1: cannot be greater than readyReplicas"),
        ("statefulsets", AVAILABLE, "availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas"),
        ("daemonsets", {"numberReady": -1}, "numberReady: Invalid value: -1: must be greater than or equal to 0"),
        ("deployments", {"collisionCount": 1}, "collisionCount: Invalid value: 1: cannot be decremented"),
    ],
)
def test_counts_of_a_status_go_together(judge: Judge, plural: str, status: Json, error: str) -> None:
    before = {"collisionCount": 2} if "collisionCount" in status else {}
    stored = judge.create(plural, workload())[0] | {"status": before}
    assert judge.update_status(plural, stored, status)[1] == [f"status.{error}"]


def test_gated_fields_of_workloads(judge: Judge) -> None:
    old = Judge((1, 34))
    stored = old.create("deployments", workload())[0]
    for server, kept in ((old, {}), (judge, {"terminatingReplicas": 1})):
        sent = {**deepcopy(stored), "status": {"terminatingReplicas": 1}}
        assert server.update("deployments", stored, sent, status=True)[0]["status"] == kept
    rolling = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}
    gated = Judge(gates={"MaxUnavailableStatefulSet": True})
    for server, spec, most in ((judge, rolling, None), (gated, rolling, 2), (gated, {}, 1)):
        stored = server.create("statefulsets", workload(**spec))[0]
        assert stored["spec"]["updateStrategy"]["rollingUpdate"].get("maxUnavailable") == most


def test_the_past_is_an_object_and_does_not_change(judge: Judge) -> None:
    assert errors_of(judge, "controllerrevisions", {"revision": 1}) == ["data: Required value: data is mandatory"]
    assert errors_of(judge, "controllerrevisions", {"revision": -1, "data": [1]}) == [
        "revision: Invalid value: -1: must be greater than or equal to 0",
        "data: Required value: data must be a valid JSON object",
    ]
    old = judge.create("controllerrevisions", {"revision": 1, "data": {"a": 1}})[0]
    assert judge.update("controllerrevisions", old, {"revision": 2, "data": {"a": 1}})[1] == []
    assert judge.update("controllerrevisions", old, {"revision": 2, "data": {"a": 2}})[1] == [
        'data: Invalid value: {"a":2}: field is immutable'
    ]


def test_tables_show_replicas_and_templates(judge: Judge) -> None:
    stored = judge.create("deployments", workload(replicas=3))[0] | {"status": {"readyReplicas": 2}}
    assert row_of(find("deployments"), stored, NOW)["cells"] == ["a", "2/3", 0, 0, "<unknown>", "c", "img:1", "app=x"]
