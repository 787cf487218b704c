"""Spans and their OTLP encoding."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from apiserver.api.protobuf.wire import BYTES, FIXED64, VARINT, header, tag, write_varint

__all__ = ["Span", "request_of"]

#: The kind of a server's span.
_SERVER: Final = 2
#: Statuses from here on are the server's failures.
_FAILED: Final = 500
_ERROR: Final = 2

Attributes = Mapping[str, str | int]


@dataclass(slots=True)
class Span:
    """One request. Times are nanoseconds since 1970; `linked` is the span of an untrusted client."""

    trace: bytes
    id: bytes
    name: str
    start: int
    parent: bytes = b""
    linked: tuple[bytes, bytes] | None = None
    end: int = 0
    attributes: dict[str, str | int] = field(default_factory=dict)

    def encode(self) -> bytes:
        code = self.attributes.get("http.response.status_code", 0)
        failed = isinstance(code, int) and code >= _FAILED
        parts = [_bytes(1, self.trace), _bytes(2, self.id)]
        if self.parent:
            parts.append(_bytes(4, self.parent))
        parts += [
            _bytes(5, self.name.encode()),
            tag(6, VARINT) + write_varint(_SERVER),
            tag(7, FIXED64) + struct.pack("<Q", self.start),
            tag(8, FIXED64) + struct.pack("<Q", self.end),
            *_attributes(9, self.attributes),
        ]
        if self.linked is not None:
            parts.append(_bytes(13, _bytes(1, self.linked[0]) + _bytes(2, self.linked[1])))
        if failed:
            parts.append(_bytes(15, tag(3, VARINT) + write_varint(_ERROR)))
        return b"".join(parts)


def request_of(spans: Iterable[Span], resource: Attributes, scope: str) -> bytes:
    """Encode an ExportTraceServiceRequest with spans of one resource."""
    of_scope = _bytes(1, _bytes(1, scope.encode())) + b"".join(_bytes(2, span.encode()) for span in spans)
    return _bytes(1, _bytes(1, b"".join(_attributes(1, resource))) + _bytes(2, of_scope))


def _bytes(number: int, value: bytes) -> bytes:
    return header(tag(number, BYTES), len(value)) + value


def _attributes(number: int, attributes: Attributes) -> list[bytes]:
    return [_bytes(number, _bytes(1, key.encode()) + _bytes(2, _value(value))) for key, value in attributes.items()]


def _value(value: str | int) -> bytes:
    return _bytes(1, value.encode()) if isinstance(value, str) else tag(3, VARINT) + write_varint(value)
