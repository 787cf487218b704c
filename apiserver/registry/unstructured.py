"""What upstream says of a strategic merge whose result does not fit its type.

Such a result is read by a converter of its own (runtime.DefaultUnstructuredConverter), not by the JSON decoder, and its errors
have their own words. The result itself is decoded here like any other; only when that fails, the words are found.
"""

from __future__ import annotations

from typing import Any

from apiserver.api.schema import ListOf, MapOf, Scalar, Struct, Type

__all__ = ["go_format", "misfit"]

_NUMBERS = ("int32", "int64", "float64")


def misfit(type_: Type, value: Any) -> str | None:
    """The converter's words for the first value that does not fit, in the type's order of fields; None if all do."""
    if value is None:
        return None
    if isinstance(type_, Struct):
        return _struct_misfit(type_, value)
    if isinstance(type_, MapOf):
        if not isinstance(value, dict):
            return f"cannot restore map from {_kind(value)}"
        return _first(misfit(type_.value, value[key]) for key in sorted(value))
    if isinstance(type_, ListOf):
        if not isinstance(value, list):
            return f"cannot restore slice from {_kind(value)}"
        return _first(misfit(type_.item, item) for item in value)
    return _scalar_misfit(type_, value)


def _struct_misfit(struct: Struct, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"cannot restore struct from: {_kind(value)}"
    return _first(misfit(item.type, value[name]) for name, item in struct.fields.items() if name in value)


def _first(found: Any) -> str | None:
    return next((text for text in found if text is not None), None)


def _scalar_misfit(type_: Scalar, value: Any) -> str | None:
    kind, name = _kind(value), type_.name
    if name == "string":
        return None if isinstance(value, str) else _cannot(kind, type_.go)
    if name == "bool":
        return None if isinstance(value, bool) else _cannot(kind, type_.go)
    if name in _NUMBERS:
        if isinstance(value, int | float) and not isinstance(value, bool) and (name == "float64" or float(value).is_integer()):
            return None
        return _cannot(kind, type_.go) if kind in ("int64", "float64") else f"unrecognized type: {type_.go}"
    if name == "bytes" and not isinstance(value, str):
        return f"cannot restore slice from {kind}"
    return None


def _cannot(given: str, wanted: str) -> str:
    return f"cannot convert {given} to {wanted}" if given not in ("map", "slice") else f"unrecognized type: {wanted}"


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    return "slice" if isinstance(value, list) else "map"


def go_format(value: Any) -> str:
    """Go's %+v of decoded JSON: `map[data:map[a:1 b:<nil>]]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_format(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_format, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
