"""Autoscalers bring metrics to their targets, on a running control plane in virtual time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime.metrics import lines_of
from controllers.manager.flags import read
from controllers.options.command_line import FlagError
from controllers.options.options import AutoscalerOptions
from controllers.runtime.kinds import AUTOSCALERS, CORE_EVENTS, DEPLOYMENTS
from controllers.workloads.autoscaling import texts
from kubedra.pytest_plugin import Kube
from tests.scheduler.world import World
from tests.support.objects import make_manifest
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


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


def test_flags_set_the_defaults_of_autoscalers() -> None:
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

        def samples(name: str) -> list[str]:
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
        assert samples("reconciliations_total") == ['reconciliations_total{action="scale_up",error="none"} 1']
        assert samples("metric_computation_total") == [
            'metric_computation_total{action="scale_up",error="none",metric_type="External"} 1'
        ]
        assert samples("reconciliation_duration_seconds_count") == [
            'reconciliation_duration_seconds_count{action="scale_up",error="none"} 1'
        ]
        assert samples("num_") == ["num_horizontal_pod_autoscalers 1"]
        assert samples("desired_replicas") == ['desired_replicas{namespace="ns",hpa_name="web"} 4']
        gone = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"}
        await world.client.patch(AUTOSCALERS, "web", {"spec": {"scaleTargetRef": gone}}, "ns")
        await passes(1)
        assert 'reconciliations_total{action="none",error="internal"} 1' in samples("reconciliations_total")
        await world.client.delete(AUTOSCALERS, "web", "ns")
        await passes(1)
        assert samples("num_") == ["num_horizontal_pod_autoscalers 0"]
        assert samples("desired_replicas") == []
