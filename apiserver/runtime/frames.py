"""Frames: the protocol of a server and its components over a pipe (docs/adr/0033-components-apart.md).

A frame is a head of nine bytes (the payload's length, the number of its request or call, its kind) and the payload. A
payload of two parts is a line of JSON and a raw body.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, Final

import orjson

__all__ = ["WINDOW", "FrameKind", "Frames", "build_frame", "build_parts", "split_parts"]


class FrameKind(IntEnum):
    """The kind of a frame.

    From the components: REQUEST (method, path, query and headers; body), CANCEL (its answer is not needed any more),
    TAKEN (so many bytes of its chunks were read) · from the server: ANSWER (status, headers; body), OPENED (status and
    headers of an answer in chunks), CHUNK, END (of the chunks), BROKEN (the connection closes instead of an answer, or
    of its end) · calls, from the server: CALL; and from the components: RESULT, FAILURE.
    """

    REQUEST = 1
    CANCEL = 2
    TAKEN = 3
    ANSWER = 4
    OPENED = 5
    CHUNK = 6
    END = 7
    BROKEN = 8
    CALL = 9
    RESULT = 10
    FAILURE = 11


#: Maximal unread bytes of one answer's chunks in the pipe; slow readers are sent no more.
WINDOW: Final = 4 * 1024 * 1024
_HEAD: Final = Struct("<IIB")
_SIZE: Final = _HEAD.size


def build_frame(kind: FrameKind, number: int, payload: bytes = b"") -> bytes:
    """Build one frame."""
    return _HEAD.pack(len(payload), number, kind) + payload


def build_parts(kind: FrameKind, number: int, first: Any, body: bytes) -> bytes:
    """Build one frame with a value, encoded as JSON, and a body."""
    line = orjson.dumps(first)
    return b"%b%b\n%b" % (_HEAD.pack(len(line) + 1 + len(body), number, kind), line, body)


def split_parts(payload: bytes) -> tuple[Any, bytes]:
    """Split a payload of two parts into its value and its body."""
    end = payload.index(b"\n")
    return orjson.loads(payload[:end]), payload[end + 1 :]


class Frames:
    """A parser that splits received data, in pieces of any size, into frames."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._held, self._needed = 0, _SIZE

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yield (sort, number, payload) of each complete frame. Exhaust the iterator before the next piece."""
        if self._held + len(data) < self._needed:
            # A long frame arrives in many pieces, which are joined once.
            self._pieces.append(data)
            self._held += len(data)
            return
        if self._pieces:
            self._pieces.append(data)
            data = b"".join(self._pieces)
        start, size, needed = 0, len(data), _SIZE
        while size - start >= _SIZE:
            length, number, kind = _HEAD.unpack_from(data, start)
            needed = _SIZE + length
            if size - start < needed:
                break
            payload = data[start + _SIZE : start + needed]
            start, needed = start + needed, _SIZE
            yield kind, number, payload
        self._pieces = [data[start:]] if start < size else []
        self._held, self._needed = size - start, needed
