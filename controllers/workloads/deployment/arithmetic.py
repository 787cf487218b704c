"""The sizes of a Deployment's ReplicaSets. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

from apiserver.api.objects import Json
from controllers.runtime.intorstring import scaled
from controllers.workloads.deployment.replicasets import MAX_REPLICAS, annotation_number

_UNLIMITED = 2**31 - 1


def replicas(obj: Json) -> int:
    """Return the desired replicas of a Deployment or ReplicaSet."""
    return int(obj["spec"].get("replicas", 1))


def is_rolling(deployment: Json) -> bool:
    return bool(deployment["spec"].get("strategy", {}).get("type") == "RollingUpdate")


def max_surge(deployment: Json) -> int:
    """Return the maximum number of pods above the desired one."""
    return _fenceposts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Json) -> int:
    """Return the maximum number of unavailable pods below the desired one."""
    if not is_rolling(deployment) or not replicas(deployment):
        return 0
    return min(_fenceposts(deployment)[1], replicas(deployment))


def _fenceposts(deployment: Json) -> tuple[int, int]:
    """Return surge (rounded up) and unavailable (rounded down); if both are 0, one may be unavailable."""
    given, desired = deployment["spec"]["strategy"].get("rollingUpdate") or {}, replicas(deployment)
    surge = scaled(given.get("maxSurge", 0), desired, up=True)
    unavailable = scaled(given.get("maxUnavailable", 0), desired, up=False)
    return surge, unavailable if surge or unavailable else 1


def progress_deadline(deployment: Json) -> int | None:
    """Return the progress deadline in seconds, or None."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds == _UNLIMITED else int(seconds)


def history_limit(deployment: Json) -> int | None:
    """Return the maximum number of old ReplicaSets, or None."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    return None if limit is None or limit == _UNLIMITED else int(limit)


def total_replicas(sets: Iterable[Json]) -> int:
    return sum(replicas(each) for each in sets)


def sum_status(sets: Iterable[Json], name: str) -> int:
    """Return the sum of a count in the statuses."""
    return sum((each.get("status") or {}).get(name, 0) for each in sets)


def new_replicas(deployment: Json, sets: Iterable[Json], size: int) -> int:
    """Return the next size of the new ReplicaSet. `sets` are all of the Deployment's."""
    desired = replicas(deployment)
    if not is_rolling(deployment):
        return desired
    room = desired + max_surge(deployment) - total_replicas(sets)
    return size + min(room, desired - size) if room > 0 else size


def proportion(deployment: Json, replica_set: Json, to_add: int, added: int) -> int:
    """Return one ReplicaSet's share of `to_add` pods (negative: deletions), of which `added` are assigned."""
    if not replicas(replica_set) or not to_add or to_add == added:
        return 0
    share = _share(deployment, replica_set)
    return min(share, to_add - added) if to_add > 0 else max(share, to_add - added)


def _share(deployment: Json, replica_set: Json) -> int:
    """Return the growth of a ReplicaSet that keeps its proportion."""
    size = replicas(replica_set)
    if not replicas(deployment):
        return -size
    before = annotation_number(replica_set, MAX_REPLICAS) or (deployment.get("status") or {}).get("replicas", 0)
    if not before:
        return 0
    return floor(size * (replicas(deployment) + max_surge(deployment)) / before + 0.5) - size
