"""Table cells of the kinds of resource.k8s.io (pkg/printers/internalversion)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.durations import age
from apiserver.registry.definition.resource import Column
from apiserver.resources.common.columns import NAME, name_and_age

__all__ = ["CLAIM_COLUMNS", "POOL_STATUS_COLUMNS", "SLICE_COLUMNS", "TAINT_RULE_COLUMNS"]


def _claim_state(obj: Json) -> str:
    status = obj.get("status") or {}
    deleted = "deletionTimestamp" in obj["metadata"]
    words = ["deleted"] if deleted else []
    if status.get("allocation") is None:
        if not deleted:
            words.append("pending")
    else:
        words.append("allocated")
        if status.get("reservedFor"):
            words.append("reserved")
    return ",".join(words)


CLAIM_COLUMNS: Final = name_and_age(
    Column(name="State", cell=_claim_state, description="Whether devices are allocated, and reserved for consumers.")
)

SLICE_COLUMNS: Final = name_and_age(
    Column(name="Node", cell=lambda obj: obj["spec"].get("nodeName") or "", description="Node of the devices."),
    Column(
        name="Driver", cell=lambda obj: obj["spec"].get("driver", ""), description="Driver that offers the devices."
    ),
    Column(
        name="Pool", cell=lambda obj: obj["spec"]["pool"].get("name", ""), description="Pool that the slice belongs to."
    ),
)


def _time_added(obj: Json, now: datetime) -> str:
    added = obj["spec"]["taint"].get("timeAdded")
    return age(added, now) if added else ""


TAINT_RULE_COLUMNS: Final = name_and_age(
    Column(name="Key", cell=lambda obj: obj["spec"]["taint"].get("key", ""), description="Key of the taint."),
    Column(name="Value", cell=lambda obj: obj["spec"]["taint"].get("value", ""), description="Value of the taint."),
    Column(name="Effect", cell=lambda obj: obj["spec"]["taint"].get("effect", ""), description="Effect of the taint."),
    Column(name="TimeAdded", cell=_time_added, timed=True, description="Time since the taint was set."),
)


def _finished(obj: Json) -> Json | None:
    """Return the condition that ended the request."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c.get("type") in ("Complete", "Failed") and c.get("status") == "True"), None)


def _pools(obj: Json) -> list[Json]:
    pools: list[Json] = (obj.get("status") or {}).get("pools") or []
    return pools


def _has_counts(obj: Json) -> bool:
    """Return whether the status has counts: it exists and is not Failed."""
    if obj.get("status") is None:
        return False
    condition = _finished(obj)
    return condition is None or condition["type"] != "Failed"


def _sum(field: str) -> Column:
    name = field.removesuffix("Devices").capitalize()

    def cell(obj: Json) -> str:
        if not _has_counts(obj):
            return "-"
        return str(sum(pool.get(field) or 0 for pool in _pools(obj)))

    return Column(name=name, cell=cell, description=f"{name} devices of all pools.")


def _errors(obj: Json) -> str:
    if not _has_counts(obj):
        return "-"
    return str(sum(pool.get("validationError") is not None for pool in _pools(obj)))


def _pool_status(obj: Json) -> str:
    condition = _finished(obj)
    if condition is None:
        return "Pending"
    count, shown = (obj["status"].get("poolCount") or 0), len(_pools(obj))
    return (
        f"Complete ({shown}/{count} pools)"
        if condition["type"] == "Complete" and count > shown
        else str(condition["type"])
    )


def _completed(obj: Json, now: datetime) -> str:
    condition = _finished(obj)
    if condition is None or condition["type"] != "Complete":
        return "<none>"
    return age(condition.get("lastTransitionTime"), now)


POOL_STATUS_COLUMNS: Final = (
    NAME,
    Column(name="Driver", cell=lambda obj: obj["spec"].get("driver", ""), description="Requested driver."),
    _sum("totalDevices"),
    _sum("availableDevices"),
    _sum("allocatedDevices"),
    _sum("unavailableDevices"),
    Column(name="Errors", cell=_errors, description="Number of invalid pools."),
    Column(
        name="Pools",
        cell=lambda obj: (obj.get("status") or {}).get("poolCount") or 0,
        type="integer",
        description="Number of matching pools.",
    ),
    Column(name="Status", cell=_pool_status, description="State of the request."),
    Column(name="Completed", cell=_completed, timed=True, description="Time since the request completed."),
)
