"""CBOR (RFC 8949) in the subset that JSON can express, read and written by cbor2.

The writer encodes strings, including field names, as byte strings and floats in the shortest exact form. It encloses
the item in tag 55799. The reader also accepts text strings, indefinite lengths, and the tags for times and bytes; it
ignores other tags. It rejects repeated keys and items without a JSON form: NaN, big numbers, undefined, keys that are
not strings.

Source: k8s.io/apimachinery, pkg/runtime/serializer/cbor. The error texts for well-formed CBOR are those of
github.com/fxamacker/cbor v2.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from typing import Any, Final

import cbor2
import orjson

from apiserver.api.codec.bodies import DecodeError
from apiserver.api.values.depth import MAX_DEPTH, TOO_DEEP, is_too_deep

__all__ = ["SELF_DESCRIBED", "dumps", "dumps_event", "to_json", "type_of"]

#: The head of tag 55799.
SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INT64: Final = 1 << 63
_FORMS: Final = ((b"\xf9", ">e"), (b"\xfa", ">f"), (b"\xfb", ">d"))


# Writing


def dumps(value: Any, turn: int = 0) -> bytes:
    """Encode JSON. The order of keys depends on `turn`, so that clients cannot rely on one order."""
    return SELF_DESCRIBED + _dumps(value, turn)


def dumps_event(kind: str, obj: Any, turn: int = 0) -> bytes:
    """Encode a watch event. Its object has a tag of its own."""
    parts = [_dumps("type", 0) + _dumps(kind, 0), _dumps("object", 0) + _dumps(obj, turn)]
    return SELF_DESCRIBED + b"\xa2" + b"".join(reversed(parts) if turn % 2 else parts)


def _dumps(value: Any, turn: int) -> bytes:
    return cbor2.dumps(value, encoders={str: _write_text, float: _write_float, dict: partial(_write_map, turn)})


def _write_text(encoder: cbor2.CBOREncoder, value: str) -> None:
    encoder.encode_bytes(value.encode())


def _write_map(turn: int, encoder: cbor2.CBOREncoder, value: dict[str, Any]) -> None:
    pairs = list(value.items())
    first = turn % len(pairs) if pairs else 0
    encoder.encode_map(dict(pairs[first:] + pairs[:first]) if first else value)


def _write_float(encoder: cbor2.CBOREncoder, value: float) -> None:
    for head, form in _FORMS:
        try:
            packed = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, packed)[0] == value:
            encoder.write(head + packed)
            return


# Reading


def to_json(data: bytes) -> bytes:
    """Return one item of CBOR as JSON. Raise DecodeError."""
    value = _json(_decode(data))
    if len(data) > MAX_DEPTH and is_too_deep(value):
        raise DecodeError(f"cbor: {TOO_DEEP}")
    return orjson.dumps(value)


def type_of(data: bytes) -> str:
    """Return the type of a readable item in the words of errors."""
    return _type_of(_decode(data))


def _decode(data: bytes) -> Any:
    """Return the item as cbor2 reads it."""
    if not data:
        raise DecodeError("EOF")
    stream = BytesIO(data)
    if data.startswith(SELF_DESCRIBED):
        stream.seek(len(SELF_DESCRIBED))
    # cbor2 counts each item below the first: the members of the deepest container, too.
    decoder = cbor2.CBORDecoder(
        stream, tag_hook=_ignore_tag, semantic_decoders=_TAGS, max_depth=MAX_DEPTH, allow_duplicate_keys=False
    )
    try:
        value = decoder.decode()
    except cbor2.CBORDecodeEOF:
        raise DecodeError("unexpected EOF") from None
    except cbor2.CBORDecodeError as error:
        raise DecodeError(_error_text(error)) from None
    at = stream.tell()
    if at < len(data):
        raise DecodeError(f"cbor: {len(data) - at} bytes of extraneous data starting at index {at}")
    return value


def _error_text(error: cbor2.CBORDecodeError) -> str:
    cause = error.__cause__
    if isinstance(cause, DecodeError):
        return cause.text
    if isinstance(cause, UnicodeDecodeError):
        return "cbor: invalid UTF-8 string"
    return f"cbor: {TOO_DEEP if 'nesting depth' in str(error) else error}"


def _json(value: Any) -> Any:
    """Return the JSON form of an item. Raise DecodeError."""
    kind = type(value)
    if kind is bytes:
        return value.decode(errors="replace")
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        if not -_INT64 <= value < _INT64:
            what = f"cannot unmarshal {_type_of(value)} into Go value of type int64"
            raise DecodeError(f"cbor: {what} ({value} overflows Go's int64)")
        return value
    if kind is float:
        if not math.isfinite(value):
            raise _unsupported_error(value, "floating-point NaN" if math.isnan(value) else "floating-point infinity")
        return value
    if isinstance(value, Mapping):  # frozen below tags, and so are lists
        return _object(value)
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    number = value.value if isinstance(value, cbor2.CBORSimpleValue) else 23
    raise _unsupported_error(value, f"simple value {number} is not recognized")


def _object(value: Mapping[Any, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, bytes | str):
            raise DecodeError(f"cbor: cannot unmarshal {_type_of(key)} into Go value of type string")
        name = _json(key)
        if name in out:
            raise DecodeError(f"cbor: found duplicate map key {orjson.dumps(name).decode()}")
        out[name] = _json(item)
    return out


def _type_of(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return "negative integer" if value < 0 else "positive integer"
    types: dict[Any, str] = {bytes: "byte string", str: "UTF-8 text string", list: "array", tuple: "array"}
    return "map" if isinstance(value, Mapping) else types.get(type(value), "primitives")


def _unsupported_error(value: Any, what: str) -> DecodeError:
    return DecodeError(f"cbor: data item of cbor type {_type_of(value)} is not accepted by protocol: {what}")


# Tags: content, and whether the content must be immutable.


def _ignore_tag(tag: cbor2.CBORTag, _immutable: bool) -> Any:
    return tag.value


def _ignore(value: Any, _immutable: bool) -> Any:
    return value


def _refuse_big_number(_value: Any, _immutable: bool) -> Any:
    raise DecodeError("cbor: data item of cbor type tag is not accepted by protocol: bignum")


def _time(value: Any, _immutable: bool) -> Any:
    """Return seconds since 1970 as RFC 3339. Other values are returned unchanged and validated later."""
    if type(value) is str or type(value) is bytes or not isinstance(value, int | float) or not math.isfinite(value):
        return value
    try:
        at = _EPOCH + timedelta(seconds=value)
    except OverflowError:
        raise DecodeError(f"cbor: {value} overflows Go's time.Time") from None
    text = at.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{at.microsecond:06}".rstrip("0") + "Z" if at.microsecond else text + "Z"


def _as_text(encode: Callable[[bytes], str], value: Any, _immutable: bool) -> Any:
    return encode(value) if type(value) is bytes else value


_TAGS: Final[dict[int, Callable[[Any, bool], Any]]] = {
    # cbor2 has built-in decoders for these tags. References among them could repeat one string many times.
    **dict.fromkeys((4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799), _ignore),
    **dict.fromkeys((0, 1), _time),
    **dict.fromkeys((2, 3), _refuse_big_number),
    21: partial(_as_text, lambda value: base64.urlsafe_b64encode(value).decode().rstrip("=")),
    22: partial(_as_text, lambda value: base64.b64encode(value).decode()),
    23: partial(_as_text, bytes.hex),
}
