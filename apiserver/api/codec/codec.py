"""From bytes to an object in normal form, and back.

`loads` parses a body, `decode` brings a value into the normal form of a schema. Normal form is what upstream would
return after storing the object (except for empty lists that are always written: see
`apiserver.registry.body.convert.normalizer_of`): unknown fields removed, zero values written or left out as Go's
encoding does, quantities and times canonical, map keys sorted, struct fields in schema order. Decoding is idempotent: a
value in normal form is returned equal.

The ordinary case is fast. A reader is compiled once per struct. It raises `UnusualValue` at anything unusual (an
unknown field, a wrong type, a bad quantity). Only then `strictness` walks the value again, collects the error texts,
and returns a value without oddities.

Facts: Go's encoding/json with the rules of sigs.k8s.io/json (case-sensitive names, integers, separate strict errors).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from secrets import token_hex
from typing import Any, Final

import orjson

from apiserver.api.codec.bodies import Body, DecodeError, interpret, loads
from apiserver.api.schema.language import Field, ListOf, MapOf, OwnForm, Scalar, Struct, Type
from apiserver.api.schema.scalars import AS_IT_IS, READERS, Reader, UnusualValue, raw_names
from apiserver.api.values.go_json import Pairs, RawObject, go_kind, parse_with_spans

__all__ = [
    "Body",
    "DecodeError",
    "Decoded",
    "copy_json",
    "decode",
    "decode_changed",
    "decode_exactly",
    "encode",
    "encode_exactly",
    "encode_plain",
    "go_kind",
    "interpret",
    "loads",
    "read_ordinary",
    "read_ordinary_changes",
    "zero",
]


class Decoded:
    """A decoded object: `obj` is in normal form.

    `problems` are the strict errors in upstream's order (`unknown field "spec.x"`); `unknown` and `duplicates` are
    their paths.
    """

    __slots__ = ("duplicates", "obj", "problems", "unknown")

    def __init__(self, obj: Any, problems: list[str], unknown: list[str], duplicates: list[str]) -> None:
        self.obj, self.problems, self.unknown, self.duplicates = obj, problems, unknown, duplicates


def encode(obj: Any) -> bytes:
    """Encode an object in normal form as JSON."""
    return orjson.dumps(obj)


def copy_json(value: Any) -> Any:
    """Return a deep copy of JSON. Raw extensions become compact."""
    try:
        return orjson.loads(orjson.dumps(value))
    except TypeError:  # an integer of more than 64 bits, possible in YAML
        return deepcopy(value)


def encode_exactly(obj: Any) -> bytes:
    """Encode an object in normal form with its raw extensions as they were written.

    A raw extension that is not compact is preceded by a blank.
    """
    raws: list[bytes] = []
    text = orjson.dumps(obj, default=partial(_name_raw, raws), option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    return _RAW_NAME.sub(lambda found: raws[int(found[1])], text) if raws else text


#: Placeholder for a raw extension until the rest is encoded. An orjson.Fragment nested in more than about 60 brackets
#: makes orjson 3.13 write beyond the end of its memory.
_RAW: Final = token_hex(8)
_RAW_NAME: Final = re.compile(b'"%b([0-9]+)"' % _RAW.encode())


def _name_raw(raws: list[bytes], value: Any) -> Any:
    if isinstance(value, RawObject):
        if value.text is None:
            return dict(value)
        raws.append(b" " + value.text)
        return f"{_RAW}{len(raws) - 1}"
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def encode_plain(obj: Any) -> bytes | None:
    """Encode an object as `encode_exactly` does if no value in it remembers how it was written.

    Return None for any other object, and for one that is nested too deep.
    """
    try:
        return orjson.dumps(obj, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:
        return None


def decode_exactly(text: bytes) -> Any:
    """Decode what `encode_exactly` wrote. Raw extensions remember the text in which they were written."""
    obj = orjson.loads(text)
    # `find` throughout: `in` first checks whether its operand is a number, which costs more than the search.
    if text.find(b'": {') >= 0 and len(orjson.dumps(obj)) != len(text):
        _restore(obj, parse_with_spans(text))
    return obj


def _restore(value: Any, node: Any) -> None:
    if isinstance(node, Pairs):
        for name, item in node:
            if isinstance(item, Pairs) and item.marked:
                value[name] = RawObject(value[name], item.written)
            else:
                _restore(value[name], item)
    elif isinstance(node, list):
        for part, item in zip(value, node, strict=True):
            _restore(part, item)


def decode(schema: Struct, value: Any, body: Body | None = None) -> Decoded:
    """Decode a value into the normal form of a schema. Raise DecodeError.

    `body` is the request body that the value was parsed from. Without it, repeated keys, numbers and raw values as they
    were written are unknown. `value` may become part of the result.
    """
    if schema.decoder is not None:
        made: Decoded = schema.decoder(value, body)
        return made
    if body is None or not _needs_exact_reading(schema, value, body):
        try:
            return Decoded(reader_of(schema)(value), body.problems if body else [], [], [])
        except UnusualValue:
            pass
    from apiserver.api.codec.strictness import examine

    clean, problems, unknown, duplicates = examine(schema, value, body.text if body else b"")
    obj = reader_of(schema)(clean)
    if body is not None:
        problems = body.problems + problems
    return Decoded(obj, problems, unknown, duplicates)


def decode_changed(schema: Struct, value: dict[str, Any], before: dict[str, Any]) -> Decoded:
    """Decode a value that a patch made of `before`, an object in normal form.

    Fields that the patch left unchanged are not read again.
    """
    if schema.decoder is not None:
        return decode(schema, value)
    made = _read_changed(schema, value, before)
    if made is not None:
        return Decoded(made, [], [], [])
    kept = {name: item for name, item in value.items() if name in before and before[name] is item}
    decoded = decode(schema, {name: item for name, item in value.items() if name not in kept})
    made = decoded.obj | kept
    decoded.obj = {name: made[name] for name in schema.fields if name in made}
    return decoded


def _read_changed(schema: Struct, value: dict[str, Any], before: dict[str, Any]) -> dict[str, Any] | None:
    """Return the normal form of a patched value, or None if it contains anything unusual."""
    entries = schema.cache.get("decode fields")
    if entries is None:
        entries = schema.cache["decode fields"] = {name: _entry(item) for name, item in schema.fields.items()}
    if not entries.keys() >= value.keys():
        return None
    out = {}
    try:
        for name, (mode, plain, read) in entries.items():  # as a reader does, except for unchanged fields
            if name in value:
                item = value[name]
                if name not in before or before[name] is not item:
                    item = item if type(item) is plain else read(item)
                    if not item and mode != _ALWAYS and (item is None or mode != _UNLESS_NULL):
                        continue
                out[name] = item
            elif mode == _ALWAYS:
                out[name] = read(None)
    except UnusualValue:
        return None
    return out


def read_ordinary_changes(schema: Struct, value: dict[str, Any], before: dict[str, Any]) -> dict[str, Any] | None:
    """Return the normal form of an ordinary value that a patch made of `before`, an object in normal form.

    Fields that the patch left unchanged are not read again. Return None for an unusual value and for every kind with
    raw values.
    """
    return None if schema.decoder is not None or raw_names(schema) else _read_changed(schema, value, before)


def read_ordinary(schema: Struct, value: Any) -> Any:
    """Return the normal form of an ordinary value without raw values.

    Return None for any other value; `decode` reads it.
    """
    try:
        made = reader_of(schema)(value)
        text = orjson.dumps(value) if raw_names(schema) else b""
    except (UnusualValue, TypeError):  # orjson writes no integers beyond 64 bits
        return None
    return None if any(name in text for name in raw_names(schema)) else made


def _needs_exact_reading(schema: Struct, value: Any, body: Body) -> bool:
    """Return whether keys may be repeated or raw values may not be compact.

    A body encoded again without repeated keys has as many `":` as before, unless blanks or escapes hide one.
    """
    text = body.text
    if not text:
        return False
    again = body.encoded
    if again == text:
        return False
    if text.count(b'":') != again.count(b'":') or text.find(b'" :') >= 0 or text.find(b"u0022") >= 0:
        return True
    return any(text.find(name) >= 0 for name in raw_names(schema)) and again != text.rstrip(b"\n")


def _reader(type: Type) -> Reader:
    if isinstance(type, Struct):
        return reader_of(type)
    if isinstance(type, ListOf):
        return _list_reader(_reader(type.item))
    if isinstance(type, MapOf):
        return _map_reader(_reader(type.value))
    return READERS[type.name] if type.own is None else _own_reader(type.own)


def _own_reader(form: OwnForm) -> Reader:
    readers: dict[type, Reader] = {}

    def read(value: Any) -> Any:
        if value is None:
            return None
        if not readers:  # later than the declaration of the type, because schemas may contain themselves
            sorts = {"object": dict, "array": list, "bool": bool}
            readers.update({sorts[sort]: _reader(of) for sort, of in form.forms.items()})
        reader = readers.get(type(value))
        if not reader or value == []:
            raise UnusualValue
        return reader(value)

    return read


def _list_reader(read: Reader) -> Reader:
    def read_list(value: Any) -> Any:
        if type(value) is list:
            return [read(item) for item in value]
        if value is None:
            return None
        raise UnusualValue

    return read_list


def _map_reader(read: Reader) -> Reader:
    def read_map(value: Any) -> Any:
        if type(value) is dict:
            if len(value) < 2:
                return {key: read(item) for key, item in value.items()}
            return {key: read(value[key]) for key in sorted(value)}
        if value is None:
            return None
        raise UnusualValue

    return read_map


def _pointer(read: Reader) -> Reader:
    def read_pointer(value: Any) -> Any:
        return None if value is None else read(value)

    return read_pointer


#: When a field is written: unless empty, unless null, always.
_UNLESS_EMPTY, _UNLESS_NULL, _ALWAYS = 0, 1, 2


#: How a field is read: its mode, the Python type whose values need no reader (most fields are strings, so this saves a
#: call), and the reader of any other value.
_Entry = tuple[int, type | None, Reader]


def _entry(item: Field) -> _Entry:
    if isinstance(item.type, Struct):
        read = reader_of(item.type, nullable=item.pointer)
    else:
        read = _reader(item.type)
        if item.pointer and isinstance(item.type, Scalar):
            read = _pointer(read)
    mode = (
        _ALWAYS
        if not item.omit
        else _UNLESS_NULL
        if item.pointer or item.keep_empty or isinstance(item.type, Struct)
        else _UNLESS_EMPTY
    )
    plain = AS_IT_IS.get(item.type.name) if isinstance(item.type, Scalar) and item.type.own is None else None
    return mode, plain, read


def reader_of(struct: Struct, *, nullable: bool = False) -> Reader:
    """Return the compiled reader of a struct. Compile it on first use.

    A `nullable` reader keeps null, other readers replace it by an empty object.
    """
    key = "decode pointer" if nullable else "decode"
    made: Reader | None = struct.cache.get(key)
    if made is None:
        # A recursive type finds this placeholder in the cache.
        def later(value: Any) -> Any:
            return reader_of(struct, nullable=nullable)(value)

        struct.cache[key] = later
        made = struct.cache[key] = _compile(struct, nullable=nullable)
    return made


def _compile(struct: Struct, *, nullable: bool) -> Reader:
    table = {name: _entry(item) for name, item in struct.fields.items()}
    plans: dict[tuple[str, ...], _Plan] = {}

    def read_struct(value: Any) -> Any:
        if type(value) is not dict:
            if value is not None:
                raise UnusualValue
            if nullable:
                return None
            value = {}
        names = tuple(value)
        plan = plans.get(names)
        if plan is None:
            plan = _plan(table, names)
            if len(plans) < _PLANS:
                plans[names] = plan
        steps, missing, order = plan
        out = {}
        for name, mode, plain, read in steps:
            item = value[name]
            made = item if type(item) is plain else read(item)
            if made or mode == _ALWAYS or (made is not None and mode == _UNLESS_NULL):
                out[name] = made
        if order is None:
            return out
        for name, read in missing:
            out[name] = read(None)
        return {name: out[name] for name in order if name in out}

    return read_struct


#: How objects with given names in a given order are read: name and `_Entry` of each; the missing fields that are always
#: written; the names in the order of the schema, None if they are already in order.
_Plan = tuple[tuple[tuple[str, int, type | None, Reader], ...], tuple[tuple[str, Reader], ...], tuple[str, ...] | None]
#: Most plans cached per type. Most of its objects share a few.
_PLANS: Final = 64


def _plan(table: Mapping[str, _Entry], names: tuple[str, ...]) -> _Plan:
    """Return the reading plan for the given field names. Raise UnusualValue for a field that the type lacks."""
    given = set(names)
    if not table.keys() >= given:
        raise UnusualValue
    missing = tuple((name, read) for name, (mode, _, read) in table.items() if mode == _ALWAYS and name not in given)
    order = tuple(name for name, (mode, *_) in table.items() if name in given or mode == _ALWAYS)
    return tuple((name, *table[name]) for name in names), missing, None if order == names else order


def zero(schema: Struct) -> Any:
    """Return the normal form of an empty object."""
    return reader_of(schema)({})
