"""What became of pods: when each was created, when and where it was bound, when it was deleted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kubedra.recording.changes import Change, parse_time
from kubedra.runtime.objects import Json

__all__ = ["End", "Outcome", "Outcomes", "ending", "family", "follow_changes"]

_HASH: Final = re.compile(r"-[a-z0-9]{5,10}-$")


@dataclass(slots=True)
class Outcome:
    """The life of one pod, as times. `family` is equal for the pods of one workload."""

    namespace: str
    name: str
    family: str
    created: datetime
    bound: datetime | None = None
    node: str = ""
    deleted: datetime | None = None

    @property
    def waited(self) -> float | None:
        """Seconds until the pod was bound; None if it never was."""
        return None if self.bound is None else max(0.0, (self.bound - self.created).total_seconds())


#: Outcomes by namespace and name.
Outcomes = dict[tuple[str, str], Outcome]


@dataclass(frozen=True, slots=True)
class End:
    """How a pod's containers ended: seconds after their start, and the largest exit code."""

    seconds: float
    code: int


def family(obj: Json) -> str:
    """Return the common part of the names of a workload's pods; "" for a pod with a name of its own."""
    metadata = obj["metadata"]
    generated: str = metadata.get("generateName", "")
    if any(owner["kind"] == "ReplicaSet" for owner in metadata.get("ownerReferences") or ()):
        # The hash of the template depends on the release.
        return _HASH.sub("-", generated)
    return generated


def ending(status: Json) -> End | None:
    """Return the end of a pod from its status; None while a container runs."""
    found: list[End] = []
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if not ended.get("finishedAt") or not ended.get("startedAt"):
            return None
        ran = (parse_time(ended["finishedAt"]) - parse_time(ended["startedAt"])).total_seconds()
        found.append(End(max(0.0, ran), ended.get("exitCode", 0)))
    if not found:
        return None
    return End(max(end.seconds for end in found), max(end.code for end in found))


def follow_changes(changes: Iterable[Change], begin: datetime) -> Outcomes:
    """Return the outcomes of pods that waited or were created in a recording."""
    outcomes: Outcomes = {}
    for change in changes:
        obj = change.object
        if obj["kind"] != "Pod":
            continue
        metadata = obj["metadata"]
        key, node = (metadata["namespace"], metadata["name"]), obj["spec"].get("nodeName", "")
        outcome = outcomes.get(key)
        if change.type == "STATE" and node:
            continue
        if outcome is None or (change.type == "ADDED" and outcome.deleted is not None):
            if change.type not in {"STATE", "ADDED"}:
                continue
            created = begin if change.type == "STATE" else change.time
            outcome = outcomes[key] = Outcome(*key, family(obj), created)
        if node and outcome.bound is None:
            outcome.bound, outcome.node = change.time, node
        if change.type == "DELETED":
            outcome.deleted = change.time
    return outcomes
