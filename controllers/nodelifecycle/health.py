"""The heartbeats of nodes, and the disruption state of zones. Pure.

A node's heartbeat is a change of its Ready condition's lastHeartbeatTime or of its lease's renewTime. The local time of
the observation counts, so that clocks need not agree. Facts: upstream's pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from apiserver.api.objects import Json
from controllers.runtime.conditions import condition_of, with_condition
from controllers.runtime.times import go_time, parse_time

_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
NORMAL: Final = "Normal"
PARTIAL: Final = "PartialDisruption"
FULL: Final = "FullDisruption"
#: Maximum number of unready nodes without disruption of the zone.
_MAX_UNREADY: Final = 2


@dataclass(slots=True)
class Health:
    """The last heartbeat of a node, with the observed condition and renewTime."""

    last_seen: datetime
    ready: Json | None = None
    renewed: str = ""

    @classmethod
    def of(cls, node: Json, now: datetime) -> Health:
        """Create the health of a new node. A node without status counts from its creation."""
        ready = condition_of(node, "Ready")
        made = parse_time(node["metadata"]["creationTimestamp"])
        return cls(now if ready is not None else made, ready)

    def update(self, node: Json, lease: Json | None, now: datetime) -> None:
        """Update the health with the current node and lease."""
        ready = condition_of(node, "Ready")
        if (ready is None) != (self.ready is None) or _heartbeat(ready) != _heartbeat(self.ready):
            self.last_seen = now
        self.ready = ready
        renewed = ((lease or {}).get("spec") or {}).get("renewTime") or ""
        if renewed and (not self.renewed or parse_time(renewed) > parse_time(self.renewed)):
            self.last_seen, self.renewed = now, renewed


def _heartbeat(ready: Json | None) -> str:
    return (ready or {}).get("lastHeartbeatTime") or ""


def silent_conditions(node: Json, now: datetime) -> list[Json]:
    """Return the conditions of a node without heartbeat."""
    conditions: list[Json] = list((node.get("status") or {}).get("conditions") or ())
    for kind in _REPORTED:
        known = condition_of(node, kind)
        if known is None:
            reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
            heartbeat = node["metadata"]["creationTimestamp"]
        elif known["status"] != "Unknown":
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            heartbeat = known.get("lastHeartbeatTime")
        else:
            continue
        condition = {
            "type": kind, "status": "Unknown", "lastHeartbeatTime": heartbeat, "lastTransitionTime": go_time(now),
            "reason": reason, "message": message,
        }  # fmt: skip
        conditions = with_condition(conditions, condition)
    return conditions


def zone_of(node: Json) -> str:
    """Return region and zone of a node as one name; "" if it has neither."""
    labels = node["metadata"].get("labels") or {}
    names = ("failure-domain.beta.kubernetes.io", "topology.kubernetes.io")
    zone, region = (
        next((labels[f"{name}/{part}"] for name in names if f"{name}/{part}" in labels), "")
        for part in ("zone", "region")
    )
    return f"{region}:\x00:{zone}" if region or zone else ""


def zone_state(ready: Sequence[bool], threshold: float) -> str:
    """Return the disruption state of a zone from the readiness of its nodes."""
    missing = len(ready) - sum(ready)
    if missing and missing == len(ready):
        return FULL
    return PARTIAL if missing > _MAX_UNREADY and missing / len(ready) >= threshold else NORMAL


@dataclass(slots=True)
class Limiter:
    """A rate limit of tainted nodes, in nodes per second and without burst."""

    rate: float
    next_at: datetime | None = None

    def wait(self, now: datetime) -> timedelta | None:
        """Return the delay until the next node; None if no node may pass."""
        if self.rate <= 0:
            return None
        return max(timedelta(), self.next_at - now) if self.next_at is not None else timedelta()

    def record(self, now: datetime) -> None:
        self.next_at = now + timedelta(seconds=1 / self.rate)
