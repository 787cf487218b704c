"""The delay before a failed pod is replaced. Pure.

It is 10 s after the first failure, doubled by each further failure without a success in between, at most 10 min. Facts:
upstream's pkg/controller/job/backoff_utils.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.api.values.durations import go_seconds
from controllers.runtime.conditions import condition_of
from controllers.runtime.times import parse_time

_FIRST: Final = timedelta(seconds=10)
_LONGEST: Final = timedelta(minutes=10)


class Record(NamedTuple):
    """The failures since the last success, and the time of the last one."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: Sequence[Json], failed: Sequence[Json]) -> Record:
        """Return the record including newly ended pods."""
        times = sorted(finished_at(pod) for pod in failed)
        if not succeeded:
            return Record(self.failures + len(times), times[-1]) if times else self
        success = max(finished_at(pod) for pod in succeeded)
        since = [time for time in times if time > success]
        return Record(len(since), since[-1]) if since else Record()

    def remaining(self, now: datetime) -> timedelta:
        """Return the remaining delay."""
        return remaining(self.failures, self.last, now)


def remaining(failures: int, last: datetime | None, now: datetime) -> timedelta:
    """Return the remaining delay after `failures` failures."""
    if not failures or last is None:
        return timedelta()
    length = min(_FIRST * (1 << min(failures - 1, 16)), _LONGEST)
    return max(timedelta(), last + length - now)


def finished_at(pod: Json) -> datetime:
    """Return the end of a pod's last container.

    Fallbacks are the times of unreadiness, of the deletion request, and of the creation.
    """
    metadata = pod["metadata"]
    by_containers = _containers_finished(pod)
    if by_containers is not None:
        return by_containers
    ready = condition_of(pod, "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        grace = go_seconds(metadata.get("deletionGracePeriodSeconds") or 0)
        return parse_time(metadata["deletionTimestamp"]) - grace
    return parse_time(metadata["creationTimestamp"])


def _containers_finished(pod: Json) -> datetime | None:
    """Return the end of the last container; None while a container or sidecar runs."""
    status = pod.get("status") or {}
    sidecars = {c["name"] for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"}
    statuses = [*(status.get("containerStatuses") or ())]
    statuses += [each for each in status.get("initContainerStatuses") or () if each["name"] in sidecars]
    ends = [(each.get("state") or {}).get("terminated", {}).get("finishedAt") for each in statuses]
    return max(map(parse_time, ends)) if ends and all(ends) else None
