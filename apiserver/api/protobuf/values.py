"""Readers of single values, and the building blocks of message readers.

A message's reader is a table from tags (number and wire type) to field readers. A field reader takes the data, the
position after the tag and the object to fill. It returns the position after the field. Nested messages are sliced
first, so no reader sees data beyond its own message. An IndexError therefore means a truncated message.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import unpack_from
from typing import Any, Final

import orjson

from apiserver.api.codec.codec import DecodeError, loads
from apiserver.api.objects import Json
from apiserver.api.protobuf.wire import BYTES, END, EOF, FIXED64, VARINT, WireError, length, skip, varint
from apiserver.api.schema.scalars import canonical_quantity
from apiserver.api.values.durations import format_duration
from apiserver.api.values.go_json import RawObject

__all__ = [
    "SCALARS",
    "Into",
    "Message",
    "Value",
    "assign",
    "assign_text",
    "compile_message",
    "read_slice",
    "read_string",
]

#: Reads one value: (data, position) to (value, position after it).
Value = Callable[[bytes, int], tuple[Any, int]]
#: Reads one field into an object.
Into = Callable[[bytes, int, Json], int]
#: Reads a whole message into an object.
Message = Callable[[bytes, Json], None]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Go's zero time, which equals an absent one, and the last second with a four-digit year.
_EARLIEST, _LATEST = -62135596800, 253402300799
#: JSON white space between values. Strings contain it only in escaped form.
_ONE_LINE: Final = bytes.maketrans(b"\t\r\n", b"   ")
_HIGH: Final = {32: 2**31, 64: 2**63}


def compile_message(kind: str, table: Mapping[int, Into], names: Mapping[int, str]) -> Message:
    """Compile the reader of a message from field readers by tag. Errors use the `names` of known numbers."""
    find = table.get

    def read(data: bytes, out: Json) -> None:
        at, end = 0, len(data)
        while at < end:
            key = data[at]
            at += 1
            if key > 127:
                key, at = varint(data, at - 1)
            into = find(key)
            at = into(data, at, out) if into is not None else _unknown(kind, names, data, at, key)

    return read


def _unknown(kind: str, names: Mapping[int, str], data: bytes, at: int, key: int) -> int:
    """Skip a field that the kind does not have."""
    # Field numbers are signed 32-bit integers.
    number, wire = _signed(key >> 3, 32), key & 7
    if wire == END:
        raise WireError(f"proto: {kind}: wiretype end group for non-group")
    if number <= 0:
        raise WireError(f"proto: {kind}: illegal tag {number} (wire type {key})")
    if number in names:
        raise WireError(f"proto: wrong wireType = {wire} for field {names[number]}")
    return skip(data, at, key)


def assign(name: str, read: Value) -> Into:
    """Return a reader for a single value. The last of repeated values counts."""

    def into(data: bytes, at: int, out: Json) -> int:
        out[name], at = read(data, at)
        return at

    return into


def assign_text(name: str) -> Into:
    """Return a reader for a string that is no pointer, the most frequent field. An empty string is an absent one."""

    def into(data: bytes, at: int, out: Json) -> int:
        size = data[at]
        if not size:
            out.pop(name, None)
            return at + 1
        at, stop = (at + 1, at + 1 + size) if size < 128 else length(data, at)
        if stop > len(data):
            raise WireError(EOF)
        out[name] = data[at:stop].decode("utf-8", "replace")
        return stop

    return into


def _small(kind: str, *fields: tuple[str, int, Value]) -> Message:
    """Compile a reader for a message of values, numbered from 1."""
    table = {number << 3 | wire: assign(name, read) for number, (name, wire, read) in enumerate(fields, 1)}
    return compile_message(
        kind, table, {number: name[:1].upper() + name[1:] for number, (name, _, _) in enumerate(fields, 1)}
    )


def read_string(data: bytes, at: int) -> tuple[str, int]:
    at, stop = length(data, at)
    return data[at:stop].decode("utf-8", "replace"), stop


def _base64(data: bytes, at: int) -> tuple[str, int]:
    at, stop = length(data, at)
    return b64encode(data[at:stop]).decode(), stop


def read_bool(data: bytes, at: int) -> tuple[bool, int]:
    value, at = varint(data, at)
    return value != 0, at


def _signed(value: int, bits: int) -> int:
    high = _HIGH[bits]
    return ((value + high) & (2 * high - 1)) - high


def _int32(data: bytes, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    return _signed(value, 32), at


def _int64(data: bytes, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    return _signed(value, 64), at


def _double(data: bytes, at: int) -> tuple[float, int]:
    if at + 8 > len(data):
        raise WireError(EOF)
    value: float = unpack_from("<d", data, at)[0]
    return value, at + 8


def _timestamp(data: bytes, at: int) -> tuple[Json | None, int]:
    at, stop = length(data, at)
    if at == stop:
        return None, stop
    out: Json = {}
    _TIMESTAMP(data[at:stop], out)
    return out, stop


def _time(data: bytes, at: int) -> tuple[str | None, int]:
    found, stop = _timestamp(data, at)
    seconds = None if found is None else found.get("seconds", 0)
    return None if seconds is None or seconds == _EARLIEST else _moment(seconds), stop


def _micro_time(data: bytes, at: int) -> tuple[str | None, int]:
    found, stop = _timestamp(data, at)
    if found is None:
        return None, stop
    # Nanoseconds are truncated towards zero; negative ones reach into the second before.
    nanos = found.get("nanos", 0)
    seconds, micros = divmod(
        found.get("seconds", 0) * 1_000_000 + (abs(nanos) // 1000) * (1 if nanos >= 0 else -1), 1_000_000
    )
    return None if seconds == _EARLIEST and not micros else f"{_moment(seconds)[:-1]}.{micros:06d}Z", stop


@lru_cache(maxsize=8192)
def _moment(seconds: int) -> str:
    """Format seconds since 1970 as RFC 3339."""
    if not _EARLIEST <= seconds <= _LATEST:
        raise WireError(f"a time has a year outside of range [1,9999]: {seconds} seconds since 1970")
    return (_EPOCH + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def _duration(data: bytes, at: int) -> tuple[str, int]:
    at, stop = length(data, at)
    out: Json = {}
    _NANOSECONDS(data[at:stop], out)
    return format_duration(timedelta(microseconds=out.get("duration", 0) // 1000)), stop


def _quantity(data: bytes, at: int) -> tuple[str, int]:
    at, stop = length(data, at)
    out: Json = {}
    _TEXT(data[at:stop], out)
    text: str = out.get("text", "0")
    try:
        return canonical_quantity(text), stop
    except ValueError as error:
        raise WireError(str(error)) from None


def _int_or_string(data: bytes, at: int) -> tuple[int | str, int]:
    at, stop = length(data, at)
    out: Json = {}
    _INT_OR_STRING(data[at:stop], out)
    kind = out.get("type", 0)
    if kind not in (0, 1):
        raise WireError("impossible IntOrString.Type")
    return (out.get("strVal", "") if kind else out.get("intVal", 0)), stop


def _json(data: bytes, at: int) -> tuple[Any, int]:
    """Read the JSON of a RawExtension or FieldsV1."""
    at, stop = length(data, at)
    out: Json = {}
    _RAW(data[at:stop], out)
    raw: bytes = out.get("raw", b"")
    if not raw:
        return None, stop
    try:
        body = loads(raw)
    except DecodeError as error:
        raise WireError(f"a raw value is no JSON: {error}") from None
    value = body.value
    if type(value) is not dict:
        return value, stop
    text = raw.translate(_ONE_LINE).strip()
    if orjson.dumps(value) == text or not _is_text(text):
        return RawObject(value), stop
    return RawObject(value, text), stop


def _is_text(text: bytes) -> bool:
    """Return whether JSON is UTF-8 without lone surrogates. Other JSON is stored with U+FFFD in their place."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def read_slice(data: bytes, at: int) -> tuple[bytes, int]:
    at, stop = length(data, at)
    return data[at:stop], stop


_TIMESTAMP: Final = _small("Timestamp", ("seconds", VARINT, _int64), ("nanos", VARINT, _int32))
_NANOSECONDS: Final = _small("Duration", ("duration", VARINT, _int64))
_TEXT: Final = _small("Quantity", ("text", BYTES, read_string))
_INT_OR_STRING: Final = _small(
    "IntOrString", ("type", VARINT, _int64), ("intVal", VARINT, _int32), ("strVal", BYTES, read_string)
)
_RAW: Final = _small("RawExtension", ("raw", BYTES, read_slice))
#: Wire type and reader of each leaf type.
SCALARS: Final[dict[str, tuple[int, Value]]] = {
    "string": (BYTES, read_string),
    "bool": (VARINT, read_bool),
    "int32": (VARINT, _int32),
    "int64": (VARINT, _int64),
    "float64": (FIXED64, _double),
    "bytes": (BYTES, _base64),
    "time": (BYTES, _time),
    "microTime": (BYTES, _micro_time),
    "duration": (BYTES, _duration),
    "quantity": (BYTES, _quantity),
    "intOrString": (BYTES, _int_or_string),
    "raw": (BYTES, _json),
    "fieldsV1": (BYTES, _json),
    "any": (BYTES, _json),
}
