"""Computes the replicas for a metric. Pure.

Unready pods count as idle if this limits scaling up. Pods without metrics count conservatively, so that they never
amplify scaling. Facts: upstream's replica_calculator.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from apiserver.api.objects import Json
from controllers.runtime.conditions import condition_of
from controllers.runtime.times import parse_time
from controllers.workloads.autoscaling.usage import MetricError, Values, milli
from controllers.workloads.common.pod_states import is_deleted, is_ready, phase

_MAX_REPLICAS: Final = 2147483647


class StartupPeriods(NamedTuple):
    """Periods after a pod's start in which the CPU usage of an unready pod is ignored.

    `cpu` applies to every unready pod, `readiness` to pods that were never ready since.
    """

    cpu: timedelta = timedelta(minutes=5)
    readiness: timedelta = timedelta(seconds=30)


_DEFAULT: Final = StartupPeriods()


class Tolerances(NamedTuple):
    """Relative deviations below and above the target that cause no scaling."""

    down: float = 0.1
    up: float = 0.1

    def accept(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The result for a metric.

    `value` is the metric, averaged for pod metrics. `percent` is its share of the requests.
    """

    replicas: int
    value: int
    percent: int = 0


class _Groups(NamedTuple):
    ready: int
    unready: set[str]
    missing: set[str]


def compute_for_pods(
    current: int,
    target: int,
    values: Values,
    pods: Sequence[Json],
    tolerances: Tolerances,
    now: datetime,
    *,
    cpu: bool = False,
    requests: Values | None = None,
    starting: StartupPeriods = _DEFAULT,
) -> Recommendation:
    """Compute the replicas for a pod metric. Raise MetricError.

    `target` is a value, or with `requests` a percentage of them.
    """
    if not pods:
        raise MetricError("no pods returned by selector while calculating replica count")
    groups = _group(pods, values, now, starting if cpu else None)
    ignored = {_name(pod) for pod in pods if is_deleted(pod) or phase(pod) == "Failed"}
    values = {name: value for name, value in values.items() if name not in ignored | groups.unready}
    if not values:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    ratio, value, percent = _ratio(values, target, requests)
    rising = bool(groups.unready) and ratio > 1.0
    if not rising and not groups.missing:
        replicas = current if tolerances.accept(ratio) else _round_up(ratio * groups.ready)
        return Recommendation(replicas, value, percent)
    assumed = {**values, **_assume_values(ratio, target, groups, requests)}
    again, _, _ = _ratio(assumed, target, requests)
    replicas = _round_up(again * len(assumed))
    if (
        tolerances.accept(again)
        or (ratio < 1.0 < again)
        or (again < 1.0 < ratio)
        or (again < 1.0 and replicas > current)
        or (again > 1.0 and replicas < current)
    ):
        replicas = current
    return Recommendation(replicas, value, percent)


def _assume_values(ratio: float, target: int, groups: _Groups, requests: Values | None) -> dict[str, int]:
    """Return conservative values for pods without metrics, which never amplify a change.

    When scaling down they are at their target (at least their request), when scaling up they are idle.
    """
    if ratio < 1.0:
        share = max(100, target)
        full = {name: requests[name] * share // 100 for name in groups.missing} if requests is not None else {}
        return {name: full.get(name, target) for name in groups.missing}
    if ratio > 1.0:
        return dict.fromkeys(groups.missing | groups.unready, 0)
    return {}


def compute_for_value(
    current: int, target: int, value: int, pods: Sequence[Json], tolerances: Tolerances
) -> Recommendation:
    """Compute the replicas for a single value and its target. Raise MetricError."""
    ratio = value / target
    if current == 0:
        return Recommendation(_round_up(ratio), value)
    if tolerances.accept(ratio):
        return Recommendation(current, value)
    if not pods:
        raise MetricError(
            "unable to calculate ready pods: no pods returned by selector while calculating replica count"
        )
    ready = sum(phase(pod) == "Running" and is_ready(pod) for pod in pods)
    return Recommendation(_round_up(ratio * ready), value)


def compute_for_average(counted: int, target: int, value: int, tolerances: Tolerances) -> Recommendation:
    """Compute the replicas for a value shared by all. `target` is per replica, `counted` their number."""
    ratio = value / (target * counted) if counted else math.inf
    replicas = counted if tolerances.accept(ratio) else _round_up(value / target)
    return Recommendation(replicas, math.ceil(value / counted) if counted else value)


def requests_of(pods: Iterable[Json], resource: str, container: str) -> Values:
    """Return the requests of pods, or of one container each. Raise MetricError if one has none."""
    return {_name(pod): _request(pod, resource, container) for pod in pods}


def _request(pod: Json, resource: str, container: str) -> int:
    spec = pod["spec"]
    whole = (spec.get("resources") or {}).get("requests") or {}
    if not container and resource in whole:
        return milli(whole[resource])
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    found = [each for each in [*spec["containers"], *sidecars] if container in ("", each["name"])]
    if not found:
        raise MetricError(f"container {container} not found in Pod {_name(pod)}")
    total = 0
    for each in found:
        requests = (each.get("resources") or {}).get("requests") or {}
        if resource not in requests:
            raise MetricError(f"missing request for {resource} in container {each['name']} of Pod {_name(pod)}")
        total += milli(requests[resource])
    return total


def _ratio(values: Values, target: int, requests: Values | None) -> tuple[float, int, int]:
    """Return the ratio of the metric to its target, its average, and its percentage of the requests."""
    average = sum(values.values()) // len(values)
    if requests is None:
        return average / target, average, 0
    known = [(value, requests[name]) for name, value in values.items() if name in requests]
    requested = sum(request for _, request in known)
    if not requested:
        raise MetricError("no metrics returned matched known pods")
    percent = sum(value for value, _ in known) * 100 // requested
    return percent / target, sum(value for value, _ in known) // len(known), percent


def _group(pods: Iterable[Json], values: Values, now: datetime, starting: StartupPeriods | None) -> _Groups:
    ready, unready, missing = 0, set[str](), set[str]()
    for pod in pods:
        name = _name(pod)
        if is_deleted(pod) or phase(pod) == "Failed":
            continue
        if phase(pod) == "Pending":
            unready.add(name)
        elif name not in values:
            missing.add(name)
        elif starting is not None and _is_starting(pod, now, starting):
            unready.add(name)
        else:
            ready += 1
    return _Groups(ready, unready, missing)


def _is_starting(pod: Json, now: datetime, periods: StartupPeriods) -> bool:
    """Return whether the pod's CPU usage is not meaningful yet."""
    condition, started = condition_of(pod, "Ready"), pod["status"].get("startTime")
    if condition is None or started is None:
        return True
    if condition["status"] != "False":
        return False
    since = condition.get("lastTransitionTime")
    if parse_time(started) + periods.cpu > now:
        return True
    return since is not None and parse_time(started) + periods.readiness > parse_time(since)


def _round_up(replicas: float) -> int:
    return math.ceil(min(replicas, _MAX_REPLICAS))


def _name(pod: Json) -> str:
    name: str = pod["metadata"]["name"]
    return name
