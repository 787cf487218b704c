"""Declare structural schemas as CEL types with bounds for costs, and convert values to these types.

Facts: apiserver, pkg/cel/common/{schemas,values}.go and pkg/cel/escaping.go. Fields whose type CEL cannot express are
not declared, and hidden in values. Names that are no identifiers are escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.cel.cost.estimate import Bounds
from apiserver.cel.language.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    struct,
)
from apiserver.cel.language.values import CelError, KeyedList, SetList
from apiserver.cel.library.conversions import string_to_duration, string_to_timestamp
from apiserver.cel.syntax.lexer import RESERVED

__all__ = ["MOST_BYTES", "RESERVED", "DeclaredType", "declare_type", "escape_name", "value_of"]


#: Bytes of the largest request; limits sizes without a bound in the schema.
MOST_BYTES: Final = 3 * 1024 * 1024
_SPECIAL: Final = re.compile(r"__|[-./]")
_WORDS: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME: Final = re.compile(r"[a-zA-Z_.\-/][a-zA-Z0-9_.\-/]*")
_TEXTS: Final[dict[str, tuple[Type, int, int]]] = {
    "duration": (DURATION, 3, 32),
    "date": (TIMESTAMP, 12, 12),
    "date-time": (TIMESTAMP, 21, 32),
}


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A declared type: its CEL type, cost bounds, the bytes of its smallest value, and its fields or element."""

    type: Type
    bounds: Bounds
    least: int
    fields: dict[str, DeclaredType] = field(default_factory=dict)
    element: DeclaredType | None = None

    def structs(self) -> dict[str, dict[str, Type]]:
        """Return the fields of all struct types in it, by type name."""
        found: dict[str, dict[str, Type]] = {}
        if self.type.kind == "struct":
            found[self.type.name] = {name: item.type for name, item in self.fields.items()}
        for below in (*self.fields.values(), *((self.element,) if self.element else ())):
            found |= below.structs()
        return found


def escape_name(name: str) -> str | None:
    """Return a property's name as an identifier, or None if it cannot be escaped."""
    if name in RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return _SPECIAL.sub(lambda match: _WORDS[match[0]], name)


def with_identity(schema: Json) -> Json:
    """Add kind, apiVersion and the names in metadata to the schema of a Kubernetes object."""
    text = {"type": "string"}
    metadata = {"type": "object", "properties": {"name": text, "generateName": text}}
    own = {"kind": text, "apiVersion": text, "metadata": metadata}
    return {**schema, "properties": {**(schema.get("properties") or {}), **own}}


def declare_type(schema: Json, name: str, *, root: bool = False) -> DeclaredType | None:
    """Return the type of a schema, or None if rules cannot use its values. `name` names the struct type."""
    if schema.get("x-kubernetes-int-or-string"):
        most = schema.get("maxLength")
        return DeclaredType(DYN, Bounds(MOST_BYTES - 2 if most is None else max(most, 0) * 4), 1)
    if root or schema.get("x-kubernetes-embedded-resource"):
        schema = with_identity(schema)
    match schema.get("type"):
        case "array":
            return _list(schema, name)
        case "object":
            return _map(schema, name) if isinstance(schema.get("additionalProperties"), dict) else _struct(schema, name)
        case "string":
            return _text(schema)
        case "boolean":
            return DeclaredType(BOOL, Bounds(), 4)
        case "number":
            return DeclaredType(DOUBLE, Bounds(), 1)
        case "integer":
            return DeclaredType(INT, Bounds(), 1)
    return None


def _list(schema: Json, name: str) -> DeclaredType | None:
    items = schema.get("items")
    element = declare_type(items, f"{name}.@idx") if isinstance(items, dict) else None
    if element is None:
        return None
    given = schema.get("maxItems")
    most = (MOST_BYTES - 2) // (element.least + 1) if given is None else max(given, 0)
    return DeclaredType(list_of(element.type), Bounds(most, element=element.bounds), 2, element=element)


def _map(schema: Json, name: str) -> DeclaredType | None:
    element = declare_type(schema["additionalProperties"], f"{name}.@elem")
    if element is None:
        return None
    given = schema.get("maxProperties")
    most = (MOST_BYTES - 2) // (element.least + 6) if given is None else max(given, 0)
    bounds = Bounds(most, key=Bounds(), element=element.bounds)
    return DeclaredType(map_of(STRING, element.type), bounds, 2, element=element)


def _struct(schema: Json, name: str) -> DeclaredType:
    fields: dict[str, DeclaredType] = {}
    required, least = set(schema.get("required") or ()), 2
    for key, part in (schema.get("properties") or {}).items():
        identifier = escape_name(key)
        made = declare_type(part, f"{name}.{identifier or key}")
        if made is None:
            continue
        if identifier is not None:
            fields[identifier] = made
        if key in required and part.get("default") is None:
            least += len(key.encode()) + made.least + 4
    bounds = Bounds(fields={key: item.bounds for key, item in fields.items()})
    return DeclaredType(struct(name), bounds, least, fields)


def _text(schema: Json) -> DeclaredType:
    form, most = schema.get("format"), schema.get("maxLength")
    if form in _TEXTS:
        type_, least, size = _TEXTS[form]
        return DeclaredType(type_, Bounds(size), least)
    if form == "byte":
        return DeclaredType(BYTES, Bounds(MOST_BYTES - 2 if most is None else max(most, 0)), 2)
    if most is not None:
        return DeclaredType(STRING, Bounds(max(most, 0) * 4), 2)
    if enum := schema.get("enum"):
        return DeclaredType(
            STRING, Bounds(max((len(item.encode()) for item in enum if isinstance(item, str)), default=0)), 2
        )
    return DeclaredType(STRING, Bounds(MOST_BYTES - 2), 2)


def value_of(value: Any, schema: Json, *, root: bool = False) -> Any:
    """Convert a value for rules: parse times and durations, omit hidden fields. Raise CelError."""
    if value is None:
        if schema.get("nullable"):
            return None
        raise CelError("invalid data, got null for schema with nullable=false")
    if schema.get("x-kubernetes-int-or-string"):
        return value
    if root or schema.get("x-kubernetes-embedded-resource"):
        schema = with_identity(schema)
    match schema.get("type"):
        case "object" if isinstance(value, dict):
            return _map_value(value, schema)
        case "array" if isinstance(value, list):
            items = schema.get("items") or {}
            made = [value_of(item, items) for item in value]
            match schema.get("x-kubernetes-list-type"):
                case "set":
                    return SetList(made)
                case "map":
                    keys = (escape_name(key) or key for key in schema.get("x-kubernetes-list-map-keys") or ())
                    return KeyedList(made, tuple(keys))
            return made
        case "string" if isinstance(value, str):
            return _text_value(value, schema.get("format"))
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case "integer" if isinstance(value, float) and value.is_integer():
            return int(value)
    return value


def _map_value(value: Json, schema: Json) -> Json:
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        return {key: value_of(item, others) for key, item in value.items()}
    made: Json = {}
    properties = schema.get("properties") or {}
    for key, item in value.items():
        part, identifier = properties.get(key), escape_name(key)
        if part is None or identifier is None or declare_type(part, "x") is None:
            continue
        if item is None:
            continue  # nullable or not: upstream treats a null field as missing
        made[identifier] = value_of(item, part)
    return made


def _text_value(value: str, form: str | None) -> Any:
    if form == "duration":
        return string_to_duration(value)
    if form in ("date", "date-time"):
        return string_to_timestamp(value if form == "date-time" else f"{value}T00:00:00Z")
    if form == "byte":
        import base64
        import binascii

        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise CelError(f"base64 decoding error: {error}") from None
    return value
