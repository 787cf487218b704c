"""Default values, compiled from an object's type (`default` and `fills` of fields).

A `When` is a default that depends on another field of the same object. Defaults that depend on more are set by a
function of the kind's version, which runs afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from apiserver.api.objects import Json
from apiserver.api.schema.language import NOW, Field, ListOf, MapOf, Struct, Type, When
from apiserver.api.values.times import timestamp

__all__ = ["fill_defaults", "filler_of"]

Filler = Callable[[Json, datetime], None]
#: Returns the default of a field for an object at the time of the request, None for none.
Maker = Callable[[Json, datetime], Any]


def fill_defaults(struct: Struct, obj: Json, now: datetime) -> None:
    """Set the defaults of an object of a type, in place."""
    fill = filler_of(struct)
    if fill is not None:
        fill(obj, now)


def filler_of(struct: Struct) -> Filler | None:
    """Return the compiled defaulting function of a type, or None for a type without defaults."""
    if "fill" not in struct.cache:
        if _has_defaults(struct, set()):
            struct.cache["fill"] = _later(struct)
            struct.cache["fill"] = _compile(struct)
        else:
            struct.cache["fill"] = None
    made: Filler | None = struct.cache["fill"]
    return made


def _later(struct: Struct) -> Filler:
    """Return a placeholder for a recursive type while it is compiled."""

    def fill(value: Json, now: datetime) -> None:
        struct.cache["fill"](value, now)

    return fill


def _has_defaults(struct: Struct, seen: set[str]) -> bool:
    """Return whether a type or a type inside it has defaults."""
    seen.add(struct.name)
    if any(map(_has_default, struct.fields.values())):
        return True
    structs = (_inner_struct(item.type) for item in struct.fields.values())
    return any(inner is not None and inner.name not in seen and _has_defaults(inner, seen) for inner in structs)


def _inner_struct(type_: Type) -> Struct | None:
    while isinstance(type_, ListOf | MapOf):
        type_ = type_.item if isinstance(type_, ListOf) else type_.value
    return type_ if isinstance(type_, Struct) else None


def _compile(struct: Struct) -> Filler:
    own = [(name, item.pointer, *_value(_default(item))) for name, item in struct.fields.items() if _has_default(item)]
    deeper = [(name, fill) for name, item in struct.fields.items() if (fill := _below(item.type)) is not None]
    if not own and len(deeper) == 1:
        return _one_step(*deeper[0])

    def fill_struct(value: Json, now: datetime) -> None:
        for name, pointer, made, make in own:
            given = value.get(name)
            if not given and (given is None or not pointer):
                if make is not None:
                    made = make(value, now)
                    if made is None:
                        continue
                value[name] = made
        for name, fill in deeper:
            part = value.get(name)
            if part is not None:
                fill(part, now)

    return fill_struct


def _one_step(name: str, fill: Callable[[Any, datetime], None]) -> Filler:
    def fill_part(value: Json, now: datetime) -> None:
        part = value.get(name)
        if part is not None:
            fill(part, now)

    return fill_part


def _below(type_: Type) -> Callable[[Any, datetime], None] | None:
    """Return the defaulting function for the objects inside a value."""
    if isinstance(type_, Struct):
        return filler_of(type_)
    if not isinstance(type_, ListOf | MapOf):
        return None
    fill = _below(type_.item if isinstance(type_, ListOf) else type_.value)
    if fill is None:
        return None
    each = fill

    def fill_list(items: list[Any], now: datetime) -> None:
        for item in items:
            each(item, now)

    def fill_map(items: Json, now: datetime) -> None:
        for item in items.values():
            each(item, now)

    return fill_list if isinstance(type_, ListOf) else fill_map


def _default(item: Field) -> Any:
    return item.fills if item.fills is not None else item.default


def _has_default(item: Field) -> bool:
    """Return whether a field has an effective default.

    The zero value is no default for a field that is written only when not empty.
    """
    default = _default(item)
    return default is not None and not (item.omit and not item.pointer and default in ("", 0, False))


def _value(default: Any) -> tuple[Any, Maker | None]:
    """Return a default as a value, or as a function that makes it."""
    if isinstance(default, str | int):
        return default, None
    return None, _maker(default)


def _maker(default: Any) -> Maker:
    if default is NOW:
        return lambda value, now: timestamp(now)
    if isinstance(default, When):
        field, wanted, then = default.field, default.value, _maker(default.then)
        if wanted is None:
            return lambda value, now: then(value, now) if value.get(field) else None
        return lambda value, now: then(value, now) if value.get(field) == wanted else None
    if isinstance(default, dict | list):
        return lambda value, now: default.copy()
    return lambda value, now: default
