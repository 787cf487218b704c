"""How an autoscaler reckons: where metrics come from, which pods count, how far a size goes and what is remembered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.workloads.autoscaling.calculator import (
    StartupPeriods,
    Tolerances,
    compute_for_average,
    compute_for_pods,
    compute_for_value,
    requests_of,
)
from controllers.workloads.autoscaling.limits import ScalingHistory, limit
from controllers.workloads.autoscaling.usage import MetricError, Usage, format_quantity
from tests.controllers.autoscalers import (
    AT,
    BROKEN,
    MEASURED,
    NOW,
    ServingClient,
    pod,
    scaler,
)
from tests.controllers.test_autoscaling_rules import ago, rule
from tests.support.virtual import run

pytestmark = pytest.mark.integration


def usage_of(container: str, cpu: str) -> Json:
    return {"name": container, "usage": {"cpu": cpu}}


# --- where metrics come from


def measured(
    *items: Json, error: StatusError | None = None, said: Json | None = None, pods: Any = (), **of: str
) -> Json:
    client = ServingClient(**{MEASURED: error or {"items": list(items)}})
    found: list[Json] = []

    async def scenario() -> None:
        owner = scaler(said=said)
        container = of.get("container", "")
        found.append(await Usage(client).of_resource(owner, pods, "cpu", container, "app in (a,b)"))  # type: ignore[arg-type]

    run(scenario)
    assert client.requests in ([], [("GET", MEASURED, "labelSelector=app%20in%20%28a%2Cb%29")])
    return found[0]


def test_usage_without_annotations_is_read_from_the_metrics_api() -> None:
    a = {"metadata": {"name": "a"}, "containers": [usage_of("c", "100m"), usage_of("d", "50m")]}
    b = {"metadata": {"name": "b"}, "containers": [{"name": "c", "usage": {"memory": "1Gi"}}, {"name": "d"}]}
    assert measured(a, b, {"metadata": {"name": "e"}}) == {"a": 150}
    assert measured(a, b, container="d") == {"a": 50}
    with pytest.raises(MetricError, match="no metrics returned from resource metrics API"):
        measured(b)
    with pytest.raises(MetricError, match="unable to fetch metrics from resource metrics API: broken"):
        measured(error=BROKEN)


def test_usage_is_read_from_the_pod_then_its_containers_then_the_autoscaler() -> None:
    ready = [pod("own", "70m"), pod("parts", **{"usage.cpu.c": "20m", "usage.cpu.d": "30m"}), pod("none")]
    both = pod("both", "70m", **{"usage.cpu.c": "20m"})
    unready, waiting = pod("unready", ready="False"), pod("waiting", phase="Pending")
    assert measured(pods=[*ready, both]) == {"own": 70, "parts": 50, "both": 70}
    said = measured(pods=[*ready, waiting], said={"usage.cpu": "90m", "load.cpu": "999m"})
    assert said == {"own": 70, "parts": 50, "none": 90}
    shared = measured(pods=[pod("a"), pod("b"), unready, waiting], said={"load.cpu": "101m"})
    assert shared == {"a": 50, "b": 50, "unready": 50}
    assert measured(pods=[unready], said={"load.cpu": "100m"}) == {"unready": 100}
    assert measured(pods=[pod("own", "0")]) == {"own": 0}
    with pytest.raises(MetricError, match='"much" is not a quantity: '):
        measured(pods=[pod("own", "much")])
    with pytest.raises(MetricError, match=r"no pod has the annotation kubedra\.dev/metric\.rps"):
        Usage.of_pods(scaler(), ready, "rps")
    assert Usage.of_pods(scaler(said={"load.rps": "6"}), ready, "rps") == dict.fromkeys(("own", "parts", "none"), 2000)


def test_quantities_are_shown_in_thousandths_where_there_are_any() -> None:
    assert [format_quantity(each) for each in (1500, 2000, 999, 0, 1000000)] == ["1500m", "2", "999m", "0", "1k"]
    assert [format_quantity(each, binary=True) for each in (1024000, 1500)] == ["1Ki", "1500m"]


# --- how it reckons


def test_pods_that_do_not_count() -> None:
    waiting, failed, leaving = pod("w", phase="Pending"), pod("f", phase="Failed"), pod("l")
    leaving["metadata"]["deletionTimestamp"] = AT
    for other, expected in ((waiting, 1), (failed, 2), (leaving, 2)):
        name = other["metadata"]["name"]
        found = compute_for_pods(1, 100, {"a": 200, name: 900}, [pod("a"), other], Tolerances(), NOW)
        assert (found.replicas, found.value) == (expected, 200), name
    assert compute_for_pods(2, 100, {"a": 100}, [pod("a"), waiting], Tolerances(), NOW).replicas == 2, (
        "it is as it should be"
    )
    with pytest.raises(MetricError, match="did not receive metrics for targeted pods"):
        compute_for_pods(1, 100, {"w": 1}, [waiting], Tolerances(), NOW)
    with pytest.raises(MetricError, match="no metrics returned matched known pods"):
        compute_for_pods(1, 100, {"x": 1}, [pod("a")], Tolerances(), NOW, requests={"a": 1})


def test_a_pod_is_starting_at_the_ends_of_its_periods() -> None:
    def starts(started: str, since: str | None, status: str = "False") -> bool:
        other = pod("b", ready=status)
        other["status"] |= {"startTime": started} if started else {}
        if not started:
            del other["status"]["startTime"]
        other["status"]["conditions"][0] |= {"lastTransitionTime": since}
        periods = StartupPeriods(timedelta(minutes=5), timedelta(seconds=30))
        found = compute_for_pods(
            2, 100, {"a": 300, "b": 300}, [pod("a"), other], Tolerances(), NOW, cpu=True, starting=periods
        )
        return found.value == 300 and found.replicas == 3

    assert starts("", None)
    assert not starts(ago(minutes=5), None), "the period is over"
    assert starts(ago(minutes=4.9), None)
    assert not starts(ago(minutes=10), ago(minutes=9.5)), "it was ready once"
    assert starts(ago(minutes=10), ago(minutes=9.6))
    assert not starts(ago(minutes=1), ago(minutes=1), "True")
    assert not starts(ago(minutes=1), ago(minutes=1), "Unknown")


@pytest.mark.parametrize(
    ("counted", "target", "value", "expected"),
    [(0, 10, 25, (3, 25)), (2, 10, 22, (2, 11)), (2, 10, 23, (3, 12)), (2, 10, 18, (2, 9)), (3, 10, 10, (1, 4))],
)
def test_a_value_that_all_share_asks_for_as_many_as_bring_each_to_its_share(
    counted: int, target: int, value: int, expected: tuple[int, int]
) -> None:
    found = compute_for_average(counted, target, value, Tolerances())
    assert (found.replicas, found.value, found.percent) == (*expected, 0)


def test_one_value_needs_pods_unless_it_is_met_or_there_are_none_yet() -> None:
    assert compute_for_value(0, 100, 250, [], Tolerances()).replicas == 3
    assert compute_for_value(2, 100, 110, [], Tolerances()).replicas == 2
    with pytest.raises(MetricError, match="unable to calculate ready pods: no pods returned"):
        compute_for_value(2, 100, 250, [], Tolerances())
    assert compute_for_value(1, 100, 250, [pod("a"), pod("b", phase="Pending")], Tolerances()).replicas == 3


def test_a_pod_without_a_request_is_an_error() -> None:
    with pytest.raises(MetricError, match="missing request for disk in container c of Pod a"):
        requests_of([pod("a")], "disk", "")
    assert requests_of([pod("a")], "cpu", "") == {"a": 200}


def test_missing_pods_use_all_that_they_may_when_it_goes_down_and_nothing_when_it_goes_up() -> None:
    def found(values: Json, target: int, requests: Json | None = None, pods: int = 4, current: int = 0) -> int:
        running = [pod(f"p{n}") for n in range(pods)]
        return compute_for_pods(current or pods, target, values, running, Tolerances(), NOW, requests=requests).replicas

    hundred = {f"p{n}": 100 for n in range(4)}
    assert found({"p0": 10, "p1": 10}, 200, hundred) == 3, "at the share that is aimed at, above 100 percent"
    assert found({"p0": 10, "p1": 10, "p2": 10}, 100) == 2, "at the value that is aimed at"
    assert found({"p0": 400, "p1": 400}, 100) == 8, "at nothing"
    assert found({"p0": 200}, 100, pods=3, current=1) == 1, "which turns it round"
    assert found({"p0": 100, "p1": 100}, 100) == 4, "as they are"


@pytest.mark.parametrize(
    ("current", "wanted", "least", "most", "behavior", "expected"),
    [
        (2, 9, 1, 9, None, (4, True, "ScaleUpLimit")),
        (3, 9, 1, 9, None, (6, True, "ScaleUpLimit")),
        (3, 9, 1, 6, None, (6, True, "TooManyReplicas")),
        (3, 6, 1, 9, None, (6, False, "DesiredWithinRange")),
        (3, 2, 2, 9, None, (2, False, "DesiredWithinRange")),
        (3, 9, 1, 5, {"scaleUp": rule("Pods", 2)}, (5, True, "TooManyReplicas")),
        (3, 9, 1, 6, {"scaleUp": rule("Pods", 2)}, (5, True, "ScaleUpLimit")),
        (3, 9, 1, 6, {"scaleUp": rule("Pods", 9)}, (6, True, "TooManyReplicas")),
        (9, 1, 5, 9, {"scaleDown": rule("Pods", 4, stabilizationWindowSeconds=0)}, (5, True, "TooFewReplicas")),
        (9, 1, 4, 9, {"scaleDown": rule("Pods", 4, stabilizationWindowSeconds=0)}, (5, True, "ScaleDownLimit")),
        (9, 5, 4, 9, {"scaleDown": rule("Pods", 4, stabilizationWindowSeconds=0)}, (5, False, "DesiredWithinRange")),
        (9, 1, 0, 9, {"scaleDown": {"stabilizationWindowSeconds": 0}}, (9, True, "ScaleDownLimit")),
        (9, 9, 1, 9, {"scaleDown": rule("Pods", 4)}, (9, False, "DesiredWithinRange")),
        (7, 1, 0, 9, {"scaleDown": rule("Percent", 50, stabilizationWindowSeconds=0)}, (3, True, "ScaleDownLimit")),
        (7, 99, 0, 99, {"scaleUp": rule("Percent", 50)}, (11, True, "ScaleUpLimit")),
        (1000, 9999, 0, 9999, {"scaleUp": rule("Percent", 100)}, (2000, True, "ScaleUpLimit")),
    ],
)  # fmt: skip
def test_a_size_goes_as_far_as_its_limits(
    current: int, wanted: int, least: int, most: int, behavior: Json | None, expected: tuple[int, bool, str]
) -> None:
    spec = {"maxReplicas": most, **({"behavior": behavior} if behavior else {})}
    found = limit(ScalingHistory(), NOW, spec, current, wanted, least)
    assert (found.replicas, found.is_limited, found.limit[0]) == expected


@pytest.mark.parametrize(("select", "up", "down"), [(None, 9, 1), ("Max", 9, 1), ("Min", 6, 4), ("Disabled", 5, 5)])
def test_of_several_policies_the_one_that_is_selected_counts(select: str | None, up: int, down: int) -> None:
    policies = [each for value in (1, 4) for each in rule("Pods", value)["policies"]]
    rules = {"policies": policies, "stabilizationWindowSeconds": 0, **({"selectPolicy": select} if select else {})}
    spec = {"maxReplicas": 20, "behavior": {"scaleUp": rules, "scaleDown": rules}}
    assert limit(ScalingHistory(), NOW, spec, 5, 20, 0).replicas == up
    assert limit(ScalingHistory(), NOW, spec, 5, 0, 0).replicas == down


def test_the_past_counts_up_to_the_end_of_its_period() -> None:
    up = {"scaleUp": rule("Pods", 4), "scaleDown": rule("Pods", 4, stabilizationWindowSeconds=0)}
    for seconds, expected in ((59, 4), (60, 8)):
        past = ScalingHistory()
        past.record_change(NOW - timedelta(seconds=seconds), 0, 4, up)
        assert limit(past, NOW, {"maxReplicas": 20, "behavior": up}, 4, 20, 0).replicas == expected
    past = ScalingHistory()
    past.record_change(NOW, 4, 8, up)
    past.record_change(NOW + timedelta(seconds=60), 8, 9, up)
    past.record_change(NOW + timedelta(seconds=60), 9, 7, up)
    past.record_change(NOW, 8, 9, None)
    assert past.ups == [(NOW, 4), (NOW + timedelta(seconds=60), 1)]
    assert past.downs == [(NOW + timedelta(seconds=60), 2)]
    spec = {"maxReplicas": 20}
    for seconds, expected in ((300, 8), (301, 2)):
        past = ScalingHistory()
        limit(past, NOW, spec, 8, 8, 1)
        assert limit(past, NOW + timedelta(seconds=seconds), spec, 8, 2, 1).replicas == expected
    for seconds, expected in ((29, 8), (30, 2)):
        past, window = ScalingHistory(), {"behavior": {"scaleDown": rule("Pods", 9, stabilizationWindowSeconds=30)}}
        limit(past, NOW, {**spec, **window}, 8, 8, 1)
        assert limit(past, NOW + timedelta(seconds=seconds), {**spec, **window}, 8, 2, 1).replicas == expected
        past, window = ScalingHistory(), {"behavior": {"scaleUp": rule("Pods", 9, stabilizationWindowSeconds=30)}}
        limit(past, NOW, {**spec, **window}, 2, 2, 1)
        expected = 2 if seconds == 29 else 8
        found = limit(past, NOW + timedelta(seconds=seconds), {**spec, **window}, 2, 8, 1)
        assert (found.replicas, found.able_to_scale[0]) == (
            expected,
            "ScaleUpStabilized" if seconds == 29 else "ReadyForNewScale",
        )
