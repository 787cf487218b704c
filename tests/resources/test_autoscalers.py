"""HorizontalPodAutoscalers: valid specs, and the annotations of autoscaling/v1 for fields that it lacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge

KIND = "horizontalpodautoscalers"
TARGET: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
QPS: Json = {
    "type": "Pods",
    "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "1k"}},
}
PREFIX = "autoscaling.alpha.kubernetes.io/"


def scaler(**spec: Any) -> Json:
    return {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}}


def errors(judge: Judge, **spec: Any) -> list[str]:
    return judge.create(KIND, scaler(**spec))[1]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, []),
        ({"maxReplicas": 0}, ["maxReplicas: Required value: must be set and greater than 0",
            "maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`"]),
        ({"minReplicas": 4}, ["maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"]),
        ({"minReplicas": 0, "metrics": [QPS]}, ["minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas"]),
        ({"scaleTargetRef": {"kind": "Deployment", "name": "d"}},
            ['scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group']),
        ({"scaleTargetRef": {"kind": "ReplicationController", "name": "d"}}, []),
        ({"metrics": [{"type": "Pods"}]}, ["metrics[0].pods: Required value: must populate information for the given metric source"]),
        ({"metrics": [{**QPS, "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "1"}}}]},
            ["metrics[0].external: Forbidden: must populate the given metric source only"]),
        ({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]},
            ["metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization"]),
        ({"metrics": [{"type": "External", "external": {"metric": {"name": "a/b"}, "target": {"type": "Odd", "value": "0"}}}]},
            ["metrics[0].external.metric.name: Invalid value: \"a/b\": may not contain '/'",
             'metrics[0].external.target.type: Invalid value: "Odd": must be either Utilization, Value, or AverageValue',
             'metrics[0].external.target.value: Invalid value: "0": must be positive']),
        ({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601, "policies": [{"type": "Pods", "value": 0, "periodSeconds": 1801}]}}},
            ["behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
             "behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
             "behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800"]),
    ],
)  # fmt: skip
def test_what_an_autoscaler_says_goes_together(judge: Judge, spec: Json, wrong: list[str]) -> None:
    assert errors(judge, **spec) == ["spec." + text for text in wrong]


def test_a_stored_reference_and_a_stored_zero_may_stay(judge: Judge, judge_with: Callable[..., Judge]) -> None:
    odd = scaler(scaleTargetRef={"kind": "Deployment", "name": "d"})
    stored = judge.decoded(judge.find(KIND), odd)
    assert judge.update(KIND, stored, odd)[1] == []
    external = {"type": "External", "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "1"}}}
    empty = scaler(minReplicas=0, metrics=[external])
    zero, wrong = judge_with(HPAScaleToZero=True).create(KIND, empty)
    assert wrong == []
    assert judge.update(KIND, zero, empty)[1] == []


def test_behavior_is_filled_in_both_directions(judge: Judge) -> None:
    behavior = judge.create(KIND, scaler(behavior={"scaleDown": {"selectPolicy": "Disabled"}}))[0]["spec"]["behavior"]
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert [policy["type"] for policy in behavior["scaleUp"]["policies"]] == ["Pods", "Percent"]
    assert behavior["scaleDown"]["selectPolicy"] == "Disabled"
    assert "stabilizationWindowSeconds" not in behavior["scaleDown"]


METRICS: list[Json] = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
    QPS,
    {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Ingress", "name": "i", "apiVersion": "networking.k8s.io/v1"},
            "metric": {"name": "q", "selector": {"matchLabels": {"a": "<b>"}}},
            "target": {"type": "AverageValue", "averageValue": "2"},
        },
    },
    {"type": "External", "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "30"}}},
    {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "c", "target": {"type": "AverageValue", "averageValue": "1"}},
    },
]


def test_all_that_v1_has_no_field_for_comes_back_from_its_annotations(judge: Judge) -> None:
    hub = judge.create_valid(KIND, scaler(metrics=METRICS, behavior={"scaleUp": {"tolerance": "50m"}}))
    hub["status"] = {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentMetrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageValue": "1", "averageUtilization": 40}},
            },
            {"type": "Pods", "pods": {"metric": {"name": "qps"}, "current": {"averageValue": "9"}}},
        ],
        "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    v1 = judge.find(KIND).version("v1")
    assert v1 is not None
    shown = v1.from_hub(deepcopy(hub))
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 50
    assert shown["status"]["currentCPUUtilizationPercentage"] == 40
    annotations = shown["metadata"]["annotations"]
    assert [metric["type"] for metric in json.loads(annotations[PREFIX + "metrics"])] == [
        "Pods", "Object", "External", "ContainerResource",
    ]  # fmt: skip
    assert "\\u003cb\\u003e" in annotations[PREFIX + "metrics"]
    assert json.loads(annotations[PREFIX + "behavior"])["ScaleUp"]["Tolerance"] == "50m"
    back = v1.to_hub(shown)
    assert back["metadata"] == hub["metadata"]
    assert back["spec"]["behavior"] == hub["spec"]["behavior"]
    assert back["status"] == hub["status"]
    # The metric that v1 has a field for comes last.
    assert back["spec"]["metrics"] == [*METRICS[1:], METRICS[0]]


def test_annotations_that_say_nothing_are_dropped(judge: Judge) -> None:
    sent = scaler()
    sent["metadata"] = {"name": "a", "annotations": {PREFIX + "metrics": "{", PREFIX + "behavior": "[]", "b": "c"}}
    hub = judge.decoded(judge.find(KIND), sent, "v1")
    assert hub["metadata"]["annotations"] == {"b": "c"}
    assert [metric["resource"]["target"]["averageUtilization"] for metric in hub["spec"]["metrics"]] == [80]


def test_the_table_shows_the_first_metrics(judge: Judge) -> None:
    cell = {column.name: column.cell for column in judge.find(KIND).columns}["Targets"]
    found: Json = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}}
    assert cell({"spec": {"metrics": METRICS}, "status": {"currentMetrics": [found]}}) == (
        "cpu: 40%/50%, <unknown>/1k + 3 more..."
    )
    assert cell({"spec": {"metrics": METRICS[2:4]}}) == "<unknown>/2 (avg), <unknown>/30"
