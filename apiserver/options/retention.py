"""`--history` and `--etcd-compaction-interval`: how much of the history compaction leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apiserver.api.values.durations import parse_duration

__all__ = ["Retention", "parse_retention"]

#: Maximal number of kept revisions, approximately, unless `--history` keeps others.
KEPT_REVISIONS: Final = 100_000
#: Compactions per duration of `--history`, so that little more than that is kept.
_STEPS: Final = 10


@dataclass(frozen=True, slots=True)
class Retention:
    """The history to keep: of the last `seconds` and at most `revisions`; None is no limit.

    The history of the last `seconds` is dropped in as many `steps`: with one, up to twice as much is kept.
    """

    seconds: float | None = None
    revisions: int | None = KEPT_REVISIONS
    steps: int = 1


def parse_retention(history: str, interval: float) -> Retention | None:
    """Return what the flags keep, None without compaction. Raise ValueError in one line.

    `interval` is the compaction interval, 0 for none; `history` is "" or replaces it.
    """
    if not history:
        return Retention(interval) if interval else None
    if history == "all":
        return Retention(revisions=None)
    if history.isdecimal() and int(history):
        return Retention(revisions=int(history))
    try:
        seconds = parse_duration(history).total_seconds()
    except ValueError:
        seconds = 0
    if not seconds:
        raise ValueError(f"--history {history}: write all, a number of revisions (5000) or a duration (1h)")
    return Retention(seconds, None, _STEPS)
