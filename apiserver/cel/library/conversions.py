"""Convert between types (`int("3")`, `string(1.5)`, `timestamp("…")`) and format numbers and times.

Numbers and times are parsed and formatted as by Go's standard library, because those texts are visible.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from apiserver.api.values.numbers import go_float
from apiserver.cel.language.declarations import Function, Overload, function, overload
from apiserver.cel.language.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from apiserver.cel.language.values import CelError, Duration, Timestamp, Uint, type_name
from apiserver.cel.library.operators import MAX_INT, MAX_UINT, MIN_INT, SECOND, checked_timestamp

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)|nan", re.IGNORECASE
)
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:[.,](\d+))?(?:Z|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_DURATION_PART: Final = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
}  # fmt: skip
_DIGIT_LIMIT: Final = 4000


def _failure(value: Any, target: Type) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{target.name}'")


def string_to_int(text: str) -> int:
    """Parse a decimal integer with an optional sign."""
    value = int(text) if len(text) < _DIGIT_LIMIT and _INTEGER.fullmatch(text) else None
    if value is None or not MIN_INT <= value <= MAX_INT:
        raise _failure(text, INT)
    return value


def string_to_uint(text: str) -> Uint:
    """Parse a decimal integer without a sign."""
    value = int(text) if len(text) < _DIGIT_LIMIT and text.isascii() and text.isdigit() else None
    if value is None or value > MAX_UINT:
        raise _failure(text, UINT)
    return Uint(value)


def string_to_double(text: str) -> float:
    """Parse a decimal fraction; raise CelError if it is too large for a double."""
    if not _FLOAT.fullmatch(text):
        raise _failure(text, DOUBLE)
    value = float(text)
    if math.isinf(value) and "inf" not in text.lower():
        raise _failure(text, DOUBLE)
    return value


def string_to_bool(text: str) -> bool:
    """Parse Go's spellings of true and false."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise _failure(text, BOOL)


def double_to_int(value: float) -> int:
    """Truncate a double to an integer."""
    if math.isfinite(value) and -float(1 << 63) < value < float(1 << 63):
        return int(value)
    raise CelError("integer overflow")


def double_to_uint(value: float) -> Uint:
    """Truncate a double to an unsigned integer."""
    if math.isfinite(value) and 0 <= value < float(1 << 64):
        return Uint(value)
    raise CelError("unsigned integer overflow")


def uint_to_int(value: int) -> int:
    """Convert to a signed integer; raise CelError above its range."""
    if value > MAX_INT:
        raise CelError("integer overflow")
    return int(value)


def int_to_uint(value: int) -> Uint:
    """Convert to an unsigned integer; raise CelError below zero."""
    if value < 0:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def duration_text(value: Duration) -> str:
    """Format a duration as seconds with a fraction."""
    seconds, nanos = divmod(abs(value.nanos), SECOND)
    total = seconds + nanos / SECOND
    text = f"{Decimal(repr(total)):f}".removesuffix(".0")
    return f"{'-' if value.nanos < 0 else ''}{text}s"


def timestamp_text(value: Timestamp) -> str:
    """Format a timestamp by RFC 3339 in its own zone, with a fraction without trailing zeros."""
    seconds, nanos = divmod(value.nanos, SECOND)
    local = _EPOCH + timedelta(seconds=seconds + value.offset)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    zone = "Z"
    if value.offset:
        minutes = abs(value.offset) // 60
        zone = f"{'-' if value.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{local.year:04d}-{local.month:02d}-{local.day:02d}T{local:%H:%M:%S}{fraction}{zone}"


def string_to_timestamp(text: str) -> Timestamp:
    """Parse a timestamp of RFC 3339."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise _failure(text, TIMESTAMP)
    year, month, day, hour, minute, second, fraction, sign, zone_hours, zone_minutes = found.groups()
    offset = (int(zone_hours or 0) * 60 + int(zone_minutes or 0)) * 60
    if offset and (int(zone_hours) > 24 or int(zone_minutes) > 60):
        raise _failure(text, TIMESTAMP)
    if sign == "-":
        offset = -offset
    if year == "0000":
        raise CelError("timestamp overflow")
    try:
        local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        raise _failure(text, TIMESTAMP) from None
    seconds = int((local - _EPOCH).total_seconds()) - offset
    nanos = int((fraction or "0")[:9].ljust(9, "0"))
    return checked_timestamp(seconds * SECOND + nanos, offset)


def string_to_duration(text: str) -> Duration:
    """Parse Go's duration notation: `1h30m`, `-1.5s`."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    total, at = 0, 0
    while at < len(rest):
        part = _DURATION_PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            raise _failure(text, DURATION)
        unit = _UNITS[part[3]]
        total += int(part[1] or 0) * unit
        if part[2]:
            total += int(part[2][:18]) * unit // 10 ** len(part[2][:18])
        at = part.end()
        if total > MAX_INT + 1:
            raise _failure(text, DURATION)
    if not rest or (total > MAX_INT and not text.startswith("-")):
        raise _failure(text, DURATION)
    return Duration(-total if text.startswith("-") else total)


def bytes_to_string(value: bytes) -> str:
    """Decode UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _unsupported(target: Type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        raise _failure(value, target)

    return convert


def text_of(value: Any) -> str:
    """Return the result of `string(value)` for the types that support it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(int(value))
        case float():
            return go_float(value)
        case bytes():
            return bytes_to_string(value)
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
        case _:
            raise _failure(value, STRING)


def _same(value: Any) -> Any:
    return value


def _conversions(name: str, target: Type, *sources: tuple[str, Type, Callable[[Any], Any]]) -> Function:
    overloads: list[Overload] = [
        overload(identifier, (source,), target, implementation) for identifier, source, implementation in sources
    ]
    return function(name, *overloads)


def library() -> list[Function]:
    """Return the declarations of the conversions."""
    return [
        _conversions("bool", BOOL, ("bool_to_bool", BOOL, _same), ("string_to_bool", STRING, string_to_bool)),
        _conversions("bytes", BYTES, ("bytes_to_bytes", BYTES, _same), ("string_to_bytes", STRING, str.encode)),
        _conversions(
            "double", DOUBLE,
            ("double_to_double", DOUBLE, _same), ("int64_to_double", INT, float),
            ("string_to_double", STRING, string_to_double), ("uint64_to_double", UINT, float),
        ),
        _conversions(
            "duration", DURATION,
            ("duration_to_duration", DURATION, _same), ("int64_to_duration", INT, _unsupported(DURATION)),
            ("string_to_duration", STRING, string_to_duration),
        ),
        _conversions(
            "int", INT,
            ("int64_to_int64", INT, _same), ("double_to_int64", DOUBLE, double_to_int),
            ("duration_to_int64", DURATION, lambda value: value.nanos),
            ("string_to_int64", STRING, string_to_int),
            ("timestamp_to_int64", TIMESTAMP, lambda value: value.nanos // SECOND),
            ("uint64_to_int64", UINT, uint_to_int),
        ),
        _conversions(
            "string", STRING,
            ("string_to_string", STRING, _same), ("bool_to_string", BOOL, text_of),
            ("bytes_to_string", BYTES, bytes_to_string), ("double_to_string", DOUBLE, go_float),
            ("duration_to_string", DURATION, duration_text), ("int64_to_string", INT, str),
            ("timestamp_to_string", TIMESTAMP, timestamp_text), ("uint64_to_string", UINT, text_of),
        ),
        _conversions(
            "timestamp", TIMESTAMP,
            ("timestamp_to_timestamp", TIMESTAMP, _same),
            ("int64_to_timestamp", INT, lambda value: checked_timestamp(value * SECOND)),
            ("string_to_timestamp", STRING, string_to_timestamp),
        ),
        _conversions(
            "uint", UINT,
            ("uint64_to_uint64", UINT, _same), ("double_to_uint64", DOUBLE, double_to_uint),
            ("int64_to_uint64", INT, int_to_uint), ("string_to_uint64", STRING, string_to_uint),
        ),
    ]  # fmt: skip
