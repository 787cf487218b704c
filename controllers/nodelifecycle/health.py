"""Whether nodes are heard of, and how many of a zone are not. Pure.

A node is heard of when the heartbeat of its Ready condition or the time of its lease changes; what counts is when that
was seen here, so that clocks need not agree. Facts: upstream's pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controllers.runtime.conditions import condition_of, with_condition
from controllers.runtime.kinds import Json
from controllers.runtime.times import go_time, parse_time

_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
NORMAL: Final = "Normal"
PARTIAL: Final = "PartialDisruption"
FULL: Final = "FullDisruption"
#: Fewer nodes that are not ready are no disruption of a zone.
_FEW: Final = 2


@dataclass(slots=True)
class Health:
    """When a node was last heard of, and by what."""

    heard: datetime
    ready: Json | None = None
    renewed: str = ""

    @classmethod
    def of(cls, node: Json, now: datetime) -> Health:
        """A node that is looked at for the first time; one that has said nothing yet counts from when it was made."""
        ready = condition_of(node, "Ready")
        made = parse_time(node["metadata"]["creationTimestamp"])
        return cls(now if ready is not None else made, ready)

    def hear(self, node: Json, lease: Json | None, now: datetime) -> None:
        """Looks at the node again."""
        ready = condition_of(node, "Ready")
        if (ready is None) != (self.ready is None) or _heartbeat(ready) != _heartbeat(self.ready):
            self.heard = now
        self.ready = ready
        renewed = ((lease or {}).get("spec") or {}).get("renewTime") or ""
        if renewed and (not self.renewed or parse_time(renewed) > parse_time(self.renewed)):
            self.heard, self.renewed = now, renewed


def _heartbeat(ready: Json | None) -> str:
    return (ready or {}).get("lastHeartbeatTime") or ""


def silent_conditions(node: Json, now: datetime) -> list[Json]:
    """The conditions of a node that is not heard of."""
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
    """Region and zone of a node as one name; "" where it has neither."""
    labels = node["metadata"].get("labels") or {}
    names = ("failure-domain.beta.kubernetes.io", "topology.kubernetes.io")
    zone, region = (
        next((labels[f"{name}/{part}"] for name in names if f"{name}/{part}" in labels), "")
        for part in ("zone", "region")
    )
    return f"{region}:\x00:{zone}" if region or zone else ""


def zone_state(ready: Sequence[bool], threshold: float) -> str:
    """How a zone is, by which of its nodes are ready."""
    missing = len(ready) - sum(ready)
    if missing and missing == len(ready):
        return FULL
    return PARTIAL if missing > _FEW and missing / len(ready) >= threshold else NORMAL


@dataclass(slots=True)
class Limiter:
    """Lets so many nodes through per second, one at once."""

    rate: float
    again: datetime | None = None

    def wait(self, now: datetime) -> timedelta | None:
        """How long until the next one; None where none may pass at all."""
        if self.rate <= 0:
            return None
        return max(timedelta(), self.again - now) if self.again is not None else timedelta()

    def passed(self, now: datetime) -> None:
        self.again = now + timedelta(seconds=1 / self.rate)
