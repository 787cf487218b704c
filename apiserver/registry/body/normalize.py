"""What storing does to an object: an empty list or map that is always written (`rules: []`) comes back as null, one
that was kept for validation goes.

Upstream stores messages, in which an empty list is none. Walkers look only where a schema has such fields.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

import orjson

from apiserver.api.schema import Field, ListOf, MapOf, Struct, Type

__all__ = ["normalizer_of", "written"]

#: Normalizes a value in place.
Normalizer = Callable[[Any], None]
#: Gives a value without the empty parts that were kept for validation.
Stripper = Callable[[Any], Any]


def normalizer_of(schema: Struct) -> Normalizer | None:
    """What normalizes objects of a schema; None where storing changes nothing."""
    if not _concerned(schema, _changes, set()):
        return None
    normalize = _of(schema)

    def normalize_object(obj: Any) -> None:
        if _holds_empty(obj):
            normalize(obj)

    return normalize_object


def _holds_empty(obj: Any) -> bool:
    """Whether anything but metadata may hold an empty list or map: to look at the encoding costs a tenth of a walk. The
    status that every new object has, `{}`, is neither."""
    text = orjson.dumps({name: part for name, part in obj.items() if name != "metadata" and (part or name != "status")})
    return b":[]" in text or b":{}" in text


def _changes(item: Field) -> bool:
    return item.keep_empty or (not item.omit and isinstance(item.type, ListOf | MapOf))


def _keeps(item: Field) -> bool:
    return item.keep_empty


def _concerned(type_: Type, of_concern: Callable[[Field], bool], seen: set[int]) -> bool:
    """Whether a type has such fields, itself or below."""
    if isinstance(type_, ListOf):
        return _concerned(type_.item, of_concern, seen)
    if isinstance(type_, MapOf):
        return _concerned(type_.value, of_concern, seen)
    if not isinstance(type_, Struct) or id(type_) in seen:
        return False
    seen.add(id(type_))
    return any(of_concern(item) or _concerned(item.type, of_concern, seen) for item in type_.fields.values())


def _of(type_: Type) -> Normalizer:
    if isinstance(type_, ListOf):
        item = _of(type_.item)

        def normalize_list(value: Any) -> None:
            for each in value:
                item(each)

        return normalize_list
    if isinstance(type_, MapOf):
        below = _of(type_.value)

        def normalize_map(value: Any) -> None:
            for each in value.values():
                below(each)

        return normalize_map
    assert isinstance(type_, Struct)
    made: Normalizer | None = type_.cache.get("normalize")
    if made is None:
        made = type_.cache["normalize"] = _of_struct(type_)
    return made


def _of_struct(struct: Struct) -> Normalizer:
    always: list[str] = []
    kept: list[str] = []
    deeper: list[tuple[str, Normalizer]] = []

    def normalize(value: Any) -> None:
        for name in always:
            if name in value and not value[name]:
                value[name] = None
        for name in kept:
            if name in value and not value[name]:
                del value[name]
        for name, below in deeper:
            part = value.get(name)
            if part:
                below(part)

    # A type that holds itself finds this in the cache.
    struct.cache["normalize"] = normalize
    for name, item in struct.fields.items():
        if not item.omit and isinstance(item.type, ListOf | MapOf):
            always.append(name)
        elif item.keep_empty:
            kept.append(name)
        if _concerned(item.type, _changes, set()):
            deeper.append((name, _of(item.type)))
    return normalize


def written(schema: Struct, value: Any) -> Any:
    """An object as its encoding has it: without the empty lists and maps that were kept for validation. Shares what
    does not change.
    """
    strip = schema.cache.get("strip")
    if strip is None:
        strip = schema.cache["strip"] = _stripper(schema) or _unchanged
    return value if strip is _unchanged or not _holds_empty(value) else strip(value)


def _unchanged(value: Any) -> Any:
    return value


def _stripper(type_: Type) -> Stripper | None:
    """What strips values of a type; None where there is nothing to strip."""
    if not _concerned(type_, _keeps, set()):
        return None
    if isinstance(type_, Struct):
        return _struct_stripper(type_)
    each = _stripper(type_.item if isinstance(type_, ListOf) else type_.value)  # type: ignore[union-attr]
    assert each is not None
    strip = each

    def strip_list(value: Any) -> Any:
        made = [strip(item) for item in value]
        return value if all(map(is_, made, value)) else made

    def strip_map(value: Any) -> Any:
        made = {key: strip(item) for key, item in value.items()}
        return value if all(map(is_, made.values(), value.values())) else made

    return strip_list if isinstance(type_, ListOf) else strip_map


def _struct_stripper(struct: Struct) -> Stripper:
    known: Stripper | None = struct.cache.get("strip_struct")
    if known is not None:
        return known
    kept = [name for name, item in struct.fields.items() if item.keep_empty]
    deeper: list[tuple[str, Stripper]] = []

    def strip(value: Any) -> Any:
        if not value:
            return value
        out = value
        for name in kept:
            if name in value and not value[name]:
                out = {key: item for key, item in out.items() if key != name}
        for name, below in deeper:
            part = value.get(name)
            if part:
                made = below(part)
                if made is not part:
                    out = {**out, name: made}
        return out

    # A type that holds itself finds this in the cache.
    struct.cache["strip_struct"] = strip
    deeper += [(name, below) for name, item in struct.fields.items() if (below := _stripper(item.type)) is not None]
    return strip
