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


def refused(judge: Judge, plural: str, obj: Json) -> list[str]:
    return judge.create(plural, obj)[1]


def changed(judge: Judge, plural: str, old: Json, **spec: Any) -> tuple[Json, list[str]]:
    return judge.update(plural, old, {"metadata": deepcopy(old["metadata"]), "spec": {**deepcopy(old["spec"]), **spec}})


def test_a_workload_says_how_it_is_updated() -> None:
    judge = Judge()
    made = {plural: judge.create(plural, workload())[0]["spec"] for plural in KINDS}
    assert made["deployments"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (made["deployments"]["replicas"], made["deployments"]["progressDeadlineSeconds"]) == (1, 600)
    assert made["daemonsets"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
    }
    assert made["statefulsets"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert made["statefulsets"]["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }
    assert made["replicasets"]["template"]["spec"]["restartPolicy"] == "Always"


@pytest.mark.parametrize("plural", KINDS)
def test_a_workload_selects_the_pods_of_its_template(judge: Judge, plural: str) -> None:
    error = 'spec.template.metadata.labels: Invalid value: {"other":"y"}: `selector` does not match template `labels`'
    assert refused(judge, plural, workload(labels={"other": "y"})) == [error]
    everything = workload(selector={})
    assert refused(judge, plural, everything)[0].startswith(
        "spec.selector: Invalid value: {}: empty selector is invalid for "
    )
    assert refused(judge, plural, workload()) == []


@pytest.mark.parametrize(
    ("plural", "kind"), list(zip(KINDS, ("ReplicaSet", "ReplicaSet", "StatefulSet", "DaemonSet"), strict=True))
)
def test_pods_of_a_workload_do_not_end(judge: Judge, plural: str, kind: str) -> None:
    assert refused(judge, plural, workload({"restartPolicy": "Never", "activeDeadlineSeconds": 5})) == [
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
def test_a_spec_that_makes_no_sense_is_refused(judge: Judge, plural: str, spec: Json, error: str) -> None:
    assert refused(judge, plural, workload(**spec))[0] == error


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
def test_a_selector_stays(judge: Judge, plural: str) -> None:
    old = judge.create(plural, workload(labels={"app": "x", "b": "y"}))[0]
    error = 'spec.selector: Invalid value: {"matchLabels":{"b":"y"}}: field is immutable'
    assert error in changed(judge, plural, old, selector={"matchLabels": {"b": "y"}})[1]


def test_only_some_fields_of_a_stateful_set_change(judge: Judge) -> None:
    old = judge.create("statefulsets", workload(serviceName="s"))[0]
    assert changed(judge, "statefulsets", old, replicas=3, minReadySeconds=2, ordinals={"start": 1})[1] == []
    [error] = changed(judge, "statefulsets", old, serviceName="t")[1]
    assert error.startswith("spec: Forbidden: updates to statefulset spec for fields other than 'replicas', ")


def test_a_claim_of_a_stateful_set_is_a_volume_of_its_pods(judge: Judge) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    mounted = {
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}],
        "hostname": "Not A Name",
    }
    stored, wrong = judge.create("statefulsets", workload(mounted, volumeClaimTemplates=[claim]))
    assert wrong == []
    [kept] = stored["spec"]["volumeClaimTemplates"]
    assert (kept["kind"], kept["apiVersion"], kept["spec"]["volumeMode"], kept["status"]) == (
        "PersistentVolumeClaim",
        "v1",
        "Filesystem",
        {"phase": "Pending"},
    )
    assert refused(judge, "statefulsets", workload(mounted))[0].endswith('volumeMounts[0].name: Not found: "data"')


def test_specs_and_for_deployments_annotations_make_generations(judge: Judge) -> None:
    for plural in KINDS:
        old = judge.create(plural, workload())[0]
        assert changed(judge, plural, old)[0]["metadata"]["generation"] == 1
        assert changed(judge, plural, old, minReadySeconds=1)[0]["metadata"]["generation"] == 2
        annotated = judge.update(
            plural, old, {**deepcopy(old), "metadata": {**old["metadata"], "annotations": {"a": "b"}}}
        )[0]
        assert annotated["metadata"]["generation"] == (2 if plural == "deployments" else 1)


def test_a_daemon_set_counts_its_templates_in_an_annotation(judge: Judge) -> None:
    resource = find("daemonsets")
    [version] = resource.versions
    key = "deprecated.daemonset.template.generation"
    old = judge.create("daemonsets", workload())[0]
    assert version.from_hub(deepcopy(old))["metadata"]["annotations"] == {key: "1"}
    assert "annotations" not in old["metadata"]
    new = changed(judge, "daemonsets", old, template=workload({"hostPID": True})["spec"]["template"])[0]
    assert version.from_hub(deepcopy(new))["metadata"]["annotations"] == {key: "2"}
    with pytest.raises(DecodeError, match="invalid syntax"):
        judge.create("daemonsets", {**workload(), "metadata": {"annotations": {key: "x"}}})


@pytest.mark.parametrize(
    ("plural", "status", "errors"),
    [
        (
            "deployments",
            {"replicas": 1, "readyReplicas": 2},
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
        ),
        (
            "replicasets",
            {"replicas": 2, "availableReplicas": 1},
            ["status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas"],
        ),
        (
            "statefulsets",
            {"replicas": 2, "availableReplicas": 1},
            ["status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas"],
        ),
        (
            "daemonsets",
            {"numberReady": -1},
            ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
        ),
        ("deployments", {"collisionCount": 1}, ["status.collisionCount: Invalid value: 1: cannot be decremented"]),
    ],
)
def test_counts_of_a_status_go_together(judge: Judge, plural: str, status: Json, errors: list[str]) -> None:
    stored = judge.create(plural, workload())[0] | {
        "status": {"collisionCount": 2} if "collisionCount" in status else {}
    }
    assert judge.update(plural, stored, {**deepcopy(stored), "status": status}, status=True)[1] == errors


def test_gated_fields_of_workloads(judge: Judge) -> None:
    old = Judge((1, 34))
    stored = old.create("deployments", workload())[0]
    for server, kept in ((old, {}), (judge, {"terminatingReplicas": 1})):
        sent = {**deepcopy(stored), "status": {"terminatingReplicas": 1}}
        assert server.update("deployments", stored, sent, status=True)[0]["status"] == kept
    rolling = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}
    assert (
        "maxUnavailable"
        not in judge.create("statefulsets", workload(**rolling))[0]["spec"]["updateStrategy"]["rollingUpdate"]
    )
    gated = Judge(gates={"MaxUnavailableStatefulSet": True})
    assert (
        gated.create("statefulsets", workload(**rolling))[0]["spec"]["updateStrategy"]["rollingUpdate"][
            "maxUnavailable"
        ]
        == 2
    )
    assert gated.create("statefulsets", workload())[0]["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 1


def test_the_past_is_an_object_and_does_not_change(judge: Judge) -> None:
    assert refused(judge, "controllerrevisions", {"revision": 1}) == ["data: Required value: data is mandatory"]
    assert refused(judge, "controllerrevisions", {"revision": -1, "data": [1]}) == [
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
