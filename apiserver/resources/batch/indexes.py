"""Lists of completion indexes as jobs write them: `0-2,5,7-8`, rising, below the number of completions."""

from __future__ import annotations

import re
from typing import Final

from apiserver.api.errors.field_errors import go_quote

__all__ = ["IndexesError", "count_indexes", "overlap"]

#: What Go's strconv.Atoi reads.
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class IndexesError(ValueError):
    """Not such a list; the text is upstream's."""


def _number(text: str, completions: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise IndexesError(f"cannot convert string to integer for index: {go_quote(text)}")
    if int(text) >= completions:
        raise IndexesError(f"too large index: {go_quote(text)}")
    return int(text)


def _interval(text: str, completions: int) -> tuple[int, int]:
    """First and last index of a part."""
    limits = text.split("-")
    if len(limits) > 2:
        detail = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise IndexesError(f"the fragment {go_quote(text)} {detail}")
    first = _number(limits[0], completions)
    if len(limits) == 1:
        return first, first
    last = _number(limits[1], completions)
    if first >= last:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def count_indexes(text: str, completions: int) -> int:
    """How many indexes the list has; raises IndexesError."""
    total, before = 0, None
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if before is not None and before >= first:
            raise IndexesError(f"non-increasing order, previous: {before}, current: {first}")
        total += last - first + 1
        before = last
    return total


def _intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """Those parts that are intervals; the others are somebody else's finding."""
    found = []
    for part in text.split(",") if text else ():
        try:
            found.append(_interval(part, completions))
        except IndexesError:
            continue
    return found


def overlap(completed: str, failed: str, completions: int) -> int | None:
    """The first index that stands in both lists, None if there is none."""
    left, right = _intervals(completed, completions), _intervals(failed, completions)
    at, other = 0, 0
    while at < len(left) and other < len(right):
        (first, last), (start, end) = left[at], right[other]
        if first <= end and start <= last:
            return max(first, start)
        if first <= start:
            at += 1
        else:
            other += 1
    return None
