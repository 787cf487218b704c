"""When a CronJob runs: five fields as cron has them, or a name (`@daily`, `@every 1h30m`); and in which time zone.

What is accepted and the texts are wire facts of github.com/robfig/cron (ParseStandard) and of Go's time package.
"""

from __future__ import annotations

import re
import zoneinfo
from functools import lru_cache
from typing import Final, NamedTuple

from apiserver.api.fielderrors import go_quote

__all__ = ["ScheduleError", "check_location", "check_schedule"]

_NAMED: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY: Final = "@every "
_PREFIXES: Final = ("TZ=", "CRON_TZ=")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_AMOUNT: Final = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)", re.ASCII)
_UNITS: Final = frozenset({"ns", "us", "µs", "μs", "ms", "s", "m", "h"})
_MAX_INT64: Final = (1 << 63) - 1


class ScheduleError(ValueError):
    """Not a schedule, or no time zone; the text is upstream's."""


class _Bounds(NamedTuple):
    least: int
    most: int
    names: tuple[str, ...] = ()


_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (_Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))


def check_schedule(text: str) -> None:
    """Raises ScheduleError where the text is no schedule."""
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith(_PREFIXES):
        zone, blank, rest = text.partition("=")[2].partition(" ")
        if not blank:
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        try:
            check_location(zone)
        except ScheduleError as error:
            raise ScheduleError(f"provided bad location {zone}: {error}") from None
        text = rest.strip()
    if text.startswith("@"):
        _check_named(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _check_range(part, bounds)


def _check_range(text: str, bounds: _Bounds) -> None:
    """`4`, `1-5`, `*`, each with a step behind a slash; a single number with a step goes on to the end."""
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


def _check_named(text: str) -> None:
    if text in _NAMED:
        return
    if not text.startswith(_EVERY):
        raise ScheduleError(f"unrecognized descriptor: {text}")
    duration = text.removeprefix(_EVERY)
    if wrong := _wrong_duration(duration):
        raise ScheduleError(f"failed to parse duration {text}: time: {wrong} {go_quote(duration)}")


def _wrong_duration(text: str) -> str:
    """What is wrong with a Go duration (`1h30m`), "" if nothing is."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return ""
    if not rest:
        return "invalid duration"
    while rest:
        match = _AMOUNT.match(rest)
        assert match is not None, "the pattern matches anything"
        whole, fraction, unit = match.groups()
        if not whole and fraction in (None, "."):
            return "invalid duration"
        if not unit:
            return "missing unit in duration"
        if unit not in _UNITS:
            return f"unknown unit {go_quote(unit)} in duration"
        rest = rest[match.end() :]
    return ""


def check_location(name: str) -> None:
    """Raises ScheduleError where no time zone has this name. A machine without a time zone database knows none, and
    takes any.
    """
    if name in ("", "UTC", "Local"):
        return
    if ".." in name or name[0] == "/" or "\\" in name:
        raise ScheduleError("time: invalid location name")
    if _zones() and name not in _zones():
        raise ScheduleError(f"unknown time zone {name}")


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
