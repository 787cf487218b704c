"""A moment of the history as users write it (`--at`): a revision, a time, or a duration before now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from apiserver.api.values.durations import parse_duration

if TYPE_CHECKING:
    from apiserver.storage.log.types import RevisionLog

__all__ = ["InvalidMomentError", "Moment", "TooOldError", "find_moment"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORMS: Final = "write a revision (1234), a duration before now (-5m) or a time (2026-01-31T15:04:05Z)"


class InvalidMomentError(ValueError):
    """A text that is no moment, or a moment in the future."""


class TooOldError(ValueError):
    """A moment before the history begins."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A revision and the time of the write that made it; None if that is not known."""

    revision: int
    time: datetime | None


async def find_moment(log: RevisionLog, text: str, now: datetime) -> Moment:
    """Return the moment of a text. Raise InvalidMomentError or TooOldError."""
    if text.isdecimal():
        revision = int(text)
        if revision > log.revision:
            raise InvalidMomentError(f"revision {revision} is in the future: the newest is {log.revision}")
        if revision < log.compacted:
            raise TooOldError(f"revision {revision} is compacted: {await _describe_begin(log)}")
        return Moment(revision, await _time_at(log, revision))
    time = _parse_time(text, now)
    if time > now:
        raise InvalidMomentError(f"{text!r} is in the future: the server's time is {format_time(now)}")
    revision = await log.revision_at((time - _EPOCH) // timedelta(microseconds=1))
    if not revision:
        raise TooOldError(f"{text!r} is before the history: {await _describe_begin(log)}")
    return Moment(revision, await _time_at(log, revision))


def _parse_time(text: str, now: datetime) -> datetime:
    try:
        if text.startswith("-"):
            return now - parse_duration(text[1:])
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise InvalidMomentError(f"{text!r} is no moment: {_FORMS}") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


async def _time_at(log: RevisionLog, revision: int) -> datetime | None:
    written = await log.time_of(revision)
    return _EPOCH + timedelta(microseconds=written) if written else None


async def _describe_begin(log: RevisionLog) -> str:
    begin = await _time_at(log, log.compacted + 1)
    when = f" ({format_time(begin)})" if begin is not None else ""
    return f"the history begins at revision {max(log.compacted, 1)}{when}; --history keeps more"


def format_time(time: datetime) -> str:
    """Return a time in UTC with milliseconds."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
