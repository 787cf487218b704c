"""The wire format: varints, tags, lengths, and skipping what is not known. Words of refusals are upstream's."""

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
    """The bytes are no message of the kind that they should be."""


def write_varint(value: int) -> bytes:
    """A varint; negative numbers as their 64 bits."""
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
    """What a field begins with."""
    return write_varint(number << 3 | wire)


def header(key: bytes, size: int) -> bytes:
    """The beginning of a field of `size` bytes."""
    return key + (_ONE[size] if size < 128 else write_varint(size))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at a position, of which 64 bits count, and the position after it. Raises IndexError at the end of the
    data.
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
    """Beginning and end of the bytes that begin with their length at a position."""
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
    """The position after a field whose tag was `key`; a group ends with its own end."""
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
