"""Encode objects as messages. A writer is compiled once per struct and cached in it.

A writer takes a value in normal form and returns the field's bytes with its tag. The bytes of an absent field are
computed when the writer is compiled: none, or the zero value of a field that is always written.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from struct import pack
from typing import Any, Final

import orjson

from apiserver.api.protobuf.wire import BYTES, FIXED64, VARINT, header, tag, write_varint
from apiserver.api.schema.language import Field, ListOf, MapOf, Scalar, Struct, Type
from apiserver.api.values.bounded_cache import remembered
from apiserver.api.values.durations import parse_duration
from apiserver.api.values.go_json import RawObject

__all__ = ["encode"]

Writer = Callable[[Any], bytes]
#: A field: its name ("" for the whole object), its writer, and its bytes when absent.
Step = tuple[str, Writer, bytes]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KEY: Final = tag(1, BYTES)
_VALUE: Final = 2


def encode(schema: Struct, obj: Any) -> bytes:
    """Encode an object in normal form as a message, without kind and apiVersion."""
    return message_of(schema)(obj)


def message_of(struct: Struct) -> Writer:
    """Return the compiled writer of a struct's message, without tag or length."""
    made: Writer | None = struct.cache.get("protobuf encode")
    if made is None:
        # A recursive type finds this placeholder in the cache.
        def later(obj: Any) -> bytes:
            return message_of(struct)(obj)

        struct.cache["protobuf encode"] = later
        made = struct.cache["protobuf encode"] = _compile(struct)
    return made


def _compile(struct: Struct) -> Writer:
    numbered = sorted((item for item in struct.declared if item.number), key=lambda item: item.number)
    steps = tuple(_step(item) for item in numbered)
    if any(not name for name, _, _ in steps):
        return _with_embedded(steps)
    if not any(zero for _, _, zero in steps):
        return _sparse(steps)

    def write(obj: Any) -> bytes:
        get, parts = obj.get, []
        for name, writer, zero in steps:
            value = get(name)
            if value is not None:
                parts.append(writer(value))
            elif zero:
                parts.append(zero)
        return b"".join(parts)

    return write


def _with_embedded(steps: tuple[Step, ...]) -> Writer:
    """Return a writer for a struct with embedded ones. Their messages are fields of its message."""

    def write(obj: Any) -> bytes:
        parts = []
        for name, writer, zero in steps:
            value = obj.get(name) if name else obj
            parts.append(zero if value is None else writer(value))
        return b"".join(parts)

    return write


def _sparse(steps: tuple[Step, ...]) -> Writer:
    """Return a writer for a struct that may be empty. Most have one field set (an attribute, a volume's source)."""
    writers = {name: writer for name, writer, _ in steps}
    find = writers.get

    def write(obj: Any) -> bytes:
        if len(obj) == 1:
            for name, value in obj.items():
                writer = find(name)
                return writer(value) if writer is not None and value is not None else b""
        return b"".join([writer(obj[name]) for name, writer in writers.items() if obj.get(name) is not None])

    return write


def _step(item: Field) -> Step:
    writer = _writer(item.type, item.number)
    if item.inline:
        return "", writer, b""
    if item.pointer:
        return item.name, writer, b""
    return item.name, writer, _zero(item, writer)


def _zero(item: Field, writer: Writer) -> bytes:
    """Return the bytes of an absent field that is no pointer."""
    of = item.type
    if isinstance(of, Struct):
        return writer({})
    if isinstance(of, Scalar) and of.name != "bytes":
        return writer(_ZEROS[of.name])
    return b""


_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float64": 0.0,
    "time": None,
    "microTime": None,
    "duration": "0",
    "quantity": "0",
    "intOrString": 0,
    "raw": None,
    "fieldsV1": None,
}


def _writer(type: Type, number: int) -> Writer:
    if isinstance(type, Struct):
        return _sized(tag(number, BYTES), message_of(type))
    if isinstance(type, ListOf):
        return _named_list(type, number) if type.go else _list(_writer(type.item, number))
    if isinstance(type, MapOf):
        # Repeated fields cannot be values of a map, so a list becomes a message there.
        value = type.value
        return _map(
            tag(number, BYTES), _named_list(value, _VALUE) if isinstance(value, ListOf) else _writer(value, _VALUE)
        )
    if type.own is not None:
        form = type.own
        return _sized(tag(number, BYTES), lambda value: message_of(form.message)(form.opened(value)))
    make = _SCALARS.get(type.name)
    if make is None:
        raise TypeError(f"{type.go} has no protobuf form")
    return make(number)


def _list(write: Writer) -> Writer:
    def write_list(value: Any) -> bytes:
        # A list in a map may be null.
        return b"".join([write(item) for item in value or ()])

    return write_list


def _named_list(type: ListOf, number: int) -> Writer:
    """Return a writer for a named list type (Verbs, ExtraValue), a message of its own."""
    return _sized(tag(number, BYTES), _list(_writer(type.item, 1)))


def _map(key: bytes, write_value: Writer) -> Writer:
    def write_map(value: Any) -> bytes:
        parts: list[bytes] = []
        for name in sorted(value):
            raw = name.encode()
            entry = header(_KEY, len(raw)) + raw + write_value(value[name])
            parts += (header(key, len(entry)), entry)
        return b"".join(parts)

    return write_map


def _sized(key: bytes, message: Writer) -> Writer:
    """Return a writer for a message as a field."""

    def write(value: Any) -> bytes:
        body = message(value)
        size = len(body)
        return b"%b%c%b" % (key, size, body) if size < 128 else header(key, size) + body

    return write


def _string(number: int) -> Writer:
    key = tag(number, BYTES)

    def write(value: Any) -> bytes:
        raw = value.encode()
        size = len(raw)
        return b"%b%c%b" % (key, size, raw) if size < 128 else header(key, size) + raw

    return write


def _bytes(number: int) -> Writer:
    return _sized(tag(number, BYTES), b64decode)


def _bool(number: int) -> Writer:
    key = tag(number, VARINT)
    yes, no = key + b"\x01", key + b"\x00"
    return lambda value: yes if value else no


def _integer(number: int) -> Writer:
    key = tag(number, VARINT)
    return lambda value: key + write_varint(value)


def _float(number: int) -> Writer:
    key = tag(number, FIXED64)
    return lambda value: key + pack("<d", value)


def _time(number: int) -> Writer:
    return _sized(tag(number, BYTES), _timestamp)


def _timestamp(text: str | None) -> bytes:
    return _moment(text) if text else b""


@remembered(8192)
def _moment(text: str) -> bytes:
    """Encode a time as seconds and nanoseconds since 1970."""
    seconds, rest = divmod(datetime.fromisoformat(text) - _EPOCH, timedelta(seconds=1))
    return b"\x08" + write_varint(seconds) + b"\x10" + write_varint(rest.microseconds * 1000)


def _duration(number: int) -> Writer:
    """Return a writer for a duration: a message with nanoseconds."""
    return _sized(
        tag(number, BYTES),
        lambda text: b"\x08" + write_varint(parse_duration(text) // timedelta(microseconds=1) * 1000),
    )


def _quantity(number: int) -> Writer:
    return _sized(tag(number, BYTES), _string(1))


def _int_or_string(number: int) -> Writer:
    text = _string(3)

    def write(value: Any) -> bytes:
        if isinstance(value, str):
            return b"\x08\x01\x10\x00" + text(value)
        return b"\x08\x00\x10" + write_varint(value) + b"\x1a\x00"

    return _sized(tag(number, BYTES), write)


def _json(number: int) -> Writer:
    """Return a writer for RawExtension and FieldsV1: the JSON as it was written, nothing for none."""

    def write(value: Any) -> bytes:
        if value is None:
            return b""
        raw = value.written if isinstance(value, RawObject) else orjson.dumps(value)
        return header(_KEY, len(raw)) + raw

    return _sized(tag(number, BYTES), write)


_SCALARS: Final[dict[str, Callable[[int], Writer]]] = {
    "string": _string,
    "bool": _bool,
    "int32": _integer,
    "int64": _integer,
    "float64": _float,
    "bytes": _bytes,
    "time": _time,
    "microTime": _time,
    "duration": _duration,
    "quantity": _quantity,
    "intOrString": _int_or_string,
    "raw": _json,
    "fieldsV1": _json,
    "any": _json,
}
