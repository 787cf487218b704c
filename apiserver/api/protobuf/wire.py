"""The wire format: varints, tags, lengths, and skipping unknown fields. Error texts are upstream's."""

from __future__ import annotations

from typing import Final

from apiserver.api.codec.codec import DecodeError

__all__ = ["BYTES", "FIXED64", "VARINT", "WireError", "header", "length", "skip", "tag", "varint", "write_varint"]

VARINT, FIXED64, BYTES, START, END, FIXED32 = 0, 1, 2, 3, 4, 5
_MASK: Final = 2**64 - 1
#: A varint has at most ten bytes.
_SHIFTS: Final = 64
_LONGEST: Final = 2**63
_ONE: Final = tuple(bytes((value,)) for value in range(128))
EOF: Final = "unexpected EOF"


class WireError(DecodeError):
    """The bytes are no message of the expected kind."""


def write_varint(value: int) -> bytes:
    """Encode a varint. Negative numbers are encoded as their 64 bits."""
    if 0 <= value < 128:
        return _ONE[value]
    value &= _MASK
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    """Encode the tag of a field."""
    return write_varint(number << 3 | wire)


def header(key: bytes, size: int) -> bytes:
    """Encode the tag and length of a field of `size` bytes."""
    return key + (_ONE[size] if size < 128 else write_varint(size))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Read the varint at a position, truncated to 64 bits. Return it with the position after it.

    Raise IndexError at the end of the data.
    """
    value = shift = 0
    while True:
        if shift >= _SHIFTS:
            raise WireError("proto: integer overflow")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK, at
        shift += 7


def length(data: bytes, at: int) -> tuple[int, int]:
    """Read the length at a position. Return start and end of the bytes after it."""
    size = data[at]
    at += 1
    if size > 127:
        size, at = varint(data, at - 1)
        if size >= _LONGEST:
            raise WireError("proto: negative length found during unmarshaling")
    stop = at + size
    if stop > len(data):
        raise WireError(EOF)
    return at, stop


def skip(data: bytes, at: int, key: int) -> int:
    """Return the position after a field with the tag `key`. A group ends at its own end tag."""
    depth = 0
    while True:
        wire = key & 7
        if wire == VARINT:
            _, at = varint(data, at)
        elif wire == BYTES:
            _, at = length(data, at)
        elif wire == START:
            depth += 1
        elif wire == END:
            if not depth:
                raise WireError("proto: unexpected end of group")
            depth -= 1
        elif wire in (FIXED64, FIXED32):
            at += 8 if wire == FIXED64 else 4
        else:
            raise WireError(f"proto: illegal wireType {wire}")
        if at > len(data):
            raise WireError(EOF)
        if not depth:
            return at
        key, at = varint(data, at)
