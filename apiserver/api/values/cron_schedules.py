"""The schedule of a CronJob: five cron fields or a name (`@daily`, `@every 1h30m`), and its time zone.

    parse_schedule("*/5 2-4 * * mon")               Schedule, or ScheduleError with upstream's text
    parse_schedule("TZ=Asia/Tokyo @daily").next(t)  the first moment after t; None if there is none within five years

A clock change can remove a time of day, which is then skipped, or repeat it, which then occurs twice. If both day of
month and weekday are given, either matches; if one of them is `*`, both must match.

The grammar, the texts and the moments are wire facts of github.com/robfig/cron (ParseStandard) and of Go's time
package.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.values.bounded_cache import remembered

__all__ = ["Schedule", "ScheduleError", "check_location", "location", "parse_schedule"]

_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_PREFIXES: Final = ("TZ=", "CRON_TZ=")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_AMOUNT: Final = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)", re.ASCII)
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEARS: Final = 5
"""Years that are searched for the next time."""
_MAX_INT64: Final = (1 << 63) - 1
_LONGEST: Final = _MAX_INT64 / 1e9
"""Seconds that a Go duration can hold."""


class ScheduleError(ValueError):
    """An invalid schedule or time zone; the text is upstream's."""


class _Bounds(NamedTuple):
    least: int
    most: int
    names: tuple[str, ...] = ()


_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (_Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))


class Schedule(Protocol):
    """A schedule."""

    def next(self, moment: datetime) -> datetime | None:
        """Return the first time after a moment, in UTC, or None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class _Field:
    values: frozenset[int]
    #: Any value, written as `*`.
    any: bool


@dataclass(frozen=True, slots=True)
class _Every:
    """A schedule with a fixed interval in whole seconds."""

    delay: timedelta

    def next(self, moment: datetime) -> datetime | None:
        return moment.replace(microsecond=0) + self.delay


@dataclass(frozen=True, slots=True)
class _Cron:
    """A schedule of five cron fields, in a time zone."""

    fields: tuple[_Field, ...]
    zone: tzinfo

    def next(self, moment: datetime) -> datetime | None:
        local = moment.astimezone(self.zone)
        day, last = local.date(), local.year + _YEARS
        months = self.fields[3].values
        while day.year <= last:
            if day.month not in months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._falls_on(day):
                found = next((each for each in self._times(day) if each > moment), None)
                if found is not None:
                    return found
            day += timedelta(days=1)
        return None

    def _falls_on(self, day: date) -> bool:
        numbers, weekdays = self.fields[2], self.fields[4]
        by_number, by_weekday = day.day in numbers.values, day.isoweekday() % 7 in weekdays.values
        if numbers.any or weekdays.any:
            return by_number and by_weekday
        return by_number or by_weekday

    def _times(self, day: date) -> Iterator[datetime]:
        """Return the times of a day in order."""
        start = datetime(day.year, day.month, day.day, tzinfo=self.zone)
        times = (
            start.replace(hour=hour, minute=minute)
            for hour in sorted(self.fields[1].values)
            for minute in sorted(self.fields[0].values)
        )
        if start.utcoffset() == (start + timedelta(days=1)).utcoffset():
            return (time.astimezone(UTC) for time in times)
        # The clocks change: some times occur twice, some not at all.
        found = {each.astimezone(UTC) for time in times for each in (time, time.replace(fold=1)) if _exists(each)}
        return iter(sorted(found))


def _exists(local: datetime) -> bool:
    back = local.astimezone(UTC).astimezone(local.tzinfo)
    return back.replace(tzinfo=None) == local.replace(tzinfo=None)


@remembered(1024)
def parse_schedule(text: str) -> Schedule:
    """Parse a schedule. Raise ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    zone: tzinfo = UTC
    if text.startswith(_PREFIXES):
        name, blank, rest = text.partition("=")[2].partition(" ")
        if not blank:
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        try:
            zone = location(name)
        except ScheduleError as error:
            raise ScheduleError(f"provided bad location {name}: {error}") from None
        text = rest.strip()
    if text.startswith("@") and text not in _NAMED:
        return _Every(_delay(text))
    fields = _NAMED.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    return _Cron(tuple(_field(field, bounds) for field, bounds in zip(fields, _FIELDS, strict=True)), zone)


def _field(text: str, bounds: _Bounds) -> _Field:
    parts = [_range(part, bounds) for part in filter(None, text.split(","))]
    return _Field(frozenset().union(*(part.values for part in parts)), any(part.any for part in parts))


def _range(text: str, bounds: _Bounds) -> _Field:
    """Parse `4`, `1-5` or `*`, each with an optional step after a slash. A number with a step extends to the end."""
    limits, *steps = text.split("/")
    low, *high = limits.split("-")
    if low in ("*", "?"):
        first, last = bounds.least, bounds.most
    else:
        first = last = _number(low, bounds)
        if len(high) == 1:
            last = _number(high[0], bounds)
        elif high:
            raise ScheduleError(f"too many hyphens: {text}")
    step = 1
    if len(steps) == 1:
        step = _integer(steps[0])
        last = last if high else bounds.most
    elif steps:
        raise ScheduleError(f"too many slashes: {text}")
    if first < bounds.least:
        raise ScheduleError(f"beginning of range ({first}) below minimum ({bounds.least}): {text}")
    if last > bounds.most:
        raise ScheduleError(f"end of range ({last}) above maximum ({bounds.most}): {text}")
    if first > last:
        raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if not step:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return _Field(frozenset(range(first, last + 1, step)), low in ("*", "?") and step == 1)


def _number(text: str, bounds: _Bounds) -> int:
    name = text.lower()
    return bounds.names.index(name) + bounds.least if name in bounds.names else _integer(text)


def _integer(text: str) -> int:
    wrong = ""
    if not _INTEGER.fullmatch(text):
        wrong = "invalid syntax"
    elif abs(int(text)) > _MAX_INT64:
        wrong = "value out of range"
    if wrong:
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {go_quote(text)}: {wrong}")
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


def _delay(text: str) -> timedelta:
    """Return the interval of `@every` in whole seconds, at least 1."""
    if not text.startswith(_EVERY):
        raise ScheduleError(f"unrecognized descriptor: {text}")
    duration = text.removeprefix(_EVERY)
    wrong, seconds = _duration(duration)
    if wrong:
        raise ScheduleError(f"failed to parse duration {text}: time: {wrong} {go_quote(duration)}")
    return timedelta(seconds=max(1, int(min(seconds, _LONGEST))))


def _duration(text: str) -> tuple[str, float]:
    """Return the error of a Go duration (`1h30m`), "" if there is none, and its seconds."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    sign, seconds = -1 if text[:1] == "-" else 1, 0.0
    if rest == "0":
        return "", 0.0
    if not rest:
        return "invalid duration", 0.0
    while rest:
        match = _AMOUNT.match(rest)
        assert match is not None, "the pattern matches anything"
        whole, fraction, unit = match.groups()
        if not whole and fraction in (None, "."):
            return "invalid duration", 0.0
        if not unit:
            return "missing unit in duration", 0.0
        if unit not in _UNITS:
            return f"unknown unit {go_quote(unit)} in duration", 0.0
        seconds += float(f"{whole or 0}{fraction or ''}") * _UNITS[unit]
        rest = rest[match.end() :]
    return "", sign * seconds


def check_location(name: str) -> None:
    """Raise ScheduleError if no time zone has this name.

    A machine without a time zone database accepts every name here.
    """
    if name in ("", "UTC", "Local"):
        return
    if ".." in name or name[0] == "/" or "\\" in name:
        raise ScheduleError("time: invalid location name")
    if _zones() and name not in _zones():
        raise ScheduleError(f"unknown time zone {name}")


def location(name: str) -> tzinfo:
    """Return the time zone of a name. The local one is UTC here. Raise ScheduleError."""
    check_location(name)
    if name in ("", "UTC", "Local"):
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
