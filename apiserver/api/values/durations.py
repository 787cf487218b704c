"""Durations in human-readable form: `42s`, `3m10s`, `5h`, `2d4h`. The form of every age in a Table.

The steps are wire facts of k8s.io/apimachinery (util/duration).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal

from apiserver.api.errors.field_errors import go_quote

__all__ = ["age", "format_duration", "go_duration_problem", "go_seconds", "human_duration", "parse_duration"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"({_PART.pattern})+", re.ASCII)

#: The grammar of time.ParseDuration: a number needs a digit on one side of its point.
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_UNIT = re.compile(r"[^.\d]*", re.ASCII)
_NANOSECONDS = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
#: Nanoseconds that exceed 64 bits.
_LONGEST = 1 << 63
_MOST_DIGITS = len(str(_LONGEST))

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(seconds: float) -> str:
    """Format seconds in at most two units. The second unit is omitted for longer durations.

    A clock skew of less than two seconds is shown as `0s`.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 3 * _HOUR:
        minutes = whole // _MINUTE
        if minutes < 10 and whole % _MINUTE:
            return f"{minutes}m{whole % _MINUTE}s"
        return f"{minutes}m"
    if whole < 2 * _DAY:
        hours = whole // _HOUR
        return f"{hours}h{whole // _MINUTE % 60}m" if hours < 8 and whole // _MINUTE % 60 else f"{hours}h"
    if whole < 2 * _YEAR:
        days = whole // _DAY
        return f"{days}d{whole // _HOUR % 24}h" if days < 8 and whole // _HOUR % 24 else f"{days}d"
    years = whole // _YEAR
    return f"{years}y{whole // _DAY % 365}d" if years < 8 and whole // _DAY % 365 else f"{years}y"


def parse_duration(text: str) -> timedelta:
    """Parse a duration in Go's form: `5m`, `1h30m`, `250ms`, `0`. Raise ValueError."""
    if text == "0":
        return timedelta()
    if not _DURATION.fullmatch(text):
        raise ValueError("not a duration; write it like 5m or 1h30m")
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))


def format_duration(duration: timedelta) -> str:
    """Format a duration that is not negative in Go's form: `1m30s`, `250ms`, `0s`."""
    micros = duration // timedelta(microseconds=1)
    if 0 < micros < 1000:
        return f"{micros}µs"
    if 0 < micros < 1_000_000:
        return f"{_trim(micros, 3)}ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    return f"{f'{hours}h' if hours else ''}{f'{minutes}m' if hours or minutes else ''}{_trim(rest, 6)}s"


def _trim(amount: int, places: int) -> str:
    """Format an amount with decimal places, without trailing zeros."""
    whole, rest = divmod(amount, 10**places)
    return f"{whole}.{rest:0{places}}".rstrip("0") if rest else str(whole)


def go_seconds(count: int) -> timedelta:
    """Return seconds as Go's time.Duration holds them: 64 bits of nanoseconds, which wrap around after 292 years.

    Clients may send any 64-bit number. Most of these exceed the range of Python's own durations and dates.
    """
    nanoseconds = (count * 10**9 + (1 << 63)) % (1 << 64) - (1 << 63)
    return timedelta(microseconds=nanoseconds // 1000)


def go_duration_problem(text: str) -> str:
    """Return the error of Go's time.ParseDuration for a text, or "" if it accepts the text."""
    rest = text.removeprefix("-") if text[:1] == "-" else text.removeprefix("+")
    if rest == "0":
        return ""
    if not rest:
        return f"time: invalid duration {go_quote(text)}"
    spent = Decimal()
    while rest:
        number = _NUMBER.match(rest)
        if number is None or len(number[0].partition(".")[0].lstrip("0")) > _MOST_DIGITS:
            return f"time: invalid duration {go_quote(text)}"
        unit = _UNIT.match(rest, number.end())
        assert unit is not None, "it matches nothing, too"
        if not unit[0]:
            return f"time: missing unit in duration {go_quote(text)}"
        if unit[0] not in _NANOSECONDS:
            return f"time: unknown unit {go_quote(unit[0])} in duration {go_quote(text)}"
        spent += Decimal(number[0]) * _NANOSECONDS[unit[0]]
        rest = rest[unit.end() :]
    return "" if spent < _LONGEST + (text[0] == "-") else f"time: invalid duration {go_quote(text)}"


def age(timestamp: str | None, now: datetime) -> str:
    """Return the time since an RFC 3339 timestamp, `<unknown>` without one."""
    if not timestamp:
        return "<unknown>"
    return human_duration((now - datetime.fromisoformat(timestamp)).total_seconds())
