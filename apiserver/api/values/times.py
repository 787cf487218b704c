"""Times on the wire: RFC 3339 in, canonical UTC out.

`metav1.Time` has whole seconds, `metav1.MicroTime` exactly six digits. The accepted forms and the error texts are those
of Go's time.Parse, because clients see them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.values.bounded_cache import remembered

__all__ = ["Truncated", "has_truncated", "micro_time", "parse_time", "time", "timestamp"]

SECONDS: Final = "2006-01-02T15:04:05Z07:00"
MICROSECONDS: Final = "2006-01-02T15:04:05.000000Z07:00"
#: Go's zero time; both types write it as null.
_ZERO: Final = datetime(1, 1, 1, tzinfo=UTC)


_FRACTION: Final = re.compile(r"[.,][0-9]*[1-9]")


class Truncated(str):
    """A time sent with a fraction of a second, which was dropped.

    It equals the same time without a fraction; see `has_truncated`.
    """

    __slots__ = ()


def has_truncated(value: Any) -> bool:
    """Return whether a decoded value contains a truncated time.

    Upstream compares the sent value, so it differs from every stored one.
    """
    if isinstance(value, dict):
        return any(map(has_truncated, value.values()))
    if isinstance(value, list):
        return any(map(has_truncated, value))
    return isinstance(value, Truncated)


@remembered(8192)
def time(text: str) -> str | None:
    """Return the canonical form of a Time; None is Go's zero time. Raise ValueError."""
    moment = parse_time(text, SECONDS)
    if moment == _ZERO:
        return None
    return Truncated(_plain(moment) + "Z") if _FRACTION.search(text) else _plain(moment) + "Z"


def timestamp(moment: datetime) -> str:
    """Format a metav1.Time: whole seconds in UTC."""
    return _format_seconds(moment.timestamp() // 1)


@lru_cache(maxsize=64)
def _format_seconds(seconds: float) -> str:
    """Format seconds since 1970. Cached, because every write has a time and most repeat that of the previous write."""
    return _plain(datetime.fromtimestamp(seconds, UTC)) + "Z"


@remembered(8192)
def micro_time(text: str) -> str | None:
    """Return the canonical form of a MicroTime; None is Go's zero time. Raise ValueError."""
    moment = parse_time(text, MICROSECONDS)
    return None if moment == _ZERO else f"{_plain(moment)}.{moment.microsecond:06d}Z"


def _plain(moment: datetime) -> str:
    # Years below 1000 need their leading zeros, which strftime omits.
    day = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    return f"{day}T{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}"


class _Reader:
    """Reads a text from left to right, as time.Parse does. `hold` is the start of the current element."""

    def __init__(self, text: str, layout: str) -> None:
        self.text, self.layout, self.rest = text, layout, text

    def refuse(self, element: str, hold: str) -> ValueError:
        return ValueError(
            f"parsing time {go_quote(self.text)} as {go_quote(self.layout)}: cannot parse {go_quote(hold)} as"
            f" {go_quote(element)}"
        )

    def out_of_range(self, what: str) -> ValueError:
        return ValueError(f"parsing time {go_quote(self.text)}: {what} out of range")

    def literal(self, char: str) -> None:
        if not self.rest.startswith(char):
            raise self.refuse(char, self.rest)
        self.rest = self.rest[1:]

    def number(self, element: str, width: int, *, short: bool = False) -> int:
        """Read a number of `width` digits; with `short` one digit suffices."""
        hold, digits = self.rest, self.rest[:width]
        if not (digits.isascii() and digits.isdigit() and len(digits) == width):
            if not (short and hold[:1].isascii() and hold[:1].isdigit()):
                raise self.refuse(element, hold)
            digits = hold[:1]
        self.rest = hold[len(digits) :]
        return int(digits)

    def fraction(self, exact: int) -> int:
        """Read the microseconds of a fraction of `exact` digits. 0 accepts any number of digits, or no fraction."""
        hold = self.rest
        if exact:
            digits = hold[1 : exact + 1]
            if hold[:1] not in (".", ",") or len(digits) < exact or not (digits.isascii() and digits.isdigit()):
                raise self.refuse("." + "0" * exact, hold)
        else:
            if hold[:1] not in (".", ",") or not (hold[1:2].isascii() and hold[1:2].isdigit()):
                return 0
            end = 1
            while hold[end : end + 1].isascii() and hold[end : end + 1].isdigit():
                end += 1
            digits = hold[1:end]
        self.rest = hold[len(digits) + 1 :]
        return int(digits[:6].ljust(6, "0"))

    def zone(self) -> timezone:
        hold = self.rest
        if hold.startswith("Z"):
            self.rest = hold[1:]
            return UTC
        sign, hours, minutes = hold[:1], hold[1:3], hold[4:6]
        if (
            len(hold) < 6
            or hold[3] != ":"
            or sign not in "+-"
            or not (hours + minutes).isascii()
            or not (hours + minutes).isdigit()
        ):
            raise self.refuse("Z07:00", hold)
        self.rest = hold[6:]
        if int(hours) > 24:
            raise self.out_of_range("time zone offset hour")
        if int(minutes) > 60:
            raise self.out_of_range("time zone offset minute")
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-offset if sign == "-" else offset)


def parse_time(text: str, layout: str = SECONDS) -> datetime:
    """Parse a time to UTC. Raise ValueError with Go's text."""
    reader = _Reader(text, layout)
    year = reader.number("2006", 4)
    reader.literal("-")
    month = reader.number("01", 2)
    if not 1 <= month <= 12:
        raise reader.out_of_range("month")
    reader.literal("-")
    day = reader.number("02", 2)
    reader.literal("T")
    hour = reader.number("15", 2, short=True)
    if hour >= 24:
        raise reader.out_of_range("hour")
    reader.literal(":")
    minute = reader.number("04", 2)
    if minute >= 60:
        raise reader.out_of_range("minute")
    reader.literal(":")
    second = reader.number("05", 2)
    if second >= 60:
        raise reader.out_of_range("second")
    micros = reader.fraction(6 if layout == MICROSECONDS else 0)
    zone = reader.zone()
    if reader.rest:
        raise ValueError(f"parsing time {go_quote(text)}: extra text: {go_quote(reader.rest)}")
    try:
        moment = datetime(year, month, day, hour, minute, second, micros, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise reader.out_of_range("day") from None
    return moment if layout == MICROSECONDS else moment.replace(microsecond=0)
