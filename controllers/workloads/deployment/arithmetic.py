"""How many pods a Deployment and its ReplicaSets may have. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

from controllers.runtime.intorstring import scaled
from controllers.runtime.kinds import Json
from controllers.workloads.deployment.replicasets import MAX_REPLICAS, annotation_number

_UNLIMITED = 2**31 - 1


def replicas(obj: Json) -> int:
    """What a Deployment or a ReplicaSet asks for."""
    return int(obj["spec"].get("replicas", 1))


def is_rolling(deployment: Json) -> bool:
    return bool(deployment["spec"].get("strategy", {}).get("type") == "RollingUpdate")


def max_surge(deployment: Json) -> int:
    """How many pods there may be beyond those that are asked for."""
    return _fenceposts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Json) -> int:
    """How many of those that are asked for may be missing."""
    if not is_rolling(deployment) or not replicas(deployment):
        return 0
    return min(_fenceposts(deployment)[1], replicas(deployment))


def _fenceposts(deployment: Json) -> tuple[int, int]:
    """Surge (rounded up) and unavailable (rounded down); where both are nothing, one may be missing."""
    given, desired = deployment["spec"]["strategy"].get("rollingUpdate") or {}, replicas(deployment)
    surge = scaled(given.get("maxSurge", 0), desired, up=True)
    unavailable = scaled(given.get("maxUnavailable", 0), desired, up=False)
    return surge, unavailable if surge or unavailable else 1


def progress_deadline(deployment: Json) -> int | None:
    """Seconds; None where there is none."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds == _UNLIMITED else int(seconds)


def history_limit(deployment: Json) -> int | None:
    """How many old ReplicaSets are kept; None for all."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    return None if limit is None or limit == _UNLIMITED else int(limit)


def asked_for(sets: Iterable[Json]) -> int:
    return sum(replicas(each) for each in sets)


def counted(sets: Iterable[Json], name: str) -> int:
    """The sum of a count in their statuses."""
    return sum((each.get("status") or {}).get(name, 0) for each in sets)


def new_replicas(deployment: Json, sets: Iterable[Json], size: int) -> int:
    """What the new ReplicaSet, which is of that size, is to have. `sets`: all of the Deployment."""
    desired = replicas(deployment)
    if not is_rolling(deployment):
        return desired
    room = desired + max_surge(deployment) - asked_for(sets)
    return size + min(room, desired - size) if room > 0 else size


def proportion(deployment: Json, replica_set: Json, to_add: int, added: int) -> int:
    """The share of one ReplicaSet where `to_add` pods (below zero: fewer) are spread, of which `added` are given."""
    if not replicas(replica_set) or not to_add or to_add == added:
        return 0
    share = _share(deployment, replica_set)
    return min(share, to_add - added) if to_add > 0 else max(share, to_add - added)


def _share(deployment: Json, replica_set: Json) -> int:
    """By how much it would grow if it kept its part of the whole."""
    size = replicas(replica_set)
    if not replicas(deployment):
        return -size
    before = annotation_number(replica_set, MAX_REPLICAS) or (deployment.get("status") or {}).get("replicas", 0)
    if not before:
        return 0
    return floor(size * (replicas(deployment) + max_surge(deployment)) / before + 0.5) - size
