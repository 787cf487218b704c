"""Completion indexes of Indexed Jobs, and their lists in the status (`0-2,5,7-8`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.numbers import int64

ANNOTATION: Final = "batch.kubernetes.io/job-completion-index"
_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_MAX_INT32: Final = 2147483647


def is_indexed(job: Json) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Json) -> int | None:
    """Return the pod's completion index, or None."""
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    number = int64(text)
    return number if number is not None and number >= 0 else None


def indexes_of(pods: Iterable[Json]) -> set[int]:
    return {index for pod in pods if (index := index_of(pod)) is not None}


def parse_indexes(text: str, completions: int) -> set[int]:
    """Parse a list into the indexes below `completions`; invalid parts are ignored."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        begin, end = int64(first), int64(last or first)
        if begin is None or begin < 0 or end is None:
            continue
        if begin >= completions:
            break
        found.update(range(begin, min(end, completions - 1) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Format indexes as a list; more than two consecutive ones become a range."""
    return ",".join(_runs(sorted(indexes)))


def _runs(indexes: list[int]) -> Iterator[str]:
    for _, group in groupby(enumerate(indexes), lambda item: item[1] - item[0]):
        run = [index for _, index in group]
        if len(run) > 2:
            yield f"{run[0]}-{run[-1]}"
        else:
            yield from map(str, run)


def first_pending(count: int, completions: int, taken: set[int]) -> list[int]:
    """Return the lowest `count` indexes that are not taken."""
    found: list[int] = []
    candidates = iter(range(completions))
    while len(found) < count and (candidate := next(candidates, None)) is not None:
        if candidate not in taken:
            found.append(candidate)
    return found


# An annotation of an index's latest pod counts the index's failures.


def failures(pod: Json) -> int:
    """Return the counted failures of the pod's index before this pod."""
    return _number(pod, _FAILURES)


def all_failures(pod: Json) -> int:
    """Return the failures before this pod, including those ignored by a policy."""
    return _number(pod, _FAILURES) + _number(pod, _IGNORED)


def failure_annotations(counted: int, ignored: int) -> dict[str, str]:
    return {_FAILURES: str(counted), **({_IGNORED: str(ignored)} if ignored else {})}


def ignored_failures(pod: Json) -> int:
    return _number(pod, _IGNORED)


def _number(pod: Json, annotation: str) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    number = int64(text) or 0
    return number if 0 <= number <= _MAX_INT32 else 0
