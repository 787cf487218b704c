"""Conditions of workloads, as new lists. Facts: upstream's deployment_util.go, replica_set_utils.go."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.runtime.times import go_time


def condition_of(status: Json, type: str) -> Json | None:
    return next((condition for condition in status.get("conditions") or () if condition["type"] == type), None)


def condition(type: str, status: str, reason: str, message: str, *, updated: bool = False) -> Json:
    """Build a condition as of now. `updated` adds lastUpdateTime, as for Deployments."""
    at = go_time(now())
    found: Json = {"type": type, "status": status}
    if updated:
        found["lastUpdateTime"] = at
    found["lastTransitionTime"] = at
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found


def with_condition(conditions: Sequence[Json], new: Json) -> list[Json]:
    """Append a condition to the list, unless it has one of the same status and reason."""
    known = next((each for each in conditions if each["type"] == new["type"]), None)
    if known is not None and known["status"] == new["status"]:
        if known.get("reason", "") == new.get("reason", ""):
            return list(conditions)
        new = {**new, "lastTransitionTime": known.get("lastTransitionTime")}
    return [*without_condition(conditions, new["type"]), new]


def without_condition(conditions: Sequence[Json], type: str) -> list[Json]:
    return [each for each in conditions if each["type"] != type]
