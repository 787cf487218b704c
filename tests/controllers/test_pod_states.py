"""The state of a pod as its controller counts it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.workloads.common.pod_states import (
    deletion_cost,
    is_active,
    is_available,
    is_ready,
    is_terminating,
    ready_since,
    restarts,
)
from controllers.workloads.deployment.arithmetic import history_limit, progress_deadline

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(phase: str = "Running", *, going: bool = False, **status: Any) -> Json:
    metadata = {"name": "p", **({"deletionTimestamp": "2026-01-01T12:00:00Z"} if going else {})}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, **status}}


def ready(ago: int | None = 0, status: str = "True") -> Json:
    """Build a pod that became ready so many seconds ago, or at an unknown time (None)."""
    since = {} if ago is None else {"lastTransitionTime": (NOW - timedelta(seconds=ago)).isoformat()}
    return pod(conditions=[{"type": "Other", "status": "True"}, {"type": "Ready", "status": status, **since}])


@pytest.mark.parametrize(
    ("phase", "going", "active", "terminating"),
    [
        ("Pending", False, True, False),
        ("Running", False, True, False),
        ("", False, True, False),
        ("Running", True, False, True),
        ("Succeeded", False, False, False),
        ("Failed", False, False, False),
        ("Failed", True, False, False),
    ],
)
def test_a_pod_is_active_until_it_ends_or_is_deleted(phase: str, going: bool, active: bool, terminating: bool) -> None:
    found = pod(phase, going=going)
    assert (is_active(found), is_terminating(found)) == (active, terminating)


@pytest.mark.parametrize(
    ("of_pod", "seconds", "available"),
    [
        (ready(0), 0, True),
        (ready(None), 0, True),
        (ready(9), 10, False),
        (ready(10), 10, True),
        (ready(11), 10, True),
        (ready(None), 10, False),
        (ready(60, "False"), 10, False),
        (ready(60, "False"), 0, False),
        (pod(), 0, False),
        (pod(), 10, False),
    ],
)
def test_a_pod_is_available_once_it_has_been_ready_for_long_enough(of_pod: Json, seconds: int, available: bool) -> None:
    assert is_available(of_pod, seconds, NOW) is available


def test_a_pod_that_is_not_ready_has_not_been_ready_since_any_time() -> None:
    assert ready_since(ready(5)) == NOW - timedelta(seconds=5)
    assert ready_since(ready(5, "False")) is None
    assert ready_since(pod()) is None
    assert not is_ready(pod())


def test_restarts_of_sidecars_are_apart_and_those_of_other_init_containers_do_not_count() -> None:
    found = pod(
        containerStatuses=[{"name": "a", "restartCount": 2}, {"name": "b", "restartCount": 5}, {"name": "c"}],
        initContainerStatuses=[{"name": "side", "restartCount": 3}, {"name": "init", "restartCount": 9}],
    )
    found["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]
    assert restarts(found) == (5, 3)
    assert restarts(pod()) == (0, 0)


@pytest.mark.parametrize(("text", "cost"), [("5", 5), ("-5", -5), ("many", 0), ("", 0)])
def test_what_deleting_a_pod_costs_is_a_whole_number_or_nothing(text: str, cost: int) -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": text}
    assert deletion_cost({"metadata": {"annotations": annotations}}) == cost
    assert deletion_cost({"metadata": {}}) == 0


@pytest.mark.parametrize(
    ("given", "limit"), [(None, None), (0, 0), (600, 600), (2**31 - 1, None), (2**31 - 2, 2**31 - 2)]
)
def test_the_largest_number_is_no_limit(given: int | None, limit: int | None) -> None:
    assert progress_deadline({"spec": {"progressDeadlineSeconds": given}}) == limit
    assert history_limit({"spec": {"revisionHistoryLimit": given}}) == limit
    assert progress_deadline({"spec": {}}) is None
    assert history_limit({"spec": {}}) is None
