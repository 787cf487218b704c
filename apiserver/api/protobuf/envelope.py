"""The framing of messages: the envelope of an object and the frame of a watch event."""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.api.protobuf.values import assign, compile_message, read_slice, read_string
from apiserver.api.protobuf.wire import BYTES, EOF, WireError, header, length, tag

__all__ = ["Envelope", "frame", "unwrap", "wrap"]

PREFIX: Final = b"k8s\x00"
_ONE, _TWO = tag(1, BYTES), tag(2, BYTES)
#: contentEncoding and contentType, always empty.
_REST: Final = b"\x1a\x00\x22\x00"


class Envelope(NamedTuple):
    """The claimed apiVersion and kind of a body, and its message."""

    api_version: str
    kind: str
    raw: bytes


def _field(key: bytes, raw: bytes) -> bytes:
    return header(key, len(raw)) + raw


def opening(api_version: str, kind: str) -> bytes:
    """Return the envelope up to the message."""
    return PREFIX + _field(_ONE, _field(_ONE, api_version.encode()) + _field(_TWO, kind.encode()))


def wrap(api_version: str, kind: str, message: bytes) -> bytes:
    """Wrap a message in the envelope of an object."""
    return b"%b%b%b%b" % (opening(api_version, kind), header(_TWO, len(message)), message, _REST)


def frame(kind: str, obj: bytes) -> bytes:
    """Frame a watch event of an enveloped object, preceded by its length."""
    raw = _field(_ONE, obj)
    event = _field(_ONE, kind.encode()) + header(_TWO, len(raw)) + raw
    return len(event).to_bytes(4, "big") + event


def unwrap(body: bytes) -> Envelope:
    """Parse the envelope of a body. Raise WireError."""
    if not body:
        raise WireError("empty data")
    if not body.startswith(PREFIX):
        raise WireError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    if len(body) == len(PREFIX):
        raise WireError("empty body")
    unknown: Json = {}
    try:
        _UNKNOWN(body[len(PREFIX) :], unknown)
    except IndexError:
        raise WireError(EOF) from None
    kinds = unknown.get("typeMeta", {})
    return Envelope(kinds.get("apiVersion", ""), kinds.get("kind", ""), unknown.get("raw", b""))


def _type_meta(data: bytes, at: int, out: Json) -> int:
    at, stop = length(data, at)
    _TYPE_META(data[at:stop], out.setdefault("typeMeta", {}))
    return stop


_TYPE_META: Final = compile_message(
    "TypeMeta",
    {0x0A: assign("apiVersion", read_string), 0x12: assign("kind", read_string)},
    {1: "APIVersion", 2: "Kind"},
)
_UNKNOWN: Final = compile_message(
    "Unknown",
    {
        0x0A: _type_meta,
        0x12: assign("raw", read_slice),
        0x1A: assign("encoding", read_string),
        0x22: assign("type", read_string),
    },
    {1: "TypeMeta", 2: "Raw", 3: "ContentEncoding", 4: "ContentType"},
)
