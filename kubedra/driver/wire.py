"""Protobuf's wire format, as far as the messages between kubelet and driver need it: strings, integers, messages in
messages. Fields that are not known are passed over, as proto3 asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are no protobuf message."""


def field(number: int, value: str | bytes | int | None) -> bytes:
    """One field; what is empty, zero or None is left out (proto3)."""
    if not value:
        return b""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value & 2**64 - 1)
    return message(number, value.encode() if isinstance(value, str) else value)


def message(number: int, data: bytes) -> bytes:
    """A field of bytes or a message; it is there even when it is empty."""
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def repeated(number: int, values: Iterable[str | bytes]) -> bytes:
    """A field for every value."""
    return b"".join(message(number, value.encode() if isinstance(value, str) else value) for value in values)


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of every field of a message: an integer, or the bytes. Raises WireError."""
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
            raise WireError("the message ends within a field")
        if wire == _BYTES:
            yield number, data[at : at + size]
        at += size


def text(value: int | bytes) -> str:
    """A string field's value. Raises WireError."""
    if isinstance(value, int):
        raise WireError("an integer where text is meant")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise WireError("text that is not UTF-8") from error


def number(value: int | bytes) -> int:
    """An integer field's value, signed. Raises WireError."""
    if not isinstance(value, int):
        raise WireError("bytes where an integer is meant")
    return value - 2**64 if value >= 2**63 else value


def body(value: int | bytes) -> bytes:
    """A message field's value. Raises WireError."""
    if isinstance(value, int):
        raise WireError("an integer where a message is meant")
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
    raise WireError("the message ends within a number")
