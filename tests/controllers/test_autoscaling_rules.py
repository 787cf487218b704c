"""What an autoscaler asks for and how far it goes, rule by rule: without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.workloads.autoscaling.calculator import Tolerances, compute_for_pods, compute_for_value, requests_of
from controllers.workloads.autoscaling.limits import ScalingHistory, limit
from controllers.workloads.autoscaling.usage import MetricError

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(**time: float) -> str:
    return (NOW - timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name: str, phase: str = "Running", ready: str | None = "True", started: str = "", since: str = "") -> Json:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since or ago(days=1)}
    status = {"phase": phase, "startTime": started or ago(days=1), "conditions": [condition] if ready else []}
    return {"metadata": {"name": name}, "spec": {}, "status": status}


def asked(values: list[int], pods: int, current: int = 0, target: int = 100, **more: Any) -> int:
    """For so many pods that run, of which the first ones have these values."""
    found = {f"p{n}": value for n, value in enumerate(values)}
    running = [pod(f"p{n}") for n in range(pods)]
    return compute_for_pods(current or pods, target, found, running, Tolerances(), NOW, **more).replicas


def test_what_a_deleted_pod_uses_does_not_count() -> None:
    leaving = pod("c")
    leaving["metadata"]["deletionTimestamp"] = ago(seconds=1)
    values = {"a": 200, "b": 200, "c": 900}
    assert compute_for_pods(3, 100, values, [pod("a"), pod("b"), leaving], Tolerances(), NOW).replicas == 4


@pytest.mark.parametrize(
    ("other", "cpu", "expected"),
    [
        (pod("b", ready="False", started=ago(minutes=2), since=ago(minutes=1)), True, 3),
        (pod("b", ready="False", started=ago(minutes=2), since=ago(minutes=1)), False, 6),
        (pod("b", ready="False", started=ago(minutes=10), since=ago(minutes=1)), True, 6),
        (pod("b", ready="False", started=ago(minutes=10), since=ago(minutes=9.8)), True, 3),
        (pod("b", ready="True", started=ago(minutes=2), since=ago(minutes=1)), True, 6),
        (pod("b", ready=None), True, 3),
    ],
    ids=["young", "young, not of cpu", "was ready", "was never ready", "is ready", "unknown"],
)
def test_the_processor_time_of_a_pod_that_is_starting_counts_as_none(other: Json, cpu: bool, expected: int) -> None:
    found = compute_for_pods(2, 100, {"a": 300, "b": 300}, [pod("a"), other], Tolerances(), NOW, cpu=cpu)
    assert found.replicas == expected


def test_pods_without_a_metric_never_turn_a_decision_round_nor_make_it_larger() -> None:
    requests = {f"p{n}": 100 for n in range(4)}
    assert asked([10, 10, 10], 4, target=50, requests=requests) == 3, "they count as using all that they request"
    assert asked([10], 3, target=50, requests=requests) == 3, "down became up"
    assert asked([200], 3) == 3, "up became down"
    assert asked([50, 50, 50], 4, current=2) == 2, "down to more than there are"
    assert asked([300, 300], 3, current=9) == 9, "up to fewer than there are"


def test_pods_that_do_not_run_yet_do_not_make_a_size_shrink() -> None:
    values = {"a": 95, "b": 95}
    assert compute_for_pods(3, 100, values, [pod("a"), pod("b"), pod("c", "Pending")], Tolerances(), NOW).replicas == 3


def test_one_value_is_divided_by_the_ready_pods() -> None:
    assert compute_for_value(2, 100, 300, [pod("a"), pod("b", ready="False")], Tolerances()).replicas == 3
    assert compute_for_value(0, 1, 10**12, [], Tolerances()).replicas == 2**31 - 1


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


def rule(kind: str, value: int, **more: Any) -> Json:
    return {"policies": [{"type": kind, "value": value, "periodSeconds": 60}], **more}


@pytest.mark.parametrize(
    ("behavior", "current", "wanted", "least", "expected", "reason"),
    [
        ({"scaleUp": rule("Pods", 2, selectPolicy="Disabled")}, 4, 10, 1, 4, "ScaleUpLimit"),
        ({"scaleUp": rule("Percent", 50)}, 5, 20, 1, 8, "ScaleUpLimit"),
        ({"scaleDown": rule("Percent", 50)}, 5, 1, 1, 2, "ScaleDownLimit"),
        ({"scaleDown": rule("Pods", 3)}, 5, 1, 4, 4, "TooFewReplicas"),
    ],
)
def test_policies_say_how_far_a_size_goes_at_once(
    behavior: Json, current: int, wanted: int, least: int, expected: int, reason: str
) -> None:
    found = limit(ScalingHistory(), NOW, {"maxReplicas": 20, "behavior": behavior}, current, wanted, least)
    assert (found.replicas, found.limit[0]) == (expected, reason)


def test_a_policy_counts_from_where_its_period_began_and_older_changes_are_forgotten() -> None:
    past, behavior = ScalingHistory(), {"scaleUp": rule("Pods", 2), "scaleDown": rule("Pods", 9)}
    past.record_change(NOW, 6, 4, behavior)
    assert limit(past, NOW, {"maxReplicas": 20, "behavior": behavior}, 4, 20, 1).replicas == 8
    past.record_change(NOW + timedelta(hours=1), 6, 4, behavior)
    assert past.downs == [(NOW + timedelta(hours=1), 2)]


def test_recent_recommendations_stabilize_a_size() -> None:
    past, spec = (
        ScalingHistory(),
        {"maxReplicas": 20, "behavior": {"scaleUp": rule("Pods", 9, stabilizationWindowSeconds=60)}},
    )
    limit(past, NOW, spec, 5, 5, 1)
    found = limit(past, NOW + timedelta(seconds=10), spec, 5, 9, 1)
    assert (found.replicas, found.able_to_scale[0]) == (5, "ScaleUpStabilized")
    past = ScalingHistory()
    limit(past, NOW, {"maxReplicas": 20}, 5, 8, 1)
    found = limit(past, NOW + timedelta(seconds=10), {"maxReplicas": 20}, 8, 2, 1)
    assert (found.replicas, found.able_to_scale[0]) == (8, "ScaleDownStabilized")
