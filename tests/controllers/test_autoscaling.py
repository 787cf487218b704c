"""Autoscalers bring metrics to their targets, on a running control plane in virtual time; and how they reckon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime.metrics import lines_of
from controllers.manager.flags import read
from controllers.options.command_line import FlagError
from controllers.options.options import AutoscalerOptions
from controllers.runtime.kinds import AUTOSCALERS, CORE_EVENTS, DEPLOYMENTS
from controllers.workloads.autoscaling import texts
from controllers.workloads.autoscaling.calculator import (
    Tolerances,
    compute_for_average,
    compute_for_pods,
    compute_for_value,
)
from controllers.workloads.autoscaling.limits import ScalingHistory, limit
from controllers.workloads.autoscaling.usage import MetricError
from kubedra.pytest_plugin import Kube
from tests.scheduler.world import World
from tests.support.objects import make_manifest
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def deployment(replicas: int = 2) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def autoscaler(load: str = "", name: str = "web", **spec: Any) -> Json:
    target = {"type": "Utilization", "averageUtilization": 50}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    annotations = {"kubedra.dev/load.cpu": load} if load else {}
    return make_manifest(
        AUTOSCALERS,
        name,
        {"scaleTargetRef": reference, "minReplicas": 2, "maxReplicas": 12, "metrics": metrics, **spec},
        annotations=annotations,
    )


def replicas(kube: Any) -> int:
    return int(kube.get("deployment/web")["spec"]["replicas"])


def conditions(kube: Any) -> dict[str, str]:
    status = kube.get("horizontalpodautoscaler/web")["status"]
    return {each["type"]: each["reason"] for each in status["conditions"]}


@pytest.mark.kube(clock="virtual")
def test_a_load_that_pods_share_is_followed_up_step_by_step_and_down_after_five_minutes(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([deployment()])
    kube.advance(seconds=5)
    kube.apply([autoscaler("500m")])
    kube.advance(seconds=2)
    assert replicas(kube) == 4
    assert conditions(kube) == {
        "AbleToScale": "SucceededRescale", "ScalingActive": "ValidMetricFound", "ScalingLimited": "ScaleUpLimit",
    }  # fmt: skip
    kube.advance(seconds=45)
    status = kube.get("horizontalpodautoscaler/web")["status"]
    assert (replicas(kube), status["desiredReplicas"], status["currentReplicas"]) == (10, 10, 10)
    assert status["currentMetrics"][0]["resource"]["current"] == {"averageUtilization": 50, "averageValue": "50m"}
    kube.client().patch("hpa/web", {"metadata": {"annotations": {"kubedra.dev/load.cpu": "150m"}}})
    kube.advance(seconds=100)
    assert (replicas(kube), conditions(kube)["AbleToScale"]) == (10, "ScaleDownStabilized")
    kube.advance(seconds=230)
    assert replicas(kube) == 3
    messages = [event["message"] for event in kube.events("hpa/web") if event["reason"] == "SuccessfulRescale"]
    assert "New size: 4; reason: cpu resource utilization (percentage of request) above target" in messages
    assert "New size: 3; reason: All metrics below target" in messages


@pytest.mark.kube(clock="virtual")
def test_an_autoscaler_that_cannot_work_reports_why_and_keeps_the_size(kube: Kube) -> None:
    kube.apply([autoscaler()])
    kube.advance(seconds=1)
    assert conditions(kube) == {"AbleToScale": "FailedGetScale"}
    kube.add_node("worker")
    kube.apply([deployment(3)])
    kube.advance(seconds=20)
    assert (conditions(kube)["ScalingActive"], replicas(kube)) == ("FailedGetResourceMetric", 3)
    kube.apply([autoscaler("1m"), autoscaler("1m", "other")])
    kube.advance(seconds=40)
    assert (conditions(kube)["ScalingActive"], replicas(kube)) == ("AmbiguousSelector", 3)
    [active] = [each for each in kube.get("hpa/web")["status"]["conditions"] if each["type"] == "ScalingActive"]
    both = f"[{kube.client().namespace}/other {kube.client().namespace}/web]"
    assert active["message"] == f"pods by selector app=web are controlled by multiple HPAs: {both}"


def pods(*phases: str) -> list[Json]:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}
    return [
        {"metadata": {"name": f"p{n}"}, "spec": {}, "status": {"phase": phase, "conditions": [ready]}}
        for n, phase in enumerate(phases)
    ]


@pytest.mark.parametrize(
    ("values", "phases", "expected"),
    [
        ([100, 100], ["Running"] * 2, 2),
        ([109, 109], ["Running"] * 2, 2),
        ([200, 200], ["Running"] * 2, 4),
        ([30, 30, 30], ["Running"] * 3, 1),
        # A pod that is not running yet counts as using nothing, when more are asked for.
        ([300, 300], ["Running", "Running", "Pending"], 6),
        ([150, 150], ["Running", "Running", "Pending"], 3),
        # One without a metric as using nothing, or all it may: nothing is overdone.
        ([300], ["Running", "Running"], 3),
        ([50], ["Running", "Running"], 2),
        ([200, 200], ["Running", "Running", "Failed"], 4),
    ],
)
def test_a_metric_of_pods_asks_for_as_many_as_bring_it_to_its_target(
    values: list[int], phases: list[str], expected: int
) -> None:
    found = compute_for_pods(
        len(phases), 100, {f"p{n}": value for n, value in enumerate(values)}, pods(*phases), Tolerances(), NOW
    )
    assert found.replicas == expected


def test_a_value_is_for_all_or_for_each() -> None:
    assert compute_for_value(2, 100, 300, pods("Running", "Running"), Tolerances()).replicas == 6
    assert compute_for_value(2, 100, 109, pods("Running", "Running"), Tolerances()).replicas == 2
    assert compute_for_average(2, 100, 450, Tolerances()).replicas == 5
    with pytest.raises(MetricError, match="no pods returned by selector"):
        compute_for_pods(1, 100, {"p0": 1}, [], Tolerances(), NOW)


RULES = {
    "scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}], "selectPolicy": "Max"},
    "scaleDown": {
        "policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}, {"type": "Pods", "value": 1, "periodSeconds": 60}],
        "selectPolicy": "Min", "stabilizationWindowSeconds": 30,
    },
}  # fmt: skip


def test_behavior_limits_the_rate_of_changes_and_the_age_of_the_history() -> None:
    history, spec = ScalingHistory(), {"maxReplicas": 20, "behavior": RULES}
    found = limit(history, NOW, spec, 4, 10, 1)
    assert (found.replicas, found.limit[0]) == (6, "ScaleUpLimit")
    history.record_change(NOW, 4, 6, RULES)
    assert limit(history, NOW + timedelta(seconds=30), spec, 6, 10, 1).replicas == 6
    assert limit(history, NOW + timedelta(seconds=61), spec, 6, 10, 1).replicas == 8
    # Down by the smaller change, once what was asked for before is old enough.
    found = limit(history, NOW + timedelta(seconds=80), spec, 8, 2, 1)
    assert (found.replicas, found.able_to_scale[0]) == (8, "ScaleDownStabilized")
    found = limit(history, NOW + timedelta(seconds=200), spec, 8, 2, 1)
    assert (found.replicas, found.limit[0]) == (7, "ScaleDownLimit")


@pytest.mark.parametrize(
    ("current", "wanted", "expected", "reason"),
    [(1, 9, 4, "ScaleUpLimit"), (5, 99, 10, "TooManyReplicas"), (5, 0, 2, "TooFewReplicas"), (5, 6, 6, "DesiredWithinRange")],
)  # fmt: skip
def test_without_behavior_a_size_doubles_at_most(current: int, wanted: int, expected: int, reason: str) -> None:
    found = limit(ScalingHistory(), NOW, {"maxReplicas": 10}, current, wanted, 2)
    assert (found.replicas, found.limit[0]) == (expected, reason)


def test_flags_say_what_holds_where_an_autoscaler_does_not() -> None:
    prefix = "--horizontal-pod-autoscaler-"
    flags = ["sync-period=1m", "downscale-stabilization=90s", "tolerance=0.5", "cpu-initialization-period=2m"]
    given = read(["--server=http://127.0.0.1:1", *(prefix + flag for flag in flags)]).options.autoscaler
    assert given == AutoscalerOptions(
        sync_period=timedelta(minutes=1),
        downscale_stabilization=timedelta(seconds=90),
        tolerance=0.5,
        cpu_initialization=timedelta(minutes=2),
    )
    with pytest.raises(FlagError, match="sync-period: must be greater than 0"):
        read(["--server=http://127.0.0.1:1", prefix + "sync-period=0s"])


def test_higher_recommendations_count_within_the_window() -> None:
    history, spec = ScalingHistory(), {"maxReplicas": 20}
    limit(history, NOW, spec, 5, 8, 1, timedelta(seconds=90))
    assert limit(history, NOW + timedelta(seconds=80), spec, 8, 2, 1, timedelta(seconds=90)).replicas == 8
    assert limit(history, NOW + timedelta(seconds=171), spec, 8, 2, 1, timedelta(seconds=90)).replicas == 2


@pytest.mark.parametrize(("tolerance", "expected"), [(1.0, 2), (0.5, 4)])
async def test_an_autoscaler_uses_the_configured_tolerance(tolerance: float, expected: int) -> None:
    names = ("horizontal-pod-autoscaler-controller", "deployment-controller", "replicaset-controller")
    async with World(*names, options={"autoscaler": AutoscalerOptions(tolerance=tolerance)}) as world:
        metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
        scaler = autoscaler(metrics=[{"type": "External", "external": metric}])
        scaler["metadata"] |= {"namespace": "ns", "annotations": {"kubedra.dev/metric.queue": "38"}}
        await world.create(DEPLOYMENTS, {**deployment(), "metadata": {"name": "web", "namespace": "ns"}})
        await passes(5)
        await world.create(AUTOSCALERS, scaler)
        await passes(40)
        assert (await world.client.get(DEPLOYMENTS, "web", "ns"))["spec"]["replicas"] == expected


UNREAD: list[Json] = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
    {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c", "target": {"type": "AverageValue", "averageValue": "1Mi"}}},
    {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
    {"type": "Object", "object": {"metric": {"name": "age"}, "describedObject": {"kind": "Namespace", "name": "ns"}, "target": {"type": "Value", "value": "5"}}},
    {"type": "External", "external": {"metric": {"name": "mail", "selector": {"matchLabels": {"box": "in"}}}, "target": {"type": "AverageValue", "averageValue": "5"}}},
]  # fmt: skip


async def test_an_unreadable_metric_is_reported_with_upstreams_text() -> None:
    names = ("horizontal-pod-autoscaler-controller", "deployment-controller", "replicaset-controller")
    async with World(*names) as world:
        await world.create(DEPLOYMENTS, {**deployment(), "metadata": {"name": "web", "namespace": "ns"}})
        await passes(5)
        scaler = autoscaler(metrics=UNREAD)
        scaler["metadata"] = {"name": "web", "namespace": "ns"}
        await world.create(AUTOSCALERS, scaler)
        await passes(5)
        told = {each["reason"]: each["message"] for each in (await world.client.list(CORE_EVENTS, "ns"))["items"]}
        box = "&LabelSelector{MatchLabels:map[string]string{box: in,},MatchExpressions:[]LabelSelectorRequirement{},}"
        assert told["FailedGetResourceMetric"].startswith(
            "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics"
        )
        assert told["FailedGetContainerResourceMetric"].startswith(
            "failed to get memory usage: unable to get metrics for resource memory: "
        )
        assert told["FailedGetPodsMetric"].startswith("unable to get metric rps: ")
        assert told["FailedGetObjectMetric"].startswith("unable to get metric age: Namespace on ns ns/")
        assert told["FailedGetExternalMetric"].startswith(f"unable to get external metric ns/mail/{box}: ")
        assert told["FailedComputeMetricsReplicas"].startswith(
            "invalid metrics (5 invalid out of 5), first error is: failed to get cpu resource metric value: "
            "failed to get cpu utilization: "
        )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "failed to get cpu resource metric value: x"),
        (1, "failed to get c container metric value: x"),
        (2, "failed to get pods metric value: x"),
        (3, "failed to get object metric value: x"),
        (4, "failed to get mail external metric value: failed to get mail external metric: x"),
    ],
)
def test_the_first_metric_that_fails_is_reported(number: int, text: str) -> None:
    [field] = UNREAD[number].keys() - {"type"}
    assert texts.list_failure_message(field, UNREAD[number][field], "x") == text


async def test_passes_and_metrics_are_counted_by_result() -> None:
    names = ("horizontal-pod-autoscaler-controller", "deployment-controller", "replicaset-controller")
    async with World(*names) as world:

        def counted(name: str) -> list[str]:
            families = world.manager.components[0].metrics
            prefix = "horizontal_pod_autoscaler_controller_"
            return [line.removeprefix(prefix) for line in lines_of(families) if line.startswith(prefix + name)]

        await world.create(DEPLOYMENTS, {**deployment(), "metadata": {"name": "web", "namespace": "ns"}})
        await passes(5)
        metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
        scaler = autoscaler(metrics=[{"type": "External", "external": metric}])
        scaler["metadata"] |= {"namespace": "ns", "annotations": {"kubedra.dev/metric.queue": "38"}}
        await world.create(AUTOSCALERS, scaler)
        await passes(5)
        assert counted("reconciliations_total") == ['reconciliations_total{action="scale_up",error="none"} 1']
        assert counted("metric_computation_total") == [
            'metric_computation_total{action="scale_up",error="none",metric_type="External"} 1'
        ]
        assert counted("reconciliation_duration_seconds_count") == [
            'reconciliation_duration_seconds_count{action="scale_up",error="none"} 1'
        ]
        assert counted("num_") == ["num_horizontal_pod_autoscalers 1"]
        assert counted("desired_replicas") == ['desired_replicas{namespace="ns",hpa_name="web"} 4']
        gone = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"}
        await world.client.patch(AUTOSCALERS, "web", {"spec": {"scaleTargetRef": gone}}, "ns")
        await passes(1)
        assert 'reconciliations_total{action="none",error="internal"} 1' in counted("reconciliations_total")
        await world.client.delete(AUTOSCALERS, "web", "ns")
        await passes(1)
        assert counted("num_") == ["num_horizontal_pod_autoscalers 0"]
        assert counted("desired_replicas") == []
