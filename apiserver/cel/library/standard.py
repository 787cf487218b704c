"""Other functions of the standard library: string predicates, and the parts of timestamps and durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final

from apiserver.cel.language.declarations import Function, function, method, overload
from apiserver.cel.language.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_of,
    map_of,
)  # fmt: skip
from apiserver.cel.language.values import CelError, Duration, Timestamp, no_such_overload
from apiserver.cel.library.operators import SECOND
from apiserver.cel.regex.regex import compile_pattern

TYPE_NAMES: Final[dict[str, Type]] = {
    "bool": BOOL, "bytes": BYTES, "double": DOUBLE, "google.protobuf.Duration": DURATION, "int": INT,
    "list": list_of(DYN), "map": map_of(DYN, DYN), "null_type": NULL, "string": STRING,
    "google.protobuf.Timestamp": TIMESTAMP, "type": TYPE, "uint": UINT,
}  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Days of 400 years, the period of the calendar.
_CYCLE: Final = 146_097
_OFFSET: Final = re.compile(r"[+-]?[0-9]+")


def matches(text: Any, pattern: Any) -> bool:
    """Return whether the pattern matches anywhere in the text."""
    if text.__class__ is not str:
        raise CelError("no such overload: matches")
    if pattern.__class__ is not str:
        raise no_such_overload()
    try:
        return compile_pattern(pattern).contains_match(text)
    except ValueError as error:
        raise CelError(str(error)) from None


def _zone(name: str) -> tzinfo:
    """Return a named zone, or an offset in hours and minutes."""
    hours, colon, minutes = name.partition(":")
    if colon:
        for part in (hours, minutes):
            if not _OFFSET.fullmatch(part):
                raise CelError(f'strconv.Atoi: parsing "{part}": invalid syntax')
        offset = int(hours) * 60 + (-int(minutes) if name.startswith("-") else int(minutes))
        return timezone(timedelta(minutes=offset))
    if name in ("", "UTC"):
        return UTC
    if name == "Local":
        return datetime.now().astimezone().tzinfo or UTC
    if ".." in name or name[0] in "/\\":
        raise CelError("time: invalid location name")
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _local(moment: Timestamp, zone: str) -> tuple[datetime, int]:
    """Return a moment in a zone, and the years to add.

    Near both ends of CEL's time range, local years are outside Python's range.
    """
    utc = _EPOCH + timedelta(seconds=moment.nanos // SECOND)
    if zone == "UTC":
        return utc, 0
    place = _zone(zone)
    for years, days in ((0, 0), (400, -_CYCLE), (-400, _CYCLE)):
        with suppress(OverflowError, ValueError):
            return (utc + timedelta(days=days)).astimezone(place), years
    raise CelError("timestamp overflow")


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    def of_timestamp(moment: Timestamp, zone: str = "UTC") -> int:
        return read(_local(moment, zone)[0])

    return of_timestamp


def _year(moment: Timestamp, zone: str = "UTC") -> int:
    local, years = _local(moment, zone)
    return local.year + years


def _milliseconds(moment: Timestamp, zone: str = "UTC") -> int:
    _local(moment, zone)
    return moment.nanos % SECOND // 1_000_000


def _count(unit: int) -> Callable[[Duration], int]:
    def of_duration(span: Duration) -> int:
        whole = abs(span.nanos) // unit
        return -whole if span.nanos < 0 else whole

    return of_duration


def _time_part(
    name: str, id: str, tz_id: str, read: Callable[..., int], span: tuple[str, int] | None = None
) -> Function:
    overloads = [
        method(id, (TIMESTAMP,), INT, read),
        method(tz_id, (TIMESTAMP, STRING), INT, read),
    ]
    if span is not None:
        overloads.append(method(span[0], (DURATION,), INT, _count(span[1])))
    return function(name, *overloads)


def _times() -> list[Function]:
    def time_function(name: str, stem: str, read: Callable[..., int], span: tuple[str, int] | None = None) -> Function:
        tz_id = "timestamp_to_seconds_tz" if stem == "seconds" else f"timestamp_to_{stem}_with_tz"
        return _time_part(name, f"timestamp_to_{stem}", tz_id, read, span)

    return [
        time_function("getFullYear", "year", _year),
        time_function("getMonth", "month", _part(lambda local: local.month - 1)),
        time_function("getDayOfYear", "day_of_year", _part(lambda local: local.timetuple().tm_yday - 1)),
        time_function("getDayOfMonth", "day_of_month", _part(lambda local: local.day - 1)),
        time_function("getDate", "day_of_month_1_based", _part(lambda local: local.day)),
        time_function("getDayOfWeek", "day_of_week", _part(lambda local: local.isoweekday() % 7)),
        time_function("getHours", "hours", _part(lambda local: local.hour), ("duration_to_hours", 3600 * SECOND)),
        time_function("getMinutes", "minutes", _part(lambda local: local.minute), ("duration_to_minutes", 60 * SECOND)),
        time_function("getSeconds", "seconds", _part(lambda local: local.second), ("duration_to_seconds", SECOND)),
        time_function("getMilliseconds", "milliseconds", _milliseconds, ("duration_to_milliseconds", 1_000_000)),
    ]


def library() -> list[Function]:
    """Return the declarations."""
    return [
        function(
            "contains", method("contains_string", (STRING, STRING), BOOL, lambda text, part: part in text), terse=True
        ),
        function("endsWith", method("ends_with_string", (STRING, STRING), BOOL, str.endswith), terse=True),
        function("startsWith", method("starts_with_string", (STRING, STRING), BOOL, str.startswith), terse=True),
        function(
            "matches",
            overload("matches", (STRING, STRING), BOOL),
            method("matches_string", (STRING, STRING), BOOL),
            trait=matches,
        ),
        *_times(),
    ]
