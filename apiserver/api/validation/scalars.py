"""Checks of single values, compiled from their fields: texts, numbers, amounts, ports, raw JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    invalid,
    not_supported,
    required,
    too_long,
)
from apiserver.api.objects import Json
from apiserver.api.schema.language import Field, ListOf, MapOf, Scalar, Type
from apiserver.api.schema.limits import Limits
from apiserver.api.validation.formats import FORMATS
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.go_json import RawObject
from apiserver.api.values.quantity import Quantity

__all__ = ["FieldCheck", "bounds", "detail", "raw_size", "says_nothing_unset", "scalar_check", "shown", "unset"]

Errors = list[FieldError]

#: Checks a field of a value: (path of the value, value, stored value, env, errors to extend).
FieldCheck = Callable[[Path, Json, Json | None, Any, Errors], None]
#: Checks an item of a list: (path of the list, index, item, errors to extend).
ItemCheck = Callable[[Path, int, Any, Errors], None]


#: The values of unset scalars that are no pointers.
_ZERO: Final[dict[str, Any]] = {"string": "", "int32": 0, "int64": 0, "bool": False}


def unset(item: Field) -> Any:
    """Return the value of an unset field."""
    return None if item.pointer or not isinstance(item.type, Scalar) else _ZERO.get(item.type.name)


def shown(kind: Type, value: Any) -> Any:
    """Return a value as errors show it."""
    if isinstance(value, str) and isinstance(kind, Scalar) and kind.go != "string":
        return Named(value)
    return None if value is None else internal(kind, value)


def scalar_check(name: str, item: Field, kind: Scalar, limits: Limits) -> FieldCheck:
    """Return the check of a field of a scalar type."""
    if kind.name in ("int32", "int64"):
        return _number(name, item, limits)
    if kind.name == "raw":
        return _raw(name, limits)
    if kind.name == "quantity":
        return _amount(name, limits)
    return (
        _port(name, item, limits)
        if kind.name == "intOrString"
        else _text(name, item, limits, limits.values or kind.enum)
    )


def says_nothing_unset(item: Field) -> bool:
    """Return whether an unset field never has an error."""
    kind, limits = item.type, item.limits or Limits()
    if isinstance(kind, Scalar) and kind.name == "string":
        return item.pointer or not (limits.required or (limits.empty if limits.empty is not None else not item.omit))
    if limits.required:
        return False
    if isinstance(kind, Scalar) and kind.name in ("int32", "int64"):
        return item.pointer or limits.empty is False or not _out_of_bounds(0, limits)
    return item.pointer or isinstance(kind, ListOf | MapOf)


def detail(limits: Limits) -> str:
    """Return upstream's addition to "Required value"."""
    return limits.required if isinstance(limits.required, str) else ""


def bounds(limits: Limits) -> ItemCheck | None:
    """Return the check of numbers in a list, or None without bounds."""
    if limits.least is None and limits.most is None:
        return None

    def check(path: Path, index: int, value: Any, errors: Errors) -> None:
        if problem := _out_of_bounds(value, limits):
            errors.append(invalid(path[index], value, problem))

    return check


def _out_of_bounds(value: int, limits: Limits) -> str:
    """Return the error of a number out of bounds, "" for none."""
    if limits.most is not None and value > limits.most:
        return limits.most_words or limits.words or f"must be less than or equal to {limits.most}"
    if limits.least is not None and value < limits.least:
        return limits.words or f"must be greater than or equal to {limits.least}"
    return ""


def _text(name: str, item: Field, limits: Limits, known: tuple[str, ...]) -> FieldCheck:
    form, longest, needs = FORMATS[limits.format] if limits.format else None, limits.length, detail(limits)
    pointer, needed = item.pointer, bool(limits.required)
    judged = limits.empty if limits.empty is not None else pointer or not item.omit

    def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
        value = holder.get(name)
        if value is None and pointer:
            return
        if not value:
            if needed:
                errors.append(required(path / name, needs))
                return
            if not judged:
                return
            value = ""
        if known and value not in known:
            errors.append(not_supported(path / name, Named(value), known))
        if longest is not None and len(value) * 4 > longest and len(value.encode()) > longest:
            errors.append(too_long(path / name, longest))
        if form is not None and not form.fits(value):
            errors += form.errors(path / name, value)

    return check


def _number(name: str, item: Field, limits: Limits) -> FieldCheck:
    needed, needs, pointer, judged = bool(limits.required), detail(limits), item.pointer, limits.empty is not False

    def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
        value = holder.get(name)
        if value is None:
            if pointer:
                if needed:
                    errors.append(required(path / name, needs))
                return
            value = 0
        if not value and not pointer and (needed or not judged):
            if needed:
                errors.append(required(path / name, needs))
        elif problem := _out_of_bounds(value, limits):
            errors.append(invalid(path / name, value, problem))

    return check


def _amount(name: str, limits: Limits) -> FieldCheck:
    """Return the check of a quantity: at least `least`, as far as the sign decides (0, or 1 for more than 0)."""

    def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
        text = holder.get(name)
        if text is None:
            if limits.required:
                errors.append(required(path / name, detail(limits)))
            return
        amount = Quantity.parse(text)
        if limits.least is not None and amount.sign < limits.least:
            errors.append(invalid(path / name, str(amount), limits.words or "must be greater than or equal to 0"))

    return check


def _port(name: str, item: Field, limits: Limits) -> FieldCheck:
    """Return the check of a port: a number within its bounds, or a name of the format."""
    form, pointer = FORMATS[limits.format], item.pointer

    def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
        value = holder.get(name)
        if value is None and pointer:
            return
        if isinstance(value, str):
            errors += form.errors(path / name, value)
        elif problem := _out_of_bounds(value or 0, limits):
            errors.append(invalid(path / name, value or 0, problem))

    return check


def _raw(name: str, limits: Limits) -> FieldCheck:
    def check(path: Path, holder: Json, old: Json | None, env: Any, errors: Errors) -> None:
        value = holder.get(name)
        if value is None:
            if limits.required:
                errors.append(required(path / name, detail(limits)))
        elif limits.length is not None and raw_size(value) > limits.length:
            errors.append(too_long(path / name, limits.length))
        elif not isinstance(value, dict):
            errors.append(invalid(path / name, "<value omitted>", "must be a valid JSON object"))

    return check


def raw_size(value: Any) -> int:
    """Return the size of a raw extension as it was written, in bytes."""
    return len(value.written if isinstance(value, RawObject) else orjson.dumps(value))
