"""The part of protobuf's wire format that messages between kubelet and driver need.

It has strings, integers and nested messages. Unknown fields are skipped, as proto3 requires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are not a protobuf message."""


def field(number: int, value: str | bytes | int | None) -> bytes:
    """Encode one field. Empty values, zero and None are omitted (proto3)."""
    if not value:
        return b""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value & 2**64 - 1)
    return message(number, value.encode() if isinstance(value, str) else value)


def message(number: int, data: bytes) -> bytes:
    """Encode a field of bytes or a message, even if it is empty."""
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def repeated(number: int, values: Iterable[str | bytes]) -> bytes:
    """Encode one field per value."""
    return b"".join(message(number, value.encode() if isinstance(value, str) else value) for value in values)


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of every field of a message; a value is an integer or bytes. Raises WireError."""
    at = 0
    while at < len(data):
        key, at = _read(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _read(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _read(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise WireError(f"wire type {wire}")
        if at + size > len(data):
            raise WireError("truncated field")
        if wire == _BYTES:
            yield number, data[at : at + size]
        at += size


def text(value: int | bytes) -> str:
    """Decode the value of a string field. Raises WireError."""
    if isinstance(value, int):
        raise WireError("expected text, got an integer")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise WireError("text is not UTF-8") from error


def number(value: int | bytes) -> int:
    """Decode the value of a signed integer field. Raises WireError."""
    if not isinstance(value, int):
        raise WireError("expected an integer, got bytes")
    return value - 2**64 if value >= 2**63 else value


def body(value: int | bytes) -> bytes:
    """Return the bytes of a message field. Raises WireError."""
    if isinstance(value, int):
        raise WireError("expected a message, got an integer")
    return value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 2**64 - 1, at
        shift += 7
    raise WireError("truncated integer")
