"""Fields that do not exist: those of kubedra's own gates, which no release of Kubernetes has, while their gate is off.

A server without such a gate works on types without the field: to decoding, managed fields, OpenAPI and protobuf it is a
name like any other that nobody knows. Objects that were written while the gate was on keep what they have, unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apiserver.api.dropping import ITEMS, VALUES, Place, places_of
from apiserver.api.schema import Field, ListOf, MapOf, Struct, Type

__all__ = ["drop_hidden", "keep_hidden", "marks_of", "without_gates"]

Json = dict[str, Any]


def without_gates(struct: Struct, gates: frozenset[str]) -> Struct:
    """The type without the fields of some gates: itself where it has none."""
    key = f"without {' '.join(sorted(gates))}"
    known: Struct | None = struct.cache.get(key)
    if known is None:
        hidden = tuple(place for place in places_of(struct) if gates.intersection(place.gate.gates))
        known = struct.cache[key] = _without(struct, gates, hidden) if hidden else struct
    return known


def _without(struct: Struct, gates: frozenset[str], hidden: tuple[Place, ...]) -> Struct:
    made = Struct(
        struct.name,
        lambda: tuple(_fields(struct, gates)),
        gvk=struct.gvk,
        atomic=struct.atomic,
        doc=struct.doc,
        protobuf=struct.protobuf,
        granular=struct.granular,
    )
    made.cache["hidden"] = hidden
    #: Those outside of lists and maps: what is above them, and their names.
    made.cache["hidden fields"] = tuple(
        (place.steps[:-1], place.steps[-1]) for place in hidden if not {ITEMS, VALUES}.intersection(place.steps)
    )
    return made


def _fields(struct: Struct, gates: frozenset[str]) -> Iterator[Field]:
    for item in struct.declared:
        if item.gate is None or not gates.intersection(item.gate.gates):
            type_ = _type(item.type, gates)
            yield item if type_ is item.type else item.replaced(type=type_)


def _type(type_: Type, gates: frozenset[str]) -> Type:
    if isinstance(type_, Struct):
        return without_gates(type_, gates)
    if isinstance(type_, ListOf):
        item = _type(type_.item, gates)
        if item is type_.item:
            return type_
        return ListOf(item, type_.kind, type_.keys, type_.merge_key, type_.strategy, type_.go)
    if isinstance(type_, MapOf):
        value = _type(type_.value, gates)
        return type_ if value is type_.value else MapOf(value, type_.atomic, type_.key, type_.go)
    return type_


def keep_hidden(struct: Struct, obj: Json, old: Json) -> None:
    """Gives an object what the stored one has in fields that its type hides, where their holders are still there.
    In place. Fields within lists and maps are not kept: there are none.
    """
    for above, name in struct.cache.get("hidden fields", ()):
        before: Json = old
        for step in above:
            before = before.get(step) or {}
        if name in before:
            holder: Json | None = obj
            for step in above:
                holder = (holder or {}).get(step)
            if holder is not None:
                holder[name] = before[name]


def drop_hidden(struct: Struct, obj: Json) -> None:
    """Takes what a type hides out of an object. In place. Fields within lists and maps are left: there are none."""
    for above, name in struct.cache.get("hidden fields", ()):
        holder = obj
        for step in above:
            holder = holder.get(step) or {}
        holder.pop(name, None)


def marks_of(struct: Struct) -> tuple[bytes, ...]:
    """Texts of which one is in the JSON of every object that has what a type hides; others may have them as well."""
    opening = {Struct: "{", ListOf: "[", MapOf: "{"}
    return tuple(
        f'"{place.steps[-1]}":{opening.get(type(place.field.type), "")}'.encode()
        for place in struct.cache.get("hidden", ())
    )
