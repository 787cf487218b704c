"""The ReplicaSet of a Deployment's template, and the annotations that store revisions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.numbers import int64
from controllers.runtime.times import parse_time

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK: Final = "deprecated.deployment.rollback.to"
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
#: Annotations that are never copied between a Deployment and its ReplicaSets.
_OWN: Final = frozenset({_APPLIED, REVISION, HISTORY, DESIRED, MAX_REPLICAS, ROLLBACK})
_LONGEST_HISTORY: Final = 2000
_LARGEST: Final = 2**31 - 1


def annotations_of(obj: Json) -> dict[str, str]:
    """Return a copy of the annotations."""
    return dict(obj["metadata"].get("annotations") or {})


def with_annotations(obj: Json, annotations: dict[str, str]) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def annotation_number(obj: Json, name: str) -> int | None:
    """Return an annotation's count, or None if invalid."""
    text = (obj["metadata"].get("annotations") or {}).get(name, "")
    number = int64(text)
    return number if number is not None and 0 <= number <= _LARGEST else None


def revision(obj: Json) -> int:
    """Return the revision number; 0 if missing or invalid."""
    return int64((obj["metadata"].get("annotations") or {}).get(REVISION, "")) or 0


def last_revision(sets: Iterable[Json]) -> int:
    """Return the second highest revision, or 0."""
    highest = sorted((0, 0, *(revision(each) for each in sets)))
    return highest[-2]


def by_age(replica_set: Json) -> tuple[object, str]:
    """Return a sort key, oldest first."""
    metadata = replica_set["metadata"]
    return parse_time(metadata["creationTimestamp"]), metadata["name"]


def is_same_template(one: Json, other: Json) -> bool:
    """Return whether two templates are equal except for the hash label."""
    return _bare(one) == _bare(other)


def _bare(template: Json) -> Json:
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    labels = {name: value for name, value in metadata.get("labels", {}).items() if name != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def find_new(deployment: Json, sets: Iterable[Json]) -> Json | None:
    """Return the oldest ReplicaSet with the Deployment's template, or None."""
    template = deployment["spec"]["template"]
    found = (
        each for each in sorted(sets, key=by_age) if is_same_template(each["spec"].get("template") or {}, template)
    )
    return next(found, None)


def active(sets: Iterable[Json | None]) -> list[Json]:
    """Return the ReplicaSets with replicas."""
    return [each for each in sets if each is not None and each["spec"].get("replicas", 1) > 0]


def size_annotations(desired: int, most: int) -> dict[str, str]:
    """Return the annotations that store the Deployment's size for proportional scaling."""
    return {DESIRED: str(desired), MAX_REPLICAS: str(most)}


def new_annotations(deployment: Json, replica_set: Json, revision: int) -> dict[str, str]:
    """Return the annotations of the ReplicaSet with the Deployment's template at a revision."""
    added = annotations_of(replica_set)
    added |= {name: value for name, value in annotations_of(deployment).items() if name not in _OWN}
    before = added.get(REVISION)
    number = int64(before or "0")
    if number is None:
        return added
    if number < revision:
        added[REVISION] = str(revision)
        if before is not None:
            _append(added, before)
    return added


def _append(added: dict[str, str], revision: str) -> None:
    """Add a former revision to the history, dropping the oldest beyond the limit."""
    history = [each for each in added.get(HISTORY, "").split(",") if each]
    history.append(revision)
    while len(history) > 1 and len(",".join(history)) > _LONGEST_HISTORY:
        history.pop(0)
    added[HISTORY] = ",".join(history)


def apply_rollback(deployment: Json, replica_set: Json) -> Json:
    """Return the Deployment with a ReplicaSet's template and annotations."""
    template = replica_set["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    kept = {name: value for name, value in annotations_of(deployment).items() if name in _OWN}
    taken = {name: value for name, value in annotations_of(replica_set).items() if name not in _OWN}
    spec = {**deployment["spec"], "template": {**template, "metadata": {**metadata, "labels": labels}}}
    return with_annotations({**deployment, "spec": spec}, {**kept, **taken})


def without_rollback(deployment: Json) -> Json:
    return with_annotations(
        deployment, {name: value for name, value in annotations_of(deployment).items() if name != ROLLBACK}
    )


def rollback_target(deployment: Json) -> int | None:
    """Return the revision to roll back to (0: the previous one), or None."""
    text = (deployment["metadata"].get("annotations") or {}).get(ROLLBACK, "")
    try:
        return int(text)
    except ValueError:
        return None


def sets_to_delete(sets: Sequence[Json], limit: int) -> list[Json]:
    """Return the empty, fully observed old ReplicaSets beyond the limit, lowest revisions first."""
    alive = [each for each in sets if not each["metadata"].get("deletionTimestamp")]
    surplus = max(0, len(alive) - limit)
    return [
        each for each in sorted(alive, key=lambda each: (revision(each), by_age(each)))[:surplus] if _is_empty(each)
    ]


def _is_empty(replica_set: Json) -> bool:
    status, metadata = replica_set.get("status") or {}, replica_set["metadata"]
    return (
        not status.get("replicas")
        and not replica_set["spec"].get("replicas", 1)
        and metadata.get("generation", 0) <= status.get("observedGeneration", 0)
    )
