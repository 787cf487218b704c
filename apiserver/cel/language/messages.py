"""Message types, whose values expressions construct: `Object{metadata: Object.metadata{labels: {"a": "b"}}}`.

A `Messages` function returns the type of a name. Each language has its own set. A value is a map that knows its type.
Facts: apiserver, pkg/cel/mutation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.cel.language.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    struct,
)
from apiserver.cel.language.values import CelError, Duration, Timestamp, Uint

__all__ = ["JSON_PATCH", "OBJECT", "Message", "Messages", "Record", "patch_messages", "well_known"]


class Record(dict[str, Any]):
    """A value of a message type: the given fields."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.type_name = type_name


class Message:
    """A message type: the types of its fields, and the construction of values."""

    def __init__(self, type_: Type) -> None:
        self.type = type_

    @property
    def name(self) -> str:
        return self.type.name

    def field(self, name: str) -> Type | None:
        """Return the type of a field, or None if there is no such field."""
        raise NotImplementedError

    def make(self, fields: dict[str, Any]) -> Any:
        """Construct a value. Raise CelError."""
        return Record(self.name, fields)


Messages = Callable[[str], "Message | None"]


class _WellKnown(Message):
    """A message of protobuf itself, whose values are plain CEL values."""

    def __init__(self, name: str, type_: Type, fields: dict[str, Type], make: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__(type_)
        self._name, self._fields, self._make = name, fields, make

    @property
    def name(self) -> str:
        return self._name

    def field(self, name: str) -> Type | None:
        return self._fields.get(name)

    def make(self, fields: dict[str, Any]) -> Any:
        return self._make(fields)


_PREFIX: Final = "google.protobuf."
_NANOS: Final = 1_000_000_000


def _wrapper(type_: Type, zero: Any, least: int = 0, most: int = 0) -> tuple[Type, dict[str, Type], Any]:
    """Declare a message with one value, limited to a range for numbers."""

    def make(fields: dict[str, Any]) -> Any:
        value = fields.get("value", zero)
        if most and value is not None and not least <= value <= most:
            raise CelError("integer overflow" if least else "unsigned integer overflow")
        return value

    return type_, {"value": type_}, make


def _moment(fields: dict[str, Any]) -> Timestamp:
    return Timestamp(fields.get("seconds", 0) * _NANOS + fields.get("nanos", 0))


def _span(fields: dict[str, Any]) -> Duration:
    return Duration(fields.get("seconds", 0) * _NANOS + fields.get("nanos", 0))


def _value(fields: dict[str, Any]) -> Any:
    """Return the value of a oneof; the last given field counts."""
    value = None
    for name, given in fields.items():
        value = None if name == "null_value" else given
    return value


_MEMBERS: Final = map_of(STRING, DYN)
_ELEMENTS: Final = list_of(DYN)
_WELL_KNOWN: Final[dict[str, tuple[Type, dict[str, Type], Callable[[dict[str, Any]], Any]]]] = {
    "BoolValue": _wrapper(BOOL, False),
    "BytesValue": _wrapper(BYTES, b""),
    "DoubleValue": _wrapper(DOUBLE, 0.0),
    "FloatValue": _wrapper(DOUBLE, 0.0),
    "Int32Value": _wrapper(INT, 0, -(1 << 31), (1 << 31) - 1),
    "Int64Value": _wrapper(INT, 0),
    "StringValue": _wrapper(STRING, ""),
    "UInt32Value": _wrapper(UINT, Uint(0), 0, (1 << 32) - 1),
    "UInt64Value": _wrapper(UINT, Uint(0)),
    "Duration": (DURATION, {"seconds": INT, "nanos": INT}, _span),
    "Timestamp": (TIMESTAMP, {"seconds": INT, "nanos": INT}, _moment),
    "Struct": (_MEMBERS, {"fields": _MEMBERS}, lambda fields: fields.get("fields", {})),
    "ListValue": (_ELEMENTS, {"values": _ELEMENTS}, lambda fields: fields.get("values", [])),
    "Value": (
        DYN,
        {
            "null_value": INT,
            "number_value": DOUBLE,
            "string_value": STRING,
            "bool_value": BOOL,
            "struct_value": _MEMBERS,
            "list_value": _ELEMENTS,
        },
        _value,
    ),
    "Empty": (struct(f"{_PREFIX}Empty"), {}, lambda fields: Record(f"{_PREFIX}Empty", fields)),
}


def well_known(name: str) -> Message | None:
    """Return a message available in every language."""
    if not name.startswith(_PREFIX):
        return None
    made = _WELL_KNOWN.get(name[len(_PREFIX) :])
    return None if made is None else _WellKnown(name, *made)


OBJECT: Final = struct("Object")
JSON_PATCH: Final = struct("JSONPatch")
#: The type of unknown fields, which accept only values of dynamic type.
_NOTHING: Final = struct("")
_PATCH_TEXTS: Final = ("op", "path", "from")


class _Object(Message):
    """A part of an object, named by its path: Object.spec.template.

    Any field may be given. Types are compared with the schema when the value is applied.
    """

    def field(self, name: str) -> Type | None:
        return DYN


class _JsonPatch(Message):
    """One operation of a JSON patch."""

    def field(self, name: str) -> Type | None:
        return STRING if name in _PATCH_TEXTS else DYN if name == "value" else _NOTHING

    def make(self, fields: dict[str, Any]) -> Any:
        for name, value in fields.items():
            if name in _PATCH_TEXTS and not isinstance(value, str):
                raise CelError(f"unexpected type {type(value).__name__} for JSONPatchType '{name}' field")
            if name not in _PATCH_TEXTS and name != "value":
                raise CelError(f"unexpected JSONPatchType field: {name}")
        return super().make(fields)


def patch_messages(name: str) -> Message | None:
    """Return a message type of mutations, or one available in every language."""
    if name == JSON_PATCH.name:
        return _JsonPatch(JSON_PATCH)
    if name == OBJECT.name or name.startswith(f"{OBJECT.name}."):
        return _Object(struct(name))
    return well_known(name)
