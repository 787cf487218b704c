"""Parse lists of completion indexes: `0-2,5,7-8`, ascending, below the number of completions."""

from __future__ import annotations

import re
from typing import Final

from apiserver.api.errors.field_errors import go_quote

__all__ = ["IndexesError", "count_indexes", "overlap"]

#: The integers that Go's strconv.Atoi accepts.
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class IndexesError(ValueError):
    """The text is no list of indexes. The message is upstream's."""


def _number(text: str, completions: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise IndexesError(f"cannot convert string to integer for index: {go_quote(text)}")
    if int(text) >= completions:
        raise IndexesError(f"too large index: {go_quote(text)}")
    return int(text)


def _interval(text: str, completions: int) -> tuple[int, int]:
    """Return the first and last index of an interval."""
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
    """Return the number of indexes in the list. Raise IndexesError."""
    total, before = 0, None
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if before is not None and before >= first:
            raise IndexesError(f"non-increasing order, previous: {before}, current: {first}")
        total += last - first + 1
        before = last
    return total


def _intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """Return the valid intervals. Other parts are skipped; their own rule reports them."""
    found = []
    for part in text.split(",") if text else ():
        try:
            found.append(_interval(part, completions))
        except IndexesError:
            continue
    return found


def overlap(completed: str, failed: str, completions: int) -> int | None:
    """Return the first index that is in both lists; None if there is none."""
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
