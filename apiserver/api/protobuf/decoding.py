"""Decode messages to objects in JSON form. A reader is compiled once per struct and cached in it.

See `apiserver.api.protobuf.values` for the form of readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver.api.objects import Json
from apiserver.api.protobuf.values import (
    SCALARS,
    Into,
    Message,
    Value,
    assign,
    assign_text,
    compile_message,
    read_string,
)
from apiserver.api.protobuf.wire import BYTES, EOF, WireError, length, skip, varint
from apiserver.api.schema.language import Field, ListOf, MapOf, OwnForm, Scalar, Struct, Type
from apiserver.api.values.depth import MAX_DEPTH, TOO_DEEP, is_too_deep

__all__ = ["decode"]


def decode(schema: Struct, data: bytes) -> Json:
    """Decode a message to JSON form. Absent fields stay absent. Raise WireError."""
    out: Json = {}
    try:
        message_of(schema)(data, out)
    except IndexError:
        raise WireError(EOF) from None
    except RecursionError:
        raise WireError(TOO_DEEP) from None
    if len(data) > 2 * MAX_DEPTH and is_too_deep(out):
        raise WireError(TOO_DEEP)
    return out


def message_of(struct: Struct) -> Message:
    """Return the compiled reader of a struct."""
    made: Message | None = struct.cache.get("protobuf decode")
    if made is None:
        # A recursive type finds this placeholder in the cache.
        def later(data: bytes, out: Json) -> None:
            message_of(struct)(data, out)

        struct.cache["protobuf decode"] = later
        made = struct.cache["protobuf decode"] = _compile(struct)
    return made


def _compile(struct: Struct) -> Message:
    fields = [item for item in struct.declared if item.number]
    table = {item.number << 3 | wire: into for item in fields for wire, into in _field(item).items()}
    return compile_message(struct.kind, table, {item.number: _go_field(item) for item in fields})


def _go_field(item: Field) -> str:
    """Return a field's name in Go, as errors show it.

    An embedded field is named after its type, others by the capitalized JSON name.
    """
    if item.inline or item.name == "metadata":
        return getattr(item.type, "kind", item.name)
    name = item.name
    return name.upper() if name in ("uid", "ip", "id") else name[:1].upper() + name[1:]


def _field(item: Field) -> dict[int, Into]:
    """Return the readers of a field by wire type."""
    name, of = item.name, item.type
    if isinstance(of, Struct):
        return {BYTES: _embedded(message_of(of)) if item.inline else _nested(name, message_of(of))}
    if isinstance(of, MapOf):
        return {BYTES: _map(name, of.value)}
    if isinstance(of, ListOf):
        if of.go:
            return {BYTES: _nested_list(name, of.item)}
        wire, read = _value(of.item)
        readers = {wire: _appended(name, read)}
        if wire != BYTES:
            readers[BYTES] = _packed(name, read)
        return readers
    wire, read = _value(of)
    return {wire: assign_text(name) if of.name == "string" and not item.pointer else assign(name, read)}


def _value(type: Type) -> tuple[int, Value]:
    """Return wire type and reader of a single value: a list item, a map value or a field."""
    if isinstance(type, Struct):
        return BYTES, _fresh(message_of(type))
    if isinstance(type, ListOf):
        return BYTES, _list_message(type.item)
    if isinstance(type, Scalar) and type.own is not None:
        return BYTES, _own(type.own)
    if not isinstance(type, Scalar) or type.name not in SCALARS:
        raise TypeError(f"{type!r} has no protobuf form")
    return SCALARS[type.name]


def _own(form: OwnForm) -> Value:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        at, stop = length(data, at)
        out: Json = {}
        message_of(form.message)(data[at:stop], out)
        return form.closed(out), stop

    return read


def _appended(name: str, read: Value) -> Into:
    def into(data: bytes, at: int, out: Json) -> int:
        value, at = read(data, at)
        found = out.get(name)
        if found is None:
            out[name] = [value]
        else:
            found.append(value)
        return at

    return into


def _packed(name: str, read: Value) -> Into:
    """Return a reader for packed numbers: many behind one tag, as other writers may send them."""

    def into(data: bytes, at: int, out: Json) -> int:
        at, stop = length(data, at)
        part, here = data[at:stop], 0
        found = out.setdefault(name, [])
        while here < len(part):
            value, here = read(part, here)
            found.append(value)
        return stop

    return into


def _nested(name: str, message: Message) -> Into:
    """Return a reader for a nested message. A repeated message is merged into one."""

    def into(data: bytes, at: int, out: Json) -> int:
        at, stop = length(data, at)
        inner = out.get(name)
        if inner is None:
            inner = out[name] = {}
        message(data[at:stop], inner)
        return stop

    return into


def _embedded(message: Message) -> Into:
    """Return a reader for an embedded struct. Its fields are set on the outer object."""

    def into(data: bytes, at: int, out: Json) -> int:
        at, stop = length(data, at)
        message(data[at:stop], out)
        return stop

    return into


def _nested_list(name: str, item: Type) -> Into:
    """Return a reader for a field of a named list type (Verbs). A repeated field extends the list."""
    read = _list_message(item)

    def into(data: bytes, at: int, out: Json) -> int:
        items, at = read(data, at)
        out.setdefault(name, []).extend(items)
        return at

    return into


def _list_message(item: Type) -> Value:
    """Return a reader for a named list type (Verbs, ExtraValue): a message with the items as its only field."""
    wire, read = _value(item)
    message = compile_message("List", {1 << 3 | wire: _appended("items", read)}, {1: "Items"})

    def read_list(data: bytes, at: int) -> tuple[list[Any], int]:
        at, stop = length(data, at)
        out: Json = {}
        message(data[at:stop], out)
        return out.get("items", []), stop

    return read_list


def _map(name: str, type: Type) -> Into:
    wire, read = _value(type)
    value_key = 2 << 3 | wire
    zero = _zero(type)

    def entry(part: bytes) -> tuple[str, Any]:
        at = 0
        key, value = "", None
        while at < len(part):
            mark, at = varint(part, at)
            if mark == 0x0A:
                key, at = read_string(part, at)
            elif mark == value_key:
                value, at = read(part, at)
            else:
                at = skip(part, at, mark)
        return key, zero() if value is None else value

    def into(data: bytes, at: int, out: Json) -> int:
        at, stop = length(data, at)
        found = out.get(name)
        if found is None:
            found = out[name] = {}
        if data[at : at + 1] == b"\x0a":
            # The form of all common writers: a short key, then the value, then the end.
            middle = at + 2 + data[at + 1]
            if middle < min(stop, at + 130) and data[middle] == value_key:
                value, end = read(data, middle + 1)
                if end == stop and value is not None:
                    found[data[at + 2 : middle].decode("utf-8", "replace")] = value
                    return stop
        key, value = entry(data[at:stop])
        found[key] = value
        return stop

    return into


def _zero(type: Type) -> Callable[[], Any]:
    """Return a factory for the default of a map entry without a value."""
    if isinstance(type, Struct):
        return dict
    if isinstance(type, ListOf):
        return list
    zero = {"quantity": "0", "bool": False, "int32": 0, "int64": 0, "intOrString": 0}.get(getattr(type, "name", ""), "")
    return lambda: zero


def _fresh(message: Message) -> Value:
    def read(data: bytes, at: int) -> tuple[Json, int]:
        at, stop = length(data, at)
        out: Json = {}
        message(data[at:stop], out)
        return out, stop

    return read
