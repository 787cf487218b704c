"""Which ReplicaSet has a Deployment's template, and the annotations by which both remember revisions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from apiserver.api.values.numbers import int64
from controllers.runtime.kinds import Json
from controllers.runtime.times import parse_time

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK: Final = "deprecated.deployment.rollback.to"
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
#: Annotations that are not copied from a Deployment to its ReplicaSets, nor back.
_OWN: Final = frozenset({_APPLIED, REVISION, HISTORY, DESIRED, MAX_REPLICAS, ROLLBACK})
_LONGEST_HISTORY: Final = 2000
_LARGEST: Final = 2**31 - 1


def annotations_of(obj: Json) -> dict[str, str]:
    """A copy."""
    return dict(obj["metadata"].get("annotations") or {})


def with_annotations(obj: Json, annotations: dict[str, str]) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def annotation_number(obj: Json, name: str) -> int | None:
    """None for what is no count."""
    text = (obj["metadata"].get("annotations") or {}).get(name, "")
    number = int64(text)
    return number if number is not None and 0 <= number <= _LARGEST else None


def revision(obj: Json) -> int:
    """0 where there is none, or where it is no number."""
    return int64((obj["metadata"].get("annotations") or {}).get(REVISION, "")) or 0


def last_revision(sets: Iterable[Json]) -> int:
    """The highest but one; 0 where there is none."""
    highest = sorted((0, 0, *(revision(each) for each in sets)))
    return highest[-2]


def by_age(replica_set: Json) -> tuple[object, str]:
    """To sort by: the oldest first."""
    metadata = replica_set["metadata"]
    return parse_time(metadata["creationTimestamp"]), metadata["name"]


def same_template(one: Json, other: Json) -> bool:
    """Whether two templates are the same, but for the label with their hash."""
    return _bare(one) == _bare(other)


def _bare(template: Json) -> Json:
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    labels = {name: value for name, value in metadata.get("labels", {}).items() if name != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def find_new(deployment: Json, sets: Iterable[Json]) -> Json | None:
    """The oldest ReplicaSet that has the Deployment's template."""
    template = deployment["spec"]["template"]
    found = (each for each in sorted(sets, key=by_age) if same_template(each["spec"].get("template") or {}, template))
    return next(found, None)


def active(sets: Iterable[Json | None]) -> list[Json]:
    """Those that ask for pods."""
    return [each for each in sets if each is not None and each["spec"].get("replicas", 1) > 0]


def size_annotations(desired: int, most: int) -> dict[str, str]:
    """What a ReplicaSet remembers of the size of its Deployment, to grow in proportion later."""
    return {DESIRED: str(desired), MAX_REPLICAS: str(most)}


def new_annotations(deployment: Json, replica_set: Json, revision: int) -> dict[str, str]:
    """The annotations of the ReplicaSet that has the Deployment's template, as the one of this revision."""
    given = annotations_of(replica_set)
    given |= {name: value for name, value in annotations_of(deployment).items() if name not in _OWN}
    before = given.get(REVISION)
    number = int64(before or "0")
    if number is None:
        return given
    if number < revision:
        given[REVISION] = str(revision)
        if before is not None:
            _append(given, before)
    return given


def _append(given: dict[str, str], revision: str) -> None:
    """Adds a former revision to the history, which is cut at its beginning where it would be too long."""
    history = [each for each in given.get(HISTORY, "").split(",") if each]
    history.append(revision)
    while len(history) > 1 and len(",".join(history)) > _LONGEST_HISTORY:
        history.pop(0)
    given[HISTORY] = ",".join(history)


def rolled_back(deployment: Json, replica_set: Json) -> Json:
    """The Deployment with a ReplicaSet's template and annotations."""
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
    """The revision to go back to (0: the one before); None where none is asked for."""
    text = (deployment["metadata"].get("annotations") or {}).get(ROLLBACK, "")
    try:
        return int(text)
    except ValueError:
        return None


def to_clean_up(sets: Sequence[Json], limit: int) -> list[Json]:
    """The old ReplicaSets beyond the limit, the first revisions first, as far as they are empty and settled."""
    alive = [each for each in sets if not each["metadata"].get("deletionTimestamp")]
    surplus = max(0, len(alive) - limit)
    return [each for each in sorted(alive, key=lambda each: (revision(each), by_age(each)))[:surplus] if _empty(each)]


def _empty(replica_set: Json) -> bool:
    status, metadata = replica_set.get("status") or {}, replica_set["metadata"]
    return (
        not status.get("replicas")
        and not replica_set["spec"].get("replicas", 1)
        and metadata.get("generation", 0) <= status.get("observedGeneration", 0)
    )
