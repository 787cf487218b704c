"""Set the conditions of a pod."""

from __future__ import annotations

from apiserver.api.objects import Json

__all__ = ["set_condition"]


def set_condition(status: Json, kind: str, value: str, now: str, *, reason: str = "", message: str = "") -> None:
    """Set one condition. `now` is its transition time, unless its value is unchanged."""
    conditions = status.setdefault("conditions", [])
    before = next((c for c in conditions if c.get("type") == kind), None)
    condition: Json = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": now}
    if before is not None and before.get("status") == value:
        condition["lastTransitionTime"] = before.get("lastTransitionTime")
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    if before is None:
        conditions.append(condition)
    else:
        conditions[conditions.index(before)] = condition
