"""The status of a Deployment: counts and conditions. Pure except for the time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.runtime.times import parse_time
from controllers.workloads.common.conditions import condition, condition_of, with_condition, without_condition
from controllers.workloads.deployment.arithmetic import (
    max_unavailable,
    progress_deadline,
    replicas,
    sum_status,
    total_replicas,
)

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
FAILURE: Final = "ReplicaFailure"
DONE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"


def progressing(status: str, reason: str, message: str) -> Json:
    return condition(PROGRESSING, status, reason, message, updated=True)


def with_progress(status: Json, progress: Json) -> Json:
    return {**status, "conditions": with_condition(status.get("conditions") or (), progress)}


def counts(deployment: Json, sets: Sequence[Json], new: Json | None, *, with_terminating: bool) -> Json:
    """Build the status from the ReplicaSets. Only the condition Available is updated."""
    before = deployment.get("status") or {}
    available = sum_status(sets, "availableReplicas")
    numbers = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum_status(sets, "replicas"),
        "updatedReplicas": sum_status([new] if new is not None else [], "replicas"),
        "readyReplicas": sum_status(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total_replicas(sets) - available),
    }
    status: Json = {name: number for name, number in numbers.items() if number}
    if with_terminating and (terminating := _terminating(sets)) is not None:
        status["terminatingReplicas"] = terminating
    if "collisionCount" in before:
        status["collisionCount"] = before["collisionCount"]
    enough = available >= replicas(deployment) - max_unavailable(deployment)
    wanted = condition(
        AVAILABLE,
        "True" if enough else "False",
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        updated=True,
    )
    return with_progress({**status, "conditions": before.get("conditions") or []}, wanted)


def _terminating(sets: Sequence[Json]) -> int | None:
    """Return the terminating pods; None if a ReplicaSet does not report them."""
    total = 0
    for each in sets:
        status = each.get("status") or {}
        if "terminatingReplicas" not in status and status.get("observedGeneration"):
            return None
        total += status.get("terminatingReplicas", 0)
    return total


def is_complete(deployment: Json, status: Json) -> bool:
    """Return whether all pods have the new template and are available."""
    wanted = replicas(deployment)
    return all(status.get(name, 0) == wanted for name in ("updatedReplicas", "replicas", "availableReplicas")) and bool(
        status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    )


def rollout(deployment: Json, status: Json, sets: Sequence[Json], new: Json | None) -> Json:
    """Return the status with progress and creation failures."""
    conditions = list(status["conditions"])
    if progress_deadline(deployment) is None:
        conditions = without_condition(conditions, PROGRESSING)
    elif not _is_done(deployment, status):
        conditions = _progress(deployment, status, conditions, new)
    failures = [found for each in ([new] if new else []) + list(sets) if (found := _failure(each)) is not None]
    conditions = with_condition(conditions, failures[0]) if failures else without_condition(conditions, FAILURE)
    return {**status, "conditions": conditions}


def _is_done(deployment: Json, status: Json) -> bool:
    """Return whether the roll-out is complete; later pod changes do not affect its progress."""
    current = condition_of(deployment.get("status") or {}, PROGRESSING)
    only_new = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return only_new and current is not None and current.get("reason") == DONE


def _progress(deployment: Json, status: Json, conditions: list[Json], new: Json | None) -> list[Json]:
    name = deployment["metadata"]["name"]
    subject = f'ReplicaSet "{new["metadata"]["name"]}"' if new is not None else f'Deployment "{name}"'
    before = deployment.get("status") or {}
    if is_complete(deployment, status):
        return with_condition(conditions, progressing("True", DONE, f"{subject} has successfully progressed."))
    if _has_moved(before, status):
        wanted = progressing("True", "ReplicaSetUpdated", f"{subject} is progressing.")
        current = condition_of(before, PROGRESSING)
        if current is not None and current["status"] == "True":
            wanted["lastTransitionTime"] = current["lastTransitionTime"]
        # lastUpdateTime stores the time of the last progress.
        return [*without_condition(conditions, PROGRESSING), wanted]
    if has_timed_out(deployment, status):
        return with_condition(conditions, progressing("False", TIMED_OUT, f"{subject} has timed out progressing."))
    return conditions


def _has_moved(before: Json, status: Json) -> bool:
    """Return whether there are more new, ready or available pods, or fewer old ones."""

    def old(counts: Json) -> int:
        return int(counts.get("replicas", 0) - counts.get("updatedReplicas", 0))

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old(status) < old(before) or any(status.get(name, 0) > before.get(name, 0) for name in grown)


def has_timed_out(deployment: Json, status: Json) -> bool:
    deadline, current = progress_deadline(deployment), condition_of(status, PROGRESSING)
    if deadline is None or current is None or current.get("reason") == DONE:
        return False
    if current.get("reason") == TIMED_OUT:
        return True
    return parse_time(current["lastUpdateTime"]) + timedelta(seconds=deadline) < now()


def next_check(deployment: Json, status: Json) -> timedelta | None:
    """Return the delay until the progress deadline, or None."""
    deadline, current = progress_deadline(deployment), condition_of(deployment.get("status") or {}, PROGRESSING)
    if deadline is None or current is None or current.get("reason") == TIMED_OUT or is_complete(deployment, status):
        return None
    left = parse_time(current["lastUpdateTime"]) + timedelta(seconds=deadline) - now()
    return max(left, timedelta()) + timedelta(seconds=1)


def _failure(replica_set: Json) -> Json | None:
    found = condition_of(replica_set.get("status") or {}, FAILURE)
    return None if found is None else {**found, "lastUpdateTime": found.get("lastTransitionTime")}
