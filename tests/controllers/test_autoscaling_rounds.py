"""One pass over an autoscaler: which metrics it reads, what it emits and what it writes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.workloads.autoscaling.usage import milli
from tests.controllers.autoscalers import (
    AT,
    BROKEN,
    DEPLOYMENT,
    SCALE,
    ago,
    build,
    external,
    pod,
    reconcile,
    resource,
    rule,
    scale,
    scaler,
)

pytestmark = pytest.mark.integration

# --- what it asks for, and what is written


async def test_a_pass_writes_the_size_and_the_metrics() -> None:
    client = await reconcile(scaler(resource(), status={"observedGeneration": 1}), pod("a", "150m"), pod("b", "150m"))
    assert client.put == [{**scale(2), "spec": {"replicas": 3}}]
    assert client.events == [
        ("Normal", "SuccessfulRescale",
         "New size: 3; reason: cpu resource utilization (percentage of request) above target")
    ]  # fmt: skip
    assert client.condition == {
        "AbleToScale":
            ("True", "SucceededRescale", "the HPA controller was able to update the target scale to 3"),
        "ScalingActive":
            ("True", "ValidMetricFound", ("the HPA was able to successfully calculate a replica count from cpu resource "
             "utilization (percentage of request)")),
        "ScalingLimited":
            ("False", "DesiredWithinRange", "the desired count is within the acceptable range"),
    }  # fmt: skip
    assert {each["lastTransitionTime"] for each in client.status["conditions"]} == {AT}
    assert {key: value for key, value in client.status.items() if key != "conditions"} == {
        "currentReplicas": 2, "desiredReplicas": 3, "lastScaleTime": AT,
        "currentMetrics": [{"type": "Resource", "resource": {
            "name": "cpu", "current": {"averageUtilization": 75, "averageValue": "150m"}}}],
    }  # fmt: skip
    assert client.requeue_after == timedelta(seconds=15)
    assert client.samples("desired_replicas") == ['{namespace="ns",hpa_name="web"} 3']
    assert client.samples("reconciliations_total") == ['{action="scale_up",error="none"} 1']
    assert client.samples("reconciliation_duration_seconds_count") == ['{action="scale_up",error="none"} 1']
    assert client.samples("metric_computation_duration_seconds_count")[0].endswith(" 1")
    same = await reconcile(scaler(resource(), status=client.status), pod("a", "100m"), pod("b", "100m"))
    assert (same.size, same.events, same.status["lastScaleTime"]) == (None, [], AT)
    assert same.condition["AbleToScale"][1:] == ("ReadyForNewScale", "recommended size matches current size")
    assert same.samples("reconciliations_total") == ['{action="none",error="none"} 1']
    less = await reconcile(
        scaler(resource(), minReplicas=0), pod("a", "10m"), pod("b", "10m"), downscale_stabilization=timedelta()
    )
    assert (less.size, less.samples("reconciliations_total")) == (None, ['{action="none",error="none"} 1'])


async def test_a_status_that_stays_is_not_written_again() -> None:
    client = await reconcile(scaler(resource()), pod("a", "100m"), pod("b", "100m"))
    again = await reconcile(scaler(resource(), status=client.status), pod("a", "100m"), pod("b", "100m"))
    assert len(client.writes) == 1
    assert again.writes == []
    unlisted = await reconcile(scaler(status={**client.status}), pod("a"), pod("b"))
    assert "currentMetrics" not in unlisted.status
    assert (unlisted.size, unlisted.status["desiredReplicas"]) == (None, 2)


@pytest.mark.parametrize(
    ("size", "spec", "written", "reason"),
    [
        (0, {}, None, ""),
        (0, {"minReplicas": 0}, None, ""),
        (5, {"maxReplicas": 4}, 4, "Current number of replicas above Spec.MaxReplicas"),
        (4, {"maxReplicas": 4}, None, ""),
        (1, {"minReplicas": 2}, 2, "Current number of replicas below Spec.MinReplicas"),
        (2, {"minReplicas": 2}, None, ""),
    ],
)
async def test_a_size_out_of_bounds_is_brought_back_before_metrics_are_read(
    size: int, spec: Json, written: int | None, reason: str
) -> None:
    found = {"mail": "1"} if spec.get("minReplicas") == 0 else {"mail": f"{size}0"}
    of = scaler(external(averageValue="10"), said={f"metric.{key}": value for key, value in found.items()}, **spec)
    client = await reconcile(of, pod("a"), size=scale(size))
    if size == 0 and not spec:
        assert client.condition["ScalingActive"] == (
            "False", "ScalingDisabled", "scaling is disabled since the replica count of the target is zero"
        )  # fmt: skip
        assert client.status["desiredReplicas"] == 0
    elif size == 0:
        assert (client.size, client.status["currentReplicas"]) == (1, 0)
        return
    assert client.size == written
    if reason:
        assert client.events == [("Normal", "SuccessfulRescale", f"New size: {written}; reason: {reason}")]
        assert "currentMetrics" not in client.status
        assert "ScalingActive" not in client.condition


async def test_of_several_metrics_the_one_that_asks_for_most_counts_and_the_first_of_equals_names_it() -> None:
    said = {"metric.a": "20", "metric.b": "40", "metric.c": "40"}
    many = [external(name, averageValue="10") for name in "abc"]
    client = await reconcile(scaler(*many, said=said), pod("a"), pod("b"))
    assert (client.size, [each["external"]["metric"]["name"] for each in client.status["currentMetrics"]]) == (
        4,
        [*"abc"],
    )
    assert "external metric b(nil) above target" in client.events[0][2]
    assert client.samples("metric_computation_total") == [
        '{action="scale_up",error="none",metric_type="External"} 3',
    ]  # fmt: skip


async def test_a_size_shrinks_if_all_metrics_are_below_target() -> None:
    window = {"downscale_stabilization": timedelta()}
    of = scaler(
        external(averageValue="10"),
        said={"metric.mail": "30"},
        behavior={"scaleDown": {"stabilizationWindowSeconds": 0}},
    )
    client = await reconcile(of, *(pod(name) for name in "abcde"), **window)
    assert client.status["desiredReplicas"] == 5, "no policy lets it go"
    of["spec"]["behavior"]["scaleDown"] |= rule("Pods", 9)
    client = await reconcile(of, *(pod(name) for name in "abcde"), **window)
    assert client.events == [("Normal", "SuccessfulRescale", "New size: 3; reason: All metrics below target")]
    assert client.samples("reconciliations_total") == ['{action="scale_down",error="none"} 1']


# --- what cannot be done


async def test_metrics_that_fail_keep_a_size_from_shrinking_only() -> None:
    for value, size, reasons in (("50", 4, ["FailedGetExternalMetric", "SuccessfulRescale"]),
                                 ("20", None, ["FailedGetExternalMetric"]),
                                 ("10", None, ["FailedGetExternalMetric", "FailedComputeMetricsReplicas"])):  # fmt: skip
        of = scaler(external("gone", averageValue="10"), external(averageValue="10"), said={"metric.mail": value},
                    status={"desiredReplicas": 9})  # fmt: skip
        client = await reconcile(of, pod("a"), pod("b"))
        assert (client.size, client.reasons) == (size, reasons)
        assert [each["type"] for each in client.status["currentMetrics"]] == ["", "External"]
        assert client.status["desiredReplicas"] == (9 if value == "10" else size or 2)
        assert client.samples("reconciliations_total")[0].split(",")[1].startswith('error="internal"')
    why = "unable to get external metric ns/gone/nil: the autoscaler has no annotation kubedra.dev/metric.gone"
    assert client.condition["ScalingActive"] == (
        "False", "FailedGetExternalMetric", f"the HPA was unable to compute the replica count: {why}"
    )  # fmt: skip
    assert client.events == [
        ("Warning", "FailedGetExternalMetric", why),
        ("Warning", "FailedComputeMetricsReplicas",
         ("invalid metrics (1 invalid out of 2), first error is: failed to get gone external metric value: "
         f"failed to get gone external metric: {why}")),
    ]  # fmt: skip
    assert client.samples("metric_computation_total") == [
        '{action="none",error="internal",metric_type="External"} 1',
        '{action="scale_up",error="none",metric_type="External"} 1',
    ]
    first = await reconcile(scaler(resource(), external("gone", averageValue="1")), pod("a"))
    assert first.condition["ScalingActive"][1] == "FailedGetResourceMetric"
    assert "(2 invalid out of 2), first error is: failed to get cpu resource" in first.events[-1][2]


@pytest.mark.parametrize(
    ("selector", "event", "reason", "text"),
    [
        ("", "SelectorRequired", "InvalidSelector", "the HPA target's scale is missing a selector"),
        ("a==b==c", "InvalidSelector", "InvalidSelector", "couldn't convert selector into"),
    ],
)
async def test_a_selector_that_selects_nothing_is_refused(selector: str, event: str, reason: str, text: str) -> None:
    of = scaler(external(averageValue="10"), said={"metric.mail": "90"}, status={"desiredReplicas": 3})
    client = await reconcile(of, pod("a"), size=scale(2, selector=selector))
    assert (client.size, client.reasons) == (None, [event, "FailedComputeMetricsReplicas"])
    assert client.condition["ScalingActive"][:2] == ("False", reason)
    assert client.condition["AbleToScale"][:2] == ("True", "SucceededGetScale")
    assert client.condition["ScalingActive"][2].startswith(text)
    assert (client.status["currentReplicas"], client.status["desiredReplicas"]) == (2, 3)
    assert [kind for kind, *_ in client.events] == ["Warning"] * 2


async def test_pods_are_those_of_one_autoscaler() -> None:
    other = scaler(resource(), name="other")
    client = build(scaler(resource()), pod("a", "200m"), other)
    await client.reconcile("ns/other")
    await client.reconcile("ns/web")
    assert client.reasons == ["SuccessfulRescale", "AmbiguousSelector", "FailedComputeMetricsReplicas"]
    assert client.condition["ScalingActive"][2] == (
        "pods by selector app=web are controlled by multiple HPAs: [ns/other ns/web]"
    )
    assert (await build(scaler(resource()), pod("a", "200m"), other).reconcile("ns/web")).reasons == [
        "SuccessfulRescale"
    ]
    gone = await build(scaler(resource()), pod("a", "200m"), other).reconcile("ns/other")
    gone.remove_objects(other)
    assert gone.samples("desired_replicas") != []
    assert (await gone.reconcile("ns/other")).requeue_after is None
    assert (await gone.reconcile("ns/web")).reasons == ["SuccessfulRescale"] * 2
    assert gone.samples("desired_replicas") == ['{namespace="ns",hpa_name="web"} 2']


async def test_a_target_without_a_scale_is_reported() -> None:
    missing = await reconcile(scaler(resource(), scaleTargetRef={"kind": "Nothing", "name": "web"}), pod("a"))
    assert missing.events == [("Warning", "FailedGetScale", 'no matches for kind "Nothing" in group ""')]
    assert missing.condition == {
        "AbleToScale": ("False", "FailedGetScale", ("the HPA controller was unable to get the target's current scale: "
                        'no matches for kind "Nothing" in group ""'))
    }  # fmt: skip
    assert missing.samples("reconciliations_total") == ['{action="none",error="internal"} 1']
    other = await reconcile(scaler(resource(), scaleTargetRef={**DEPLOYMENT, "apiVersion": "apps/v9"}))
    assert other.events[0][2] == 'no matches for kind "Deployment" in group "apps"'
    failed = await reconcile(scaler(resource()), size=StatusError(500, "InternalError", "broken"))
    assert failed.events == [("Warning", "FailedGetScale", "broken")]
    assert failed.requeue_after == timedelta(seconds=15)
    bare = await reconcile(scaler(resource()), pod("a"), size={"metadata": {"name": "web"}})
    assert bare.condition["ScalingActive"][1] == "ScalingDisabled"
    unmeasured = await reconcile(scaler(resource()), pod("a"))
    assert (unmeasured.status["currentReplicas"], unmeasured.status["desiredReplicas"]) == (1, 0)


CONFLICT = StatusError(409, "Conflict", "newer")


@pytest.mark.parametrize(
    ("answers", "tries", "error"),
    [([CONFLICT, {}], 2, ""), ([CONFLICT, CONFLICT], 2, "newer"), ([BROKEN, {}], 1, "broken")],
)
async def test_a_size_that_was_changed_meanwhile_is_written_once_more(
    answers: list[Any], tries: int, error: str
) -> None:
    newer = {**scale(2), "metadata": {"name": "web", "resourceVersion": "8"}}
    of = scaler(resource(), status={"desiredReplicas": 7})
    client = await reconcile(
        of, pod("a", "150m"), pod("b", "150m"), size=[scale(2), newer], paths={f"PUT {SCALE}": [*answers]}
    )
    assert [each["metadata"]["resourceVersion"] for each in client.put] == ["7", "8"][:tries]
    assert [each["spec"]["replicas"] for each in client.put] == [3] * tries
    if error:
        assert client.condition["AbleToScale"] == (
            "False", "FailedUpdateScale", f"the HPA controller was unable to update the target scale: {error}"
        )  # fmt: skip
        assert client.events == [
            ("Warning", "FailedRescale", ("New size: 3; reason: cpu resource utilization (percentage of request) above "
             f"target; error: {error}"))
        ]  # fmt: skip
        assert (client.status["currentReplicas"], client.status["desiredReplicas"]) == (2, 7)
        assert len(client.status["currentMetrics"]) == 1
    else:
        assert client.reasons == ["SuccessfulRescale"]


async def test_a_status_that_cannot_be_written_is_an_error() -> None:
    client = build(scaler(resource()), pod("a", "200m"))
    client.refuses["update/status"] = (500, "InternalError")
    assert (await client.reconcile("ns/web")).error is not None
    assert client.samples("reconciliations_total") == ['{action="scale_up",error="internal"} 1']


async def test_an_autoscaler_is_queued_when_it_comes_changes_or_goes_and_not_for_its_status() -> None:
    of, queue = scaler(resource()), list[str]()
    client = build(of)
    client.component._controller.queue.add = queue.append
    for changed in (
        {**of, "status": {"desiredReplicas": 1}},
        {**of, "spec": {}},
        scaler(resource(), said={"load.cpu": "1"}),
    ):
        client.set_objects(of)
        queue.clear()
        client.set_objects(changed)
        assert len(queue) == (0 if "desiredReplicas" in changed["status"] else 1)
    client.set_objects(scaler(name="other")).remove_objects(scaler(name="other"))
    assert queue[1:] == ["ns/other"] * 2


# --- kinds of metrics


@pytest.mark.parametrize(
    ("metric", "said", "current", "size"),
    [
        (resource(), {"usage.cpu": "200m"}, {"averageUtilization": 100, "averageValue": "200m"}, 4),
        (resource(), {"load.cpu": "400m"}, {"averageUtilization": 100, "averageValue": "200m"}, 4),
        (resource(averageValue="100m"), {"usage.cpu": "200m"}, {"averageValue": "200m"}, 4),
        (resource("memory", averageValue="512Mi"), {"usage.memory": "1Gi"}, {"averageValue": "1Gi"}, 4),
        (resource(container="c"), {"usage.cpu.c": "100m"}, {"averageUtilization": 100, "averageValue": "100m"}, 4),
        (resource("memory", averageValue="500M"), {"usage.memory": "1000M"}, {"averageValue": "1000000Ki"}, 4),
        (resource("disk", averageValue="500"), {"usage.disk": "2k"}, {"averageValue": "2k"}, 4),
    ],
    ids=["percent", "shared", "value", "memory", "container", "decimal memory", "other"],
)
async def test_a_resource_is_measured_as_its_target_is(metric: Json, said: Json, current: Json, size: int) -> None:
    client = await reconcile(scaler(metric, said=said, minReplicas=2), pod("a"), pod("b"))
    if current["averageValue"] == "1000000Ki":
        current = client.status["currentMetrics"][0]["resource"]["current"]
        assert milli(current["averageValue"]) == milli("1000M")
    [found] = client.status["currentMetrics"]
    [field] = found.keys() - {"type"}
    where = {"container": "c"} if field == "containerResource" else {}
    assert found == {"type": metric["type"], field: {"name": metric[field]["name"], **where, "current": current}}
    assert client.size == size
    name = metric[field]["name"]
    target = "resource" if "averageUtilization" not in current else "resource utilization (percentage of request)"
    of = f"{name} container {target}" if where else f"{name} {target}"
    assert client.condition["ScalingActive"][2].endswith(f"calculate a replica count from {of}")


async def test_other_metrics_are_of_pods_of_an_object_or_of_nothing_here() -> None:
    rps = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"averageValue": "10"}}}
    client = await reconcile(scaler(rps), pod("a", **{"metric.rps": "25"}), pod("b", **{"metric.rps": "15"}))
    assert client.status["currentMetrics"] == [
        {"type": "Pods", "pods": {"metric": {"name": "rps"}, "current": {"averageValue": "20"}}}
    ]
    assert (client.size, "from pods metric rps" in client.condition["ScalingActive"][2]) == (4, True)

    for kind, target, size, current, name in (
        ("Service", {"value": "10"}, 4, {"value": "20"}, "Service metric hits"),
        ("Service", {"averageValue": "5"}, 4, {"averageValue": "10"}, "external metric hits(nil)"),
        ("Node", {"value": "20"}, None, {"value": "20"}, "Node metric hits"),
    ):
        described = {"kind": kind, "name": "x"}
        of = {"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": described, "target": target}}
        hits = {"kind": kind, "metadata": {"name": "x", "annotations": {"kubedra.dev/metric.hits": "20"}}}
        client = await reconcile(scaler(of), pod("a"), pod("b"), live=[hits])
        [found] = client.status["currentMetrics"]
        assert found["object"] == {"metric": {"name": "hits"}, "describedObject": described, "current": current}
        assert client.size == size
        assert client.condition["ScalingActive"][2].endswith(f"from {name}")

    client = await reconcile(scaler(external(value="10"), said={"metric.mail": "20"}), pod("a"), pod("b"))
    assert client.status["currentMetrics"] == [
        {"type": "External", "external": {"metric": {"name": "mail"}, "current": {"value": "20"}}}
    ]
    assert client.condition["ScalingActive"][2].endswith("from external metric mail(nil)")
    assert client.size == 4


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"kind": "Cat", "name": "x"}, 'no matches for kind "Cat" in version "v1"'),
        ({"kind": "Cat", "name": "x", "apiVersion": "a/v1"}, 'no matches for kind "Cat" in version "a/v1"'),
        ({"kind": "Service", "name": "x"}, "the Service has no annotation kubedra.dev/metric.hits"),
        ({"kind": "Service", "name": "y"}, "y not found"),
    ],
)
async def test_an_object_without_the_metric_is_reported(described: Json, why: str) -> None:
    target = {"averageValue": "5"}
    of = {"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": described, "target": target}}
    client = await reconcile(scaler(of), pod("a"), live=[{"kind": "Service", "metadata": {"name": "x"}}])
    said = f"unable to get metric hits: {described['kind']} on ns {described['name']}/{why}"
    assert client.events == [
        ("Warning", "FailedGetObjectMetric", said),
        ("Warning", "FailedComputeMetricsReplicas", ("invalid metrics (1 invalid out of 1), first error is: "
         f"failed to get object metric value: failed to get hits object metric: {said}")),
    ]  # fmt: skip


async def test_tolerances_are_those_of_the_autoscaler_then_those_that_are_set() -> None:
    async def size(value: str, tolerances: Json, **options: float) -> int | None:
        behavior = {"scaleUp": rule("Pods", 9), "scaleDown": rule("Pods", 9, stabilizationWindowSeconds=0)}
        for rules, given in tolerances.items():
            behavior[rules] |= {} if given is None else {"tolerance": given}
        of = scaler(external(averageValue="10"), said={"metric.mail": value}, behavior=behavior)
        return (await reconcile(of, *(pod(name) for name in "abcde"), **options)).size

    for value, up, down, expected in (
        ("55", None, None, None), ("56", None, None, 6), ("45", None, None, None), ("40", None, None, 4),
        ("56", "0.2", None, None), ("61", "200m", None, 7), ("51", 0, None, 6), ("49", "0", None, None),
        ("30", None, "0.5", None), ("24", None, "0.5", 3),
    ):  # fmt: skip
        assert await size(value, {"scaleUp": up, "scaleDown": down}) == expected
    assert await size("56", {}, tolerance=0.2) is None


async def test_starting_pods_are_those_within_the_periods_that_are_set() -> None:
    young = pod("b", "300m", ready="False")
    young["status"] |= {"startTime": ago(minutes=2)}
    young["status"]["conditions"][0]["lastTransitionTime"] = ago(minutes=1)
    busy = pod("a", "300m")
    for target in ({}, {"averageValue": "100m"}):
        assert (await reconcile(scaler(resource(**target)), busy, young)).size == 3
        none = {"cpu_initialization": timedelta(minutes=1), "initial_readiness": timedelta()}
        assert (await reconcile(scaler(resource(**target)), busy, young, **none)).size == 4, "six are too many at once"
