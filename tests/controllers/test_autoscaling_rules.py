"""The rules of autoscalers, without a server: usage, the size for a metric, limits of changes and their history."""

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
    ago,
    pod,
    rule,
    scaler,
)

pytestmark = pytest.mark.integration


def usage_of(container: str, cpu: str) -> Json:
    return {"name": container, "usage": {"cpu": cpu}}


# --- where metrics come from


async def measure(
    *items: Json, error: StatusError | None = None, said: Json | None = None, pods: Any = (), **of: str
) -> Json:
    """Return the cpu usage of pods. `items`: of the metrics API; `said`: annotations of the autoscaler."""
    client = ServingClient(**{MEASURED: error or {"items": list(items)}})
    usage = Usage(client)  # type: ignore[arg-type]
    found = await usage.of_resource(scaler(said=said), pods, "cpu", of.get("container", ""), "app in (a,b)")
    assert client.requests in ([], [("GET", MEASURED, "labelSelector=app%20in%20%28a%2Cb%29")])
    return found


async def test_usage_without_annotations_is_read_from_the_metrics_api() -> None:
    a = {"metadata": {"name": "a"}, "containers": [usage_of("c", "100m"), usage_of("d", "50m")]}
    b = {"metadata": {"name": "b"}, "containers": [{"name": "c", "usage": {"memory": "1Gi"}}, {"name": "d"}]}
    assert await measure(a, b, {"metadata": {"name": "e"}}) == {"a": 150}
    assert await measure(a, b, container="d") == {"a": 50}
    with pytest.raises(MetricError, match="no metrics returned from resource metrics API"):
        await measure(b)
    with pytest.raises(MetricError, match="unable to fetch metrics from resource metrics API: broken"):
        await measure(error=BROKEN)


async def test_usage_is_read_from_the_pod_then_its_containers_then_the_autoscaler() -> None:
    ready = [pod("own", "70m"), pod("parts", **{"usage.cpu.c": "20m", "usage.cpu.d": "30m"}), pod("none")]
    both = pod("both", "70m", **{"usage.cpu.c": "20m"})
    unready, waiting = pod("unready", ready="False"), pod("waiting", phase="Pending")
    assert await measure(pods=[*ready, both]) == {"own": 70, "parts": 50, "both": 70}
    said = await measure(pods=[*ready, waiting], said={"usage.cpu": "90m", "load.cpu": "999m"})
    assert said == {"own": 70, "parts": 50, "none": 90}
    shared = await measure(pods=[pod("a"), pod("b"), unready, waiting], said={"load.cpu": "101m"})
    assert shared == {"a": 50, "b": 50, "unready": 50}
    assert await measure(pods=[unready], said={"load.cpu": "100m"}) == {"unready": 100}
    assert await measure(pods=[pod("own", "0")]) == {"own": 0}
    with pytest.raises(MetricError, match='"much" is not a quantity: '):
        await measure(pods=[pod("own", "much")])
    with pytest.raises(MetricError, match=r"no pod has the annotation kubedra\.dev/metric\.rps"):
        Usage.of_pods(scaler(), ready, "rps")
    assert Usage.of_pods(scaler(said={"load.rps": "6"}), ready, "rps") == dict.fromkeys(("own", "parts", "none"), 2000)


def test_quantities_are_shown_in_thousandths_where_there_are_any() -> None:
    assert [format_quantity(each) for each in (1500, 2000, 999, 0, 1000000)] == ["1500m", "2", "999m", "0", "1k"]
    assert [format_quantity(each, binary=True) for each in (1024000, 1500)] == ["1Ki", "1500m"]


# --- the size for a metric


def compute(values: list[int], phases: str, current: int = 0, target: int = 100, **more: Any) -> int:
    """Return the size for pods in these phases (R or P), of which the first ones have these values."""
    pods = [pod(f"p{n}", phase={"R": "Running", "P": "Pending"}[phase]) for n, phase in enumerate(phases)]
    found = {f"p{n}": value for n, value in enumerate(values)}
    return compute_for_pods(current or len(pods), target, found, pods, Tolerances(), NOW, **more).replicas


HUNDRED = {f"p{n}": 100 for n in range(4)}


@pytest.mark.parametrize(
    ("values", "phases", "more", "expected"),
    [
        ([109, 109], "RR", {}, 2),
        ([200, 200], "RR", {}, 4),
        ([30, 30, 30], "RRR", {}, 1),
        # A pod that does not run yet counts as using nothing if the size grows.
        ([300, 300], "RRP", {}, 6),
        ([150, 150], "RRP", {}, 3),
        ([95, 95], "RRP", {}, 3),
        # A pod without a metric counts as using nothing if the size grows.
        ([300], "RR", {}, 3),
        ([400, 400], "RRRR", {}, 8),
        # It counts as using all that it may if the size shrinks: its request, or the target if that is more.
        ([10, 10, 10], "RRRR", {"target": 50, "requests": HUNDRED}, 3),
        ([10, 10], "RRRR", {"target": 200, "requests": HUNDRED}, 3),
        ([10, 10, 10], "RRRR", {}, 2),
        # The direction of the change never turns round.
        ([10], "RRR", {"target": 50, "requests": HUNDRED}, 3),
        ([200], "RRR", {}, 3),
        ([200], "RRR", {"current": 1}, 1),
        ([100, 100], "RRRR", {}, 4),
        ([50, 50, 50], "RRRR", {"current": 2}, 2),
        ([300, 300], "RRR", {"current": 9}, 9),
    ],
)
def test_a_metric_of_pods_asks_for_as_many_as_bring_it_to_its_target(
    values: list[int], phases: str, more: Json, expected: int
) -> None:
    assert compute(values, phases, **more) == expected


def test_pods_that_wait_have_failed_or_are_deleted_do_not_count() -> None:
    waiting, failed, leaving = pod("w", phase="Pending"), pod("f", phase="Failed"), pod("l")
    leaving["metadata"]["deletionTimestamp"] = AT
    for other, expected in ((waiting, 1), (failed, 2), (leaving, 2)):
        name = other["metadata"]["name"]
        found = compute_for_pods(1, 100, {"a": 200, name: 900}, [pod("a"), other], Tolerances(), NOW)
        assert (found.replicas, found.value) == (expected, 200), name
    for values, pods, requests, text in (
        ({"a": 1}, [], None, "no pods returned by selector"),
        ({"w": 1}, [waiting], None, "did not receive metrics for targeted pods"),
        ({"x": 1}, [pod("a")], {"a": 1}, "no metrics returned matched known pods"),
    ):
        with pytest.raises(MetricError, match=text):
            compute_for_pods(1, 100, values, pods, Tolerances(), NOW, requests=requests)


@pytest.mark.parametrize(
    ("started", "since", "status", "cpu", "starts"),
    [
        ("", None, "False", True, True),
        (ago(minutes=5), None, "False", True, False),
        (ago(minutes=4.9), None, "False", True, True),
        (ago(minutes=10), ago(minutes=9.5), "False", True, False),
        (ago(minutes=10), ago(minutes=9.6), "False", True, True),
        (ago(minutes=1), ago(minutes=1), "True", True, False),
        (ago(minutes=1), ago(minutes=1), "Unknown", True, False),
        (ago(minutes=1), ago(minutes=1), "False", True, True),
        (ago(minutes=1), ago(minutes=1), "False", False, False),
        (ago(minutes=1), ago(minutes=1), None, True, True),
    ],
)
def test_the_cpu_of_a_pod_that_starts_does_not_count(
    started: str, since: str | None, status: str | None, cpu: bool, starts: bool
) -> None:
    other = pod("b", ready=status or "")
    other["status"] |= {"startTime": started} if started else {}
    if not started:
        del other["status"]["startTime"]
    other["status"]["conditions"][0] |= {"lastTransitionTime": since}
    if status is None:
        other["status"]["conditions"] = []
    periods = StartupPeriods(timedelta(minutes=5), timedelta(seconds=30))
    pods, values = [pod("a"), other], {"a": 300, "b": 300}
    found = compute_for_pods(2, 100, values, pods, Tolerances(), NOW, cpu=cpu, starting=periods)
    assert (found.value, found.replicas) == (300, 3 if starts else 6)


@pytest.mark.parametrize(
    ("counted", "target", "value", "expected"),
    [(0, 10, 25, (3, 25)), (2, 10, 22, (2, 11)), (2, 10, 23, (3, 12)), (2, 10, 18, (2, 9)), (3, 10, 10, (1, 4))],
)
def test_a_value_that_all_share_asks_for_as_many_as_bring_each_to_its_share(
    counted: int, target: int, value: int, expected: tuple[int, int]
) -> None:
    found = compute_for_average(counted, target, value, Tolerances())
    assert (found.replicas, found.value, found.percent) == (*expected, 0)


def test_one_value_is_for_the_ready_pods_and_needs_some_unless_it_is_met() -> None:
    waiting, unready = pod("b", phase="Pending"), pod("b", ready="False")
    for current, target, value, pods, expected in (
        (2, 100, 300, [pod("a"), pod("b")], 6),
        (2, 100, 109, [pod("a"), pod("b")], 2),
        (2, 100, 300, [pod("a"), unready], 3),
        (1, 100, 250, [pod("a"), waiting], 3),
        (0, 100, 250, [], 3),
        (2, 100, 110, [], 2),
        (0, 1, 10**12, [], 2**31 - 1),
    ):
        assert compute_for_value(current, target, value, pods, Tolerances()).replicas == expected
    with pytest.raises(MetricError, match="unable to calculate ready pods: no pods returned"):
        compute_for_value(2, 100, 250, [], Tolerances())


def test_a_pod_requests_its_own_resources_or_those_of_its_containers_and_sidecars() -> None:
    def container(name: str, cpu: str, **more: Any) -> Json:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    inits = [container("setup", "1"), container("side", "50m", restartPolicy="Always")]
    one: Json = {"metadata": {"name": "p"}, "spec": {"containers": [container("c", "100m")], "initContainers": inits}}
    assert requests_of([one], "cpu", "") == {"p": 150}
    assert requests_of([one], "cpu", "side") == {"p": 50}
    with pytest.raises(MetricError, match="container setup not found in Pod p"):
        requests_of([one], "cpu", "setup")
    one["spec"]["resources"] = {"requests": {"cpu": "500m"}}
    assert requests_of([one], "cpu", "") == {"p": 500}
    assert requests_of([one], "cpu", "c") == {"p": 100}
    with pytest.raises(MetricError, match="missing request for disk in container c of Pod a"):
        requests_of([pod("a")], "disk", "")


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
    for longest, seconds, expected in ((300, 300, 8), (300, 301, 2), (90, 90, 8), (90, 91, 2)):
        past, default = ScalingHistory(), timedelta(seconds=longest)
        limit(past, NOW, spec, 8, 8, 1, default)
        found = limit(past, NOW + timedelta(seconds=seconds), spec, 8, 2, 1, default)
        assert (found.replicas, found.able_to_scale[0] == "ScaleDownStabilized") == (expected, expected == 8)
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


def test_a_policy_counts_from_where_its_period_began_and_older_changes_are_forgotten() -> None:
    past, behavior = ScalingHistory(), {"scaleUp": rule("Pods", 2), "scaleDown": rule("Pods", 9)}
    past.record_change(NOW, 6, 4, behavior)
    assert limit(past, NOW, {"maxReplicas": 20, "behavior": behavior}, 4, 20, 1).replicas == 8
    past.record_change(NOW + timedelta(hours=1), 6, 4, behavior)
    assert past.downs == [(NOW + timedelta(hours=1), 2)]
