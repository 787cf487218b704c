"""What storing does to an object: an empty list or map that is always written (`rules: []`) comes back as null.

Upstream stores messages, in which an empty list is none. Walkers look only where a schema has such fields, which is nearly nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver.api.schema import ListOf, MapOf, Struct, Type

__all__ = ["settler_of"]

#: Settles a value in place.
Settler = Callable[[Any], None]


def settler_of(schema: Struct) -> Settler | None:
    """What settles objects of a schema; None where there is nothing to settle."""
    return _of(schema) if _concerned(schema, set()) else None


def _concerned(type_: Type, seen: set[int]) -> bool:
    """Whether a type has such fields, itself or below."""
    if isinstance(type_, ListOf):
        return _concerned(type_.item, seen)
    if isinstance(type_, MapOf):
        return _concerned(type_.value, seen)
    if not isinstance(type_, Struct) or id(type_) in seen:
        return False
    seen.add(id(type_))
    items = type_.fields.values()
    return any((not item.omit and isinstance(item.type, ListOf | MapOf)) or _concerned(item.type, seen) for item in items)


def _of(type_: Type) -> Settler:
    if isinstance(type_, ListOf):
        item = _of(type_.item)

        def settle_list(value: Any) -> None:
            for each in value:
                item(each)

        return settle_list
    if isinstance(type_, MapOf):
        below = _of(type_.value)

        def settle_map(value: Any) -> None:
            for each in value.values():
                below(each)

        return settle_map
    assert isinstance(type_, Struct)
    made: Settler | None = type_.cache.get("settle")
    if made is None:
        made = type_.cache["settle"] = _of_struct(type_)
    return made


def _of_struct(struct: Struct) -> Settler:
    always: list[str] = []
    deeper: list[tuple[str, Settler]] = []

    def settle(value: Any) -> None:
        for name in always:
            if name in value and not value[name]:
                value[name] = None
        for name, below in deeper:
            part = value.get(name)
            if part:
                below(part)

    # A type that holds itself finds this in the cache.
    struct.cache["settle"] = settle
    for name, item in struct.fields.items():
        if not item.omit and isinstance(item.type, ListOf | MapOf):
            always.append(name)
        if _concerned(item.type, set()):
            deeper.append((name, _of(item.type)))
    return settle
