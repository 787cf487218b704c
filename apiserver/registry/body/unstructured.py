"""Conversion of untyped values to typed objects, for results of strategic merge and apply.

Upstream uses a converter of its own for them (runtime.DefaultUnstructuredConverter) instead of the JSON decoder. It has
other error texts, accepts whole fractions as integers, wraps integers that are too large, names unknown fields without
map keys, and rewrites raw extensions with sorted keys. `restore` does the same, so that the result can be decoded like
any other object.
"""

from __future__ import annotations

from typing import Any

import orjson

from apiserver.api.codec.codec import read_ordinary
from apiserver.api.objects import Json
from apiserver.api.patch.goformat import go_format
from apiserver.api.schema.language import ListOf, MapOf, Scalar, Struct, Type
from apiserver.api.schema.scalars import raw_names
from apiserver.api.values.go_json import base64_error, go_kind, unmarshal_error
from apiserver.api.values.quantity import Quantity
from apiserver.api.values.times import micro_time, time

__all__ = ["TypeMismatch", "find_type_mismatch", "restore", "restore_changes"]


_BITS = {"int32": 32, "int64": 64}
#: The range of integers in Go's decoder. Larger ones become floats.
_INT64 = (-(2**63), 2**63 - 1)
_KINDS = {bool: "bool", int: "int64", float: "float64", str: "string", list: "slice", dict: "map"}


class TypeMismatch(ValueError):
    """Error: a value does not fit its type. The text is the converter's."""


def find_type_mismatch(type_: Type, value: Any) -> str | None:
    """Return the converter's error for the first misfit in the type's order of fields, or None."""
    try:
        restore(type_, value, [])
    except TypeMismatch as error:
        return str(error)
    return None


def restore(type_: Type, value: Any, unknown: list[str], path: str = "") -> Any:
    """Return a copy of a value in which everything fits its type and unknown fields are missing.

    The paths of unknown fields are added to `unknown`.
    Raises TypeMismatch.
    """
    if value is None:
        return None
    if isinstance(type_, Struct):
        return _struct(type_, value, unknown, path)
    if isinstance(type_, MapOf):
        if not isinstance(value, dict):
            raise TypeMismatch(f"cannot restore map from {_kind(value)}")
        return {key: restore(type_.value, value[key], unknown, path) for key in sorted(value)}
    if isinstance(type_, ListOf):
        if not isinstance(value, list):
            raise TypeMismatch(f"cannot restore slice from {_kind(value)}")
        return [restore(type_.item, item, unknown, f"{path}[{index}]") for index, item in enumerate(value)]
    return _scalar(type_, value)


def restore_changes(schema: Struct, value: Json, before: Json, unknown: list[str]) -> Json:
    """Restore a patched object in normal form. Fields that the patch left unchanged already fit.

    Raw values below such fields are still rewritten.
    """
    left = {
        name
        for name, item in value.items()
        if before.get(name) is item and name in schema.fields and not raw_names(schema.fields[name].type)
    }
    changed = {name: item for name, item in value.items() if name not in left}
    if read_ordinary(schema, changed) is not None:
        return value
    made = restore(schema, changed, unknown)
    return {name: value[name] if name in left else made[name] for name in value if name in left or name in made}


def _struct(struct: Struct, value: Any, unknown: list[str], path: str) -> Json:
    if not isinstance(value, dict):
        raise TypeMismatch(f"cannot restore struct from: {_kind(value)}")
    prefix = f"{path}." if path else ""
    made = {
        name: restore(item.type, value[name], unknown, prefix + name)
        for name, item in struct.fields.items()
        if name in value
    }
    if len(made) < len(value):
        unknown += [prefix + name for name in value if name not in made]
    return made


def _scalar(type_: Scalar, value: Any) -> Any:
    name = type_.name
    if name == "string" or name == "bool":
        return _plain(type_, value, str if name == "string" else bool)
    if name in _BITS:
        return _integer(type_, value, _BITS[name])
    if name == "float64" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeMismatch(f"unrecognized type: {name}")
    if name == "bytes":
        return _bytes(value)
    if name == "raw" or name == "any":
        return rewrite_raw(value)
    _parse(name, value)
    return value


def _plain(type_: Scalar, value: Any, wanted: type) -> Any:
    """Return a string or boolean. Raise TypeMismatch. An integer for a string has an error of its own."""
    if isinstance(value, wanted):
        return value
    if wanted is str and _kind(value) == "int64":
        raise TypeMismatch(f"cannot convert int64 to {type_.go}")
    raise TypeMismatch(f"unrecognized type: {type_.name}")


def _integer(type_: Scalar, value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeMismatch(f"unrecognized type: {type_.name}")
    if _kind(value) == "float64":
        if not float(value).is_integer():
            raise TypeMismatch(f"cannot convert float64 to {type_.go}")
        # A float beyond the range of its integer becomes the least integer.
        whole = int(value)
        value = whole if _INT64[0] <= whole <= _INT64[1] else _INT64[0]
    half = 1 << (bits - 1)
    return (int(value) + half) % (1 << bits) - half


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        raise TypeMismatch(f"cannot restore slice from {_kind(value)}")
    wrong = base64_error(value)
    if wrong:
        raise TypeMismatch(f"error decoding from json: {wrong}")
    return value


def _parse(name: str, value: Any) -> None:
    """Validate a value of a type with a JSON parser of its own."""
    try:
        if name == "quantity":
            # A whole number may have more digits than the encoder writes.
            Quantity.parse(
                value.strip()
                if isinstance(value, str)
                else str(value)
                if type(value) is int
                else orjson.dumps(value).decode()
            )
        elif name in ("time", "microTime", "duration"):
            if not isinstance(value, str):
                raise TypeMismatch(unmarshal_error(value, "string"))
            if name != "duration":
                (time if name == "time" else micro_time)(value)
        elif (
            name == "intOrString"
            and not isinstance(value, str)
            and (isinstance(value, bool) or not isinstance(value, int))
        ):
            shown = f" {go_format(value)}" if isinstance(value, float) else ""
            raise TypeMismatch(f"json: cannot unmarshal {go_kind(value)}{shown} into Go value of type int32")
    except ValueError as error:
        raise TypeMismatch(str(error)) from None


def rewrite_raw(value: Any) -> Any:
    """Return an untyped value as Go writes it: keys sorted, whole numbers without a fraction."""
    if isinstance(value, dict):
        return {key: rewrite_raw(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [rewrite_raw(item) for item in value]
    if _kind(value) == "float64":
        number = float(value)
        return int(number) if number.is_integer() and _INT64[0] <= number < _INT64[1] else number
    return value


def _kind(value: Any) -> str:
    if type(value) is int and not _INT64[0] <= value <= _INT64[1]:
        return "float64"
    return next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "invalid")
