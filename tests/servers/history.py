"""Observations of clients, and their check against the log table.

Every client belongs to one process, so that "before" and "after" among them are facts. A read has to show a state that
the store had at some time between the read's beginning and its end:

    low     the highest revision that any client knew when the read began
    high    below the lowest revision of a write that began after the read had ended

So reads are linearizable across servers and clients, not only monotonic per client.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.servers.truth import Row, Truth


class Write(NamedTuple):
    """The fate of a write. `revision` 0 with `answered`: a deletion. `base`: the revision that it replaces."""

    op: str
    key: str
    began: float
    ended: float
    fate: str  # "done", "refused", "unknown"
    revision: int = 0
    base: int = 0
    uid: str = ""


class Read(NamedTuple):
    """A read of one object, or of its absence (revision 0).

    With `exists` only the presence of the name is known. `least` is the requested revision.
    """

    key: str
    began: float
    ended: float
    revision: int
    exists: bool = False
    least: int = 0
    what: str = ""


class List(NamedTuple):
    """A list's revision and those of its items.

    `fresh` lists have to show the newest state; `least` and `exact` are requested revisions.
    """

    began: float
    ended: float
    revision: int
    items: tuple[int, ...]
    color: str = ""
    fresh: bool = True
    least: int = 0
    exact: int = 0
    what: str = ""


@dataclass
class Segment:
    """Events without a gap, from a list on, over however many connections."""

    watcher: str
    color: str
    since: int
    events: list[tuple[str, int]] = field(default_factory=list)
    reached: int = 0


@dataclass
class History:
    """All observations. `faults` are answers that no client should get."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    lists: list[List] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    told: list[tuple[float, int]] = field(default_factory=list)
    seen: dict[int, tuple[str, str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def tell(self, when: float, revision: int) -> None:
        """Record that a client knows of a revision."""
        if not self.told or revision > self.told[-1][1]:
            self.told.append((when, revision))

    def note(self, key: str, revision: int, op: str) -> None:
        """Record an object: at one revision all clients have to see the same."""
        if self.seen.setdefault(revision, (key, op)) != (key, op):
            fault = f"revision {revision} is {self.seen[revision]} to one and {(key, op)} to another"
            if fault not in self.faults:
                self.faults.append(fault)


def judge(history: History, truth: Truth) -> list[str]:
    """Return every violation, one line each."""
    return [
        *history.faults,
        *_contents(history, truth),
        *_writes(history, truth),
        *_reads(history, truth),
        *_lists(history, truth),
        *(line for segment in history.segments for line in _watch(segment, truth)),
    ]


class _Bounds:
    """Bounds of the revision of the store at a time."""

    def __init__(self, history: History, truth: Truth) -> None:
        told = [
            *history.told,
            *((write.ended, _revision(write, truth)) for write in history.writes if write.fate == "done"),
        ]
        self._times, self._told = _running(sorted(told), max)
        done = sorted(
            ((write.began, _revision(write, truth)) for write in history.writes if write.fate == "done"), reverse=True
        )
        times, lows = _running([each for each in done if each[1]], min)
        self._starts, self._lows = times[::-1], lows[::-1]
        self._last = truth.last

    def low(self, began: float) -> int:
        index = bisect_left(self._times, began)
        return self._told[index - 1] if index else 0

    def high(self, ended: float) -> int:
        index = bisect_right(self._starts, ended)
        return self._lows[index] - 1 if index < len(self._starts) else self._last


def _running(pairs: list[tuple[float, int]], choose: Callable[[int, int], int]) -> tuple[list[float], list[int]]:
    return [when for when, _ in pairs], list(itertools.accumulate((value for _, value in pairs), choose))


def _revision(write: Write, truth: Truth) -> int:
    if write.revision:
        return write.revision
    rows = truth.deletions.get(write.uid, ())
    return rows[0].revision if rows else 0


def _contents(history: History, truth: Truth) -> list[str]:
    wrong = []
    for revision, (key, op) in history.seen.items():
        row = truth.rows.get(revision)
        if row is None or row.deleted or (row.key, row.op) != (key, op):
            wrong.append(f"{key} was seen at revision {revision} with write {op}; the table has {row}")
    return wrong


def _writes(history: History, truth: Truth) -> list[str]:
    deleted = Counter(write.uid for write in history.writes if write.uid and write.fate == "done")
    wrong = [f"{count} clients were told that they deleted {uid}" for uid, count in deleted.items() if count > 1]
    for write in history.writes:
        rows: list[Row] = truth.deletions.get(write.uid, []) if write.uid else truth.of_op.get(write.op, [])
        if len(rows) > 1:
            wrong.append(f"write happened {len(rows)} times: {write}")
        elif write.fate == "done" and not rows:
            wrong.append(f"answered write is lost: {write}")
        elif write.fate == "done" and write.revision and rows[0].revision != write.revision:
            wrong.append(f"write happened at revision {rows[0].revision}: {write}")
        elif write.fate == "refused" and rows and not write.uid:
            wrong.append(f"refused write happened at revision {rows[0].revision}: {write}")
        if write.fate == "done" and write.base and rows:
            old = truth.before[rows[0].revision]
            if old is None or old.revision != write.base:
                wrong.append(f"write replaced {old} unseen: {write}")
    return wrong


def _reads(history: History, truth: Truth) -> list[str]:
    bounds = _Bounds(history, truth)
    wrong = []
    for read in history.reads:
        low, high = read.least or bounds.low(read.began), bounds.high(read.ended)
        good = truth.alive(read.key, low, high) if read.exists else truth.possible(read.key, read.revision, low, high)
        if not good:
            wrong.append(f"stale or impossible read (the store was between {low} and {high}): {read}")
    return wrong


def _lists(history: History, truth: Truth) -> list[str]:
    bounds = _Bounds(history, truth)
    wrong = []
    alive: dict[str, Row] = {}
    rows = iter(truth.maps)
    row = next(rows, None)
    for seen in sorted(history.lists, key=lambda each: each.revision):
        while row is not None and row.revision <= seen.revision:
            if row.deleted:
                alive.pop(row.key, None)
            else:
                alive[row.key] = row
            row = next(rows, None)
        low = bounds.low(seen.began) if seen.fresh else seen.least
        if not low <= seen.revision <= truth.last or (seen.exact and seen.exact != seen.revision):
            wrong.append(f"stale list: at {seen.revision}, not before {low} ({seen.what}, exact {seen.exact})")
        right = sorted(each.revision for each in alive.values() if seen.color in ("", each.color))
        if sorted(seen.items) != right:
            missing, extra = set(right) - set(seen.items), set(seen.items) - set(right)
            wrong.append(
                f"list at {seen.revision} ({seen.what}) misses {sorted(missing)[:5]} and has {sorted(extra)[:5]} too"
                " many"
            )
    return wrong


def _watch(segment: Segment, truth: Truth) -> list[str]:
    """Return an error unless a watcher got exactly the events that happened; so any two watchers agree."""
    through = max(segment.reached, segment.events[-1][1] if segment.events else segment.since)
    right = truth.events(segment.color, segment.since, through)
    if segment.events == right:
        return []
    for index, (got, due) in enumerate(zip(segment.events, right, strict=False)):
        if got != due:
            return [
                f"{segment.watcher} got {got} where {due} was due, after {segment.events[max(index - 3, 0) : index]}"
            ]
    more = segment.events[len(right) :][:5] or right[len(segment.events) :][:5]
    return [
        (
            f"{segment.watcher} since {segment.since}: {len(segment.events)} events instead of {len(right)}; the difference"
            f" begins {more}"
        )
    ]
