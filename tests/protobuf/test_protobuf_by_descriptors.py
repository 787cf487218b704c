"""Our messages against Google's implementation, built from the same schemas: each reads what the other writes."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api import protobuf
from apiserver.api.codec.codec import decode
from apiserver.api.schema.language import BYTES, INT32, INT64, STRING, Field, ListOf, MapOf, Scalar, Struct, Type, field
from apiserver.resources import CATALOG
from tests.codec.schema_objects import arbitrary, full

pytest.importorskip("google.protobuf", reason="Google's protobuf is not installed")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SCHEMAS = [version.schema for resource in CATALOG for version in resource.versions]
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bool": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "bytes": _FIELD.TYPE_BYTES,
    "float64": _FIELD.TYPE_DOUBLE,
}
_TIME = Struct("test.Time", (field("seconds", 1, INT64), field("nanos", 2, INT32)))
_RAW = Struct("test.Raw", (field("raw", 1, BYTES),))
#: Leaf types that are messages on the wire.
_MESSAGES = {
    "time": _TIME,
    "microTime": _TIME,
    "raw": _RAW,
    "fieldsV1": _RAW,
    "any": _RAW,
    "quantity": Struct("test.Quantity", (field("string", 1, STRING),)),
    "intOrString": Struct(
        "test.IntOrString", (field("type", 1, INT64), field("intVal", 2, INT32), field("strVal", 3, STRING))
    ),
}


def _name(item: Field) -> str:
    """Return a field's name as an identifier, for a descriptor."""
    return re.sub(r"\W", "_", item.name) or "embedded"


class Descriptors:
    """Message classes of structs, described from their schemas."""

    def __init__(self) -> None:
        self._file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="k", syntax="proto2")
        self._names: dict[int, str] = {}
        self._roots = {id(struct): self._add(struct) for struct in SCHEMAS}
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self._file)
        self._pool = pool

    def of(self, struct: Struct) -> Any:
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(self._roots[id(struct)][1:]))

    def _add(self, struct: Struct) -> str:
        known = self._names.get(id(struct))
        if known is not None:
            return known
        name = f"M{len(self._names)}"
        self._names[id(struct)] = f".k.{name}"
        described = descriptor_pb2.DescriptorProto(name=name)
        for item in struct.declared:
            if item.number:
                self._describe(described, item, f".k.{name}")
        self._file.message_type.append(described)
        return f".k.{name}"

    def _describe(self, described: Any, item: Field, outer: str) -> None:
        name = _name(item)
        made = described.field.add(name=name, number=item.number, json_name=name, label=_FIELD.LABEL_OPTIONAL)
        of = item.type
        if isinstance(of, MapOf):
            entry = described.nested_type.add()
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
            self._type(entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL), of.value)
            # A map is a list of entries, whose type has to be named after the field.
            entry.name = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
            made.label, made.type, made.type_name = _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE, f"{outer}.{entry.name}"
        elif isinstance(of, ListOf) and not of.go:
            made.label = _FIELD.LABEL_REPEATED
            self._type(made, of.item)
        else:
            self._type(made, of)

    def _type(self, made: Any, of: Type) -> None:
        if isinstance(of, ListOf):
            of = Struct("test.List", (field("items", 1, ListOf(of.item)),))
        elif isinstance(of, Scalar) and of.own is not None:
            of = of.own.message
        elif isinstance(of, Scalar) and of.name in _MESSAGES:
            of = _MESSAGES[of.name]
        if isinstance(of, Struct):
            made.type, made.type_name = _FIELD.TYPE_MESSAGE, self._add(of)
        else:
            assert isinstance(of, Scalar)
            made.type = _SCALARS[of.name]


@pytest.fixture(scope="module")
def descriptors() -> Descriptors:
    return Descriptors()


def check(message: Any, struct: Struct, obj: Any) -> None:
    """Assert that every field of the message has the object's value."""
    for item in struct.declared:
        if not item.number:
            continue
        name = _name(item)
        value = obj if item.inline else obj.get(item.name)
        if isinstance(item.type, ListOf | MapOf):
            found = getattr(message, name)
            assert len(found) == len(value or ()), item
            if isinstance(item.type, ListOf):
                for one, expected in zip(found, value or (), strict=True):
                    check_value(one, item.type.item, expected)
            else:
                for key, expected in (value or {}).items():
                    check_value(found[key], item.type.value, expected)
            continue
        assert message.HasField(name) is (value is not None or not (item.pointer or item.type is BYTES)), (struct, item)
        if value is not None:
            check_value(getattr(message, name), item.type, value)


def check_value(found: Any, of: Type, value: Any) -> None:
    if isinstance(of, Struct):
        check(found, of, value)
    elif isinstance(of, Scalar) and of.own is not None:
        check(found, of.own.message, of.own.opened(value))
    elif isinstance(of, ListOf):
        assert list(found.items) == (value or [])
    elif of.name == "bytes":  # type: ignore[union-attr]
        assert found == b64decode(value)
    elif of.name in ("raw", "fieldsV1", "any"):  # type: ignore[union-attr]
        assert orjson.loads(found.raw) == value
    elif of.name == "quantity":  # type: ignore[union-attr]
        assert found.string == value
    elif of.name == "intOrString":  # type: ignore[union-attr]
        assert (found.type, found.strVal or found.intVal) == ((1, value or 0) if isinstance(value, str) else (0, value))
    elif of.name not in ("time", "microTime"):  # type: ignore[union-attr]
        assert found == value


@pytest.mark.parametrize("kind", SCHEMAS, ids=lambda kind: kind.name)
def test_another_implementation_reads_every_field(descriptors: Descriptors, kind: Struct) -> None:
    obj = decode(kind, full(kind)).obj
    message = descriptors.of(kind).FromString(protobuf.encode(kind, obj))
    check(message, kind, obj)
    # What it writes is ours again, to the byte: fields by number, map entries by key.
    assert message.SerializeToString(deterministic=True) == protobuf.encode(kind, obj)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_another_implementation_reads_and_writes_any_object(descriptors: Descriptors, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(SCHEMAS))
    obj = decode(kind, data.draw(arbitrary(kind)) or {}).obj
    ours = protobuf.encode(kind, obj)
    message = descriptors.of(kind).FromString(ours)
    check(message, kind, obj)
    theirs = message.SerializeToString()
    assert protobuf.decode(kind, theirs) == protobuf.decode(kind, ours)
