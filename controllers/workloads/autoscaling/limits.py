"""Limits the rate and range of scaling. Pure except for the recorded history.

Without `behavior` the highest recommendation of the last five minutes counts, and replicas at most double (or become
four). Facts: upstream's pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from apiserver.api.objects import Json

#: Default downscale stabilization window.
WINDOW: Final = timedelta(minutes=5)
_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_FAST_UP: Final = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_FAST_DOWN: Final = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_READY: Final = ("ReadyForNewScale", "recommended size matches current size")
_HIGHER: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_LOWER: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_MAX_REPLICAS: Final = 2147483647


class LimitedSize(NamedTuple):
    """The limited size, with reason and message of the conditions AbleToScale and ScalingLimited."""

    replicas: int
    able_to_scale: tuple[str, str]
    is_limited: bool
    limit: tuple[str, str]


@dataclass(slots=True)
class ScalingHistory:
    """The timestamped recommendations and size changes of an autoscaler."""

    recommendations: list[tuple[datetime, int]] = field(default_factory=list)
    ups: list[tuple[datetime, int]] = field(default_factory=list)
    downs: list[tuple[datetime, int]] = field(default_factory=list)

    def record_change(self, now: datetime, before: int, after: int, behavior: Json | None) -> None:
        """Record a size change."""
        if behavior is None:
            return
        changes, rules = (self.ups, "scaleUp") if after > before else (self.downs, "scaleDown")
        policies = (behavior.get(rules) or {}).get("policies") or ()
        longest = timedelta(seconds=max((policy["periodSeconds"] for policy in policies), default=0))
        changes[:] = [(at, change) for at, change in changes if at >= now - longest]
        changes.append((now, abs(after - before)))


def limit(
    history: ScalingHistory,
    now: datetime,
    spec: Json,
    current: int,
    desired: int,
    least: int,
    window: timedelta = WINDOW,
) -> LimitedSize:
    """Limit `desired` replicas, and record them."""
    behavior, most = spec.get("behavior"), spec["maxReplicas"]
    if behavior is None:
        stable = max([desired, *(replicas for at, replicas in history.recommendations if at >= now - window)])
        _record(history, now, desired, window)
        able_to_scale = _READY if stable == desired else _HIGHER
        highest, why = (2 * current if current > 2 else 4), _TOO_MANY
        if most > highest:
            why = _FAST_UP
        found, limit_ = _clamp(stable, least, min(most, highest), _TOO_FEW, why)
        return LimitedSize(found, able_to_scale, found != stable, limit_)
    up, down = behavior.get("scaleUp") or {}, behavior.get("scaleDown") or {}
    stable = _stabilize(history, now, current, desired, up, down, window)
    able_to_scale = _READY if stable == desired else _LOWER if desired >= current else _HIGHER
    found, limit_ = stable, _WITHIN
    if stable > current:
        fastest = max(current, _policy_limit(history, now, current, up, is_up=True))
        found, limit_ = _clamp(stable, least, min(most, fastest), _TOO_FEW, _FAST_UP if most > fastest else _TOO_MANY)
    elif stable < current:
        slowest = min(current, _policy_limit(history, now, current, down, is_up=False))
        why = _FAST_DOWN if least < slowest else _TOO_FEW
        found, limit_ = _clamp(stable, max(least, slowest), _MAX_REPLICAS, why, _TOO_MANY)
    return LimitedSize(found, able_to_scale, found != stable, limit_)


def _clamp(
    desired: int, least: int, most: int, low: tuple[str, str], high: tuple[str, str]
) -> tuple[int, tuple[str, str]]:
    if desired < least:
        return least, low
    return (most, high) if desired > most else (desired, _WITHIN)


def _record(history: ScalingHistory, now: datetime, desired: int, window: timedelta) -> None:
    history.recommendations[:] = [(at, replicas) for at, replicas in history.recommendations if at >= now - window]
    history.recommendations.append((now, desired))


def _stabilize(
    history: ScalingHistory, now: datetime, current: int, desired: int, up: Json, down: Json, window: timedelta
) -> int:
    """Stabilize a recommendation: up to the minimum and down to the maximum of the window."""
    up_window = timedelta(seconds=up.get("stabilizationWindowSeconds") or 0)
    given = down.get("stabilizationWindowSeconds")
    down_window = window if given is None else timedelta(seconds=given)
    highest = min([desired, *(replicas for at, replicas in history.recommendations if at > now - up_window)])
    lowest = max([desired, *(replicas for at, replicas in history.recommendations if at > now - down_window)])
    _record(history, now, desired, max(up_window, down_window))
    return min(max(current, highest), lowest)


def _policy_limit(history: ScalingHistory, now: datetime, current: int, rules: Json, *, is_up: bool) -> int:
    """Return the limit of the scaling policies."""
    select = rules.get("selectPolicy") or "Max"
    if select == "Disabled":
        return current
    found = []
    for policy in rules.get("policies") or ():
        since = now - timedelta(seconds=policy["periodSeconds"])
        start = current - _sum(history.ups, since) + _sum(history.downs, since)
        value = policy["value"] if is_up else -policy["value"]
        if policy["type"] == "Pods":
            found.append(start + value)
        else:
            share = start * (1 + value / 100)
            found.append(math.ceil(share) if is_up else int(share))
    furthest = max if (select == "Max") == is_up else min
    return furthest(found) if found else current


def _sum(changes: Iterable[tuple[datetime, int]], since: datetime) -> int:
    return sum(change for at, change in changes if at > since)
