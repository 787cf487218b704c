"""Decode JSON into typed values with the rules and error texts of Go's encoding/json.

Field names match case-insensitively, unknown fields are ignored, null leaves a field unset, and the first value of a
wrong type in document order is the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from apiserver.api.values.go_json import Literal as Number
from apiserver.api.values.go_json import Pairs, parse_with_spans, syntax_error

_MAX_UINT32: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class GoType:
    """A Go type. `name` is its name in error texts, `element` the type of the items of a slice or map."""

    name: str
    kind: Literal["struct", "slice", "map", "string", "uint32"]
    element: GoType | None = None
    fields: Mapping[str, GoType] = field(default_factory=dict)
    embedded: Mapping[str, str] = field(default_factory=dict)
    """The embedded struct by promoted field; error texts name it."""


STRING: Final = GoType("string", "string")


def decode(content: bytes, type: GoType) -> Any:
    """Decode a document to dicts, lists, strings and numbers. Raise ValueError with Go's text."""
    if problem := syntax_error(content):
        raise ValueError(problem)
    return _decode(parse_with_spans(content), type, "", ())


def _decode(value: Any, type: GoType, struct: str, path: tuple[str, ...]) -> Any:
    if value is None:
        return None
    if type.kind == "struct" and isinstance(value, Pairs):
        return _decode_struct(value, type, path)
    if type.kind == "map" and isinstance(value, Pairs):
        assert type.element is not None
        return {key: _decode(item, type.element, struct, path) for key, item in value}
    if type.kind == "slice" and isinstance(value, list) and not isinstance(value, Pairs):
        assert type.element is not None
        return [_decode(item, type.element, struct, path) for item in value]
    if type.kind == "string" and isinstance(value, str) and not isinstance(value, Number):
        return value
    kind = _kind(value)
    if type.kind == "uint32" and kind == "number":
        if value.isdigit() and int(value) <= _MAX_UINT32:
            return int(value)
        kind = f"number {value}"
    place = f"Go struct field {struct}.{'.'.join(path)}" if path else "Go value"
    raise ValueError(f"json: cannot unmarshal {kind} into {place} of type {type.name}")


def _decode_struct(pairs: Pairs, type: GoType, path: tuple[str, ...]) -> dict[str, Any]:
    struct, names = type.name.rpartition(".")[2], {name.lower(): name for name in type.fields}
    found: dict[str, Any] = {}
    for key, item in pairs:
        name = key if key in type.fields else names.get(key.lower())
        if name is not None:
            place = (*path, type.embedded[name], name) if name in type.embedded else (*path, name)
            value = _decode(item, type.fields[name], struct, place)
            if value is not None or type.fields[name].kind in ("slice", "map"):
                found[name] = value
    return found


def _kind(value: Any) -> str:
    """Return Go's name for the kind of a parsed value."""
    if isinstance(value, Pairs):
        return "object"
    if isinstance(value, Number):
        return "number"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "array"
