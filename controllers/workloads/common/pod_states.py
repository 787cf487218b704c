"""States of pods (active, terminating, ready, available) and their order of deletion.

Facts: upstream's pkg/controller/controller_utils.go and pkg/api/v1/pod.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cmp_to_key
from typing import Final

from apiserver.api.objects import Json
from controllers.runtime.times import parse_time

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_PHASES: Final[Mapping[str, int]] = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def is_terminal(pod: Json) -> bool:
    """Return whether all containers have ended permanently."""
    return phase(pod) in _ENDED


def is_deleted(pod: Json) -> bool:
    """Return whether the pod has a deletionTimestamp."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_active(pod: Json) -> bool:
    """Return whether the pod has neither ended nor a deletionTimestamp."""
    return not is_terminal(pod) and not is_deleted(pod)


def is_terminating(pod: Json) -> bool:
    """Return whether the pod has a deletionTimestamp and has not ended."""
    return is_deleted(pod) and not is_terminal(pod)


def ready_condition(pod: Json) -> Json | None:
    # Called for each pod of an owner after every change of one: a plain loop is the fastest.
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            found: Json = condition
            return found
    return None


def is_ready(pod: Json) -> bool:
    condition = ready_condition(pod)
    return condition is not None and condition["status"] == "True"


def ready_since(pod: Json) -> datetime | None:
    """Return the time since which the pod is ready, or None."""
    condition = ready_condition(pod)
    if condition is None or condition["status"] != "True" or not condition.get("lastTransitionTime"):
        return None
    return parse_time(condition["lastTransitionTime"])


def is_available(pod: Json, min_ready_seconds: int, now: datetime) -> bool:
    """Return whether the pod has been ready for the owner's minReadySeconds."""
    if not min_ready_seconds:
        return is_ready(pod)
    since = ready_since(pod)
    return since is not None and since + timedelta(seconds=min_ready_seconds) <= now


def next_availability(pods: Iterable[Json], min_ready_seconds: int, now: datetime) -> timedelta | None:
    """Return the time until the next ready pod becomes available, or None."""
    if not min_ready_seconds:
        return None
    needed = timedelta(seconds=min_ready_seconds)
    left = [since + needed - now for pod in pods if (since := ready_since(pod)) is not None]
    return min((each for each in left if each > timedelta()), default=None)


def restarts(pod: Json) -> tuple[int, int]:
    """Return the highest restart counts of containers and of sidecars."""
    status = pod.get("status") or {}
    sidecars = {c["name"] for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"}
    main = [c.get("restartCount", 0) for c in status.get("containerStatuses") or ()]
    side = [c.get("restartCount", 0) for c in status.get("initContainerStatuses") or () if c["name"] in sidecars]
    return max(main, default=0), max(side, default=0)


def to_delete_first(
    pods: Sequence[Json], related: Iterable[Json], now: datetime, *, by_cost: bool = True
) -> list[Json]:
    """Sort pods by order of deletion.

    `related` are the pods of all owners with the same controller: nodes with more of them lose pods first. `by_cost`
    enables the annotation pod-deletion-cost.
    """
    on_node = Counter(pod["spec"].get("nodeName", "") for pod in related if is_active(pod))

    def order(one: Json, other: Json) -> int:
        return _before(one, other, on_node, now, by_cost)

    return sorted(pods, key=cmp_to_key(order))


def _before(one: Json, other: Json, on_node: Mapping[str, int], now: datetime, by_cost: bool) -> int:
    """Compare two pods; a negative result deletes `one` first."""
    node, node_of_other = one["spec"].get("nodeName", ""), other["spec"].get("nodeName", "")
    ready, other_ready = is_ready(one), is_ready(other)
    by_rank = (
        bool(node) - bool(node_of_other)
        or _PHASES.get(phase(one), 0) - _PHASES.get(phase(other), 0)
        or ready - other_ready
        or (deletion_cost(one) - deletion_cost(other) if by_cost else 0)
        or on_node[node_of_other] - on_node[node]
    )
    if by_rank:
        return by_rank
    if ready and other_ready and (by_age := _younger(one, other, ready_since(one), ready_since(other), now)):
        return by_age
    one_restarts, other_restarts = restarts(one), restarts(other)
    if one_restarts != other_restarts:
        return -1 if one_restarts > other_restarts else 1
    created, other_created = (parse_time(pod["metadata"]["creationTimestamp"]) for pod in (one, other))
    return _younger(one, other, created, other_created, now)


def _younger(one: Json, other: Json, since: datetime | None, other_since: datetime | None, now: datetime) -> int:
    """Compare ages by magnitude, so that not always the youngest pod is deleted; ties by uid."""
    if since == other_since:
        return 0
    if since is None or other_since is None:
        return -1 if since is None else 1
    by_magnitude = _magnitude(now - since) - _magnitude(now - other_since)
    return by_magnitude or (-1 if one["metadata"]["uid"] < other["metadata"]["uid"] else 1)


def _magnitude(age: timedelta) -> int:
    nanoseconds = age // timedelta(microseconds=1) * 1000
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def deletion_cost(pod: Json) -> int:
    """Return the pod-deletion-cost annotation; invalid values count as 0."""
    text = (pod["metadata"].get("annotations") or {}).get(_COST, "")
    try:
        return int(text)
    except ValueError:
        return 0
