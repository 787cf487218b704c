"""Remove the fields of disabled feature gates from objects, compiled from their type.

The type defines the gates of a field and the use in the stored object that keeps it
(`apiserver.api.schema.language.Gated`). Fields are dropped; those of kubedra's own gates are hidden.

Most objects have no disabled field. One walk along the steps to such fields detects that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_
from typing import Any, Final, NamedTuple, Protocol

from apiserver.api.features.gated_fields import EVERY_GATE, Gated, Scope
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.api.schema.language import Field, ListOf, MapOf, Struct, Type

__all__ = [
    "ITEMS",
    "VALUES",
    "DroppedField",
    "Place",
    "drop_disabled",
    "drop_hidden",
    "marks_of",
    "places_of",
    "without_gates",
]

Steps = tuple[str, ...]
Test = Callable[[Any], bool]

#: Path steps to every item of a list, and to every value of a map.
ITEMS: Final = "[]"
VALUES: Final = "{}"


class DroppedField(NamedTuple):
    """A field (a path in the stored version) and its disabled gate."""

    path: str
    gate: str

    @property
    def warning(self) -> str:
        return f"{self.path}: dropped, the feature gate {self.gate} is disabled"


class Typed(Protocol):
    """A resource; only the type of the stored object matters here."""

    @property
    def hub_schema(self) -> Struct: ...


class Writing(Protocol):
    """The context of a write: gates, resource and dropped fields (`apiserver.registry.definition.context`).

    The dropped fields become warnings to the user.
    """

    features: Features
    dropped: list[DroppedField]

    @property
    def resource(self) -> Typed: ...


class Place(NamedTuple):
    """A gated field below a type, and the steps to it."""

    steps: Steps
    field: Field
    gate: Gated


class _Feature(NamedTuple):
    """Places that are kept or dropped together.

    `gate` is the disabled one; `keeps` returns whether a stored object keeps the fields.
    """

    gate: str
    places: tuple[Place, ...]
    keeps: Test


class _Dropper(NamedTuple):
    """The features to drop. `lacks` returns whether an object has none of their fields."""

    lacks: Test
    features: tuple[_Feature, ...]


def places_of(struct: Struct) -> tuple[Place, ...]:
    """Return all gated fields of a type and of the types inside it."""
    known: tuple[Place, ...] | None = struct.cache.get("places")
    if known is None:
        struct.cache["places"] = ()  # a recursive type contributes its fields once
        known = struct.cache["places"] = tuple(_places(struct))
    return known


def _places(struct: Struct) -> Iterator[Place]:
    for name, item in struct.fields.items():
        if item.gate is not None:
            yield Place((name,), item, item.gate)
        held, marks = _held(item.type)
        if isinstance(held, Struct) and item.ungated != EVERY_GATE:
            for place in places_of(held):
                if not set(item.ungated) & set(place.gate.gates):
                    yield place._replace(steps=(name, *marks, *place.steps))


def _held(type_: Type) -> tuple[Type, Steps]:
    """Return the innermost type of lists and maps, and the steps to it."""
    marks: Steps = ()
    while isinstance(type_, ListOf | MapOf):
        marks += (ITEMS if isinstance(type_, ListOf) else VALUES,)
        type_ = type_.item if isinstance(type_, ListOf) else type_.value
    return type_, marks


def drop_disabled(ctx: Writing, obj: Json, old: Json | None) -> None:
    """Remove the fields of disabled gates from an object; `old` is the stored one, None for a new object.

    Record each removed value with its gate in the context, except default values. Copy hidden fields of the stored
    object to the new one if their parent objects are still set (none is inside a list or map).

    The top level of the object is changed in place. Nested values may be shared with the stored object and are
    replaced, not changed. Spec and status may be other objects afterwards.
    """
    struct, features = ctx.resource.hub_schema, ctx.features
    for above, name in struct.cache.get("hidden fields", ()) if old is not None else ():
        before: Json = old or {}
        holder: Json | None = obj
        for step in above:
            before, holder = before.get(step) or {}, (holder or {}).get(step)
        if name in before and holder is not None:
            holder[name] = before[name]
    dropper = features.memo.get(struct, False)
    if dropper is False:
        dropper = features.memo[struct] = _dropper(struct, features)
    if dropper is None or dropper.lacks(obj):
        return
    for gate, places, keeps in dropper.features:
        if old is None or not keeps(old):
            for place in places:
                cut = _Cut(place)
                made = cut.apply(obj, place.steps, "", (old or {}) if place.gate.scope == "place" else {})
                if made is not obj:
                    obj[place.steps[0]] = made[place.steps[0]]
                    ctx.dropped += [DroppedField(path, gate) for path in cut.paths]


def _dropper(struct: Struct, features: Features) -> _Dropper | None:
    """Return the dropper of a type, or None if none of its fields is disabled."""
    everything = places_of(struct)
    groups: dict[tuple[Steps, Scope, str], list[Place]] = {}
    for place in everything:
        gates, scope = place.gate.gates, place.gate.scope
        if scope not in ("rule", "never") and not all(map(features.enabled, gates)):
            groups.setdefault((gates, scope, place.steps[0] if scope == "section" else ""), []).append(place)
    if not groups:
        return None
    made = []
    for (gates, scope, section), places in groups.items():
        uses = [p for p in everything if p.gate.gates == gates and p.gate.counts and section in ("", p.steps[0])]
        off = next(gate for gate in gates if not features.enabled(gate))
        made.append(_Feature(off, tuple(places), _keeps(scope, uses)))
    return _Dropper(_lacks([place for feature in made for place in feature.places]), tuple(made))


def _keeps(scope: Scope, uses: list[Place]) -> Test:
    if scope == "create":
        return lambda old: True
    if scope == "place":
        return lambda old: False
    tests = [_stands(place.steps, place) for place in uses]
    return lambda old: any(test(old) for test in tests)


def _stands(steps: Steps, place: Place) -> Test:
    """Return a test whether a stored object uses a feature at a place."""
    if not steps:
        members = place.gate.members
        if members:
            return lambda value: any(value.get(name) for name in members)
        return (lambda value: True) if place.field.pointer else bool
    step, below = steps[0], _stands(steps[1:], place)
    if step == ITEMS:
        return lambda items: any(map(below, items))
    if step == VALUES:
        return lambda values: any(map(below, values.values()))

    def in_field(value: Json) -> bool:
        part = value.get(step)
        return part is not None and below(part)

    return in_field


def _lacks(places: list[Place]) -> Test:
    """Return a test whether an object has none of the fields at some places."""
    tree: dict[str, Any] = {}
    for place in places:
        node = tree
        for step in place.steps[:-1]:
            node = node.setdefault(step, {})
            if isinstance(node, Place):  # the objects around it are removed as well
                break
        else:
            node[place.steps[-1]] = place
    return _lacks_below(tree)


def _lacks_below(tree: dict[str, Any]) -> Test:
    if ITEMS in tree:
        item = _lacks_below(tree[ITEMS])
        return lambda items: all(map(item, items))
    if VALUES in tree:
        each = _lacks_below(tree[VALUES])
        return lambda values: all(map(each, values.values()))
    leaves = {name: node for name, node in tree.items() if isinstance(node, Place)}
    disjoint = frozenset(name for name, place in leaves.items() if place.field.omit).isdisjoint
    always = [name for name, place in leaves.items() if not place.field.omit]
    deeper = [(name, _lacks_below(node)) for name, node in tree.items() if name not in leaves]
    if not always and not deeper:
        return disjoint

    def lacks(value: Json) -> bool:
        if not disjoint(value):
            return False
        for name in always:
            if value.get(name) is not None:
                return False
        for name, below in deeper:
            part = value.get(name)
            if part and not below(part):
                return False
        return True

    return lacks


class _Cut:
    """Removes the field at one place from objects. `paths` are those of the removed values."""

    def __init__(self, place: Place) -> None:
        self.field, self.prunes, self.paths = place.field, place.gate.prunes, list[str]()

    def apply(self, value: Any, steps: Steps, at: str, old: Any) -> Any:
        """Return the value without the field, or the value itself if the field is absent.

        `old` is the stored value at this place. Fields that it has are kept.
        """
        step, rest = steps[0], steps[1:]
        if not value:
            return value
        if step == ITEMS:
            stored = old or []
            made = [
                self.apply(item, rest, f"{at}[{index}]", stored[index] if index < len(stored) else {})
                for index, item in enumerate(value)
            ]
            return value if all(map(is_, made, value)) else made
        if step == VALUES:
            changed = {key: self.apply(item, rest, f"{at}[{key}]", (old or {}).get(key)) for key, item in value.items()}
            return value if all(changed[key] is item for key, item in value.items()) else changed
        path, before = f"{at}.{step}" if at else step, (old or {}).get(step)
        if not rest:
            return self._leaf(value, step, path, before)
        inner = value.get(step)
        part = self.apply(inner, rest, path, before)
        if part is inner:
            return value
        if part or not self.prunes:
            return {**value, step: part}
        return {name: item for name, item in value.items() if name != step}

    def _leaf(self, value: Json, name: str, path: str, before: Any) -> Json:
        if before is not None or value.get(name) is None:
            return value
        if value[name] != self.field.default or self.field.default is None:
            self.paths.append(path)
        if not self.field.omit:
            return {**value, name: None}
        return {key: item for key, item in value.items() if key != name}


# Hidden fields belong to gates of kubedra's own, which no release of Kubernetes has. While such a gate is off, a
# server uses types without the field: for decoding, managed fields, OpenAPI and protobuf it is an unknown name.
# Objects written while the gate was on keep their hidden values.


def without_gates(struct: Struct, gates: frozenset[str]) -> Struct:
    """Return the type without the fields of some gates, or the type itself if it has none."""
    key = f"without {' '.join(sorted(gates))}"
    known: Struct | None = struct.cache.get(key)
    if known is None:
        hidden = tuple(place for place in places_of(struct) if gates.intersection(place.gate.gates))
        known = struct.cache[key] = _without(struct, gates, hidden) if hidden else struct
    return known


def _without(struct: Struct, gates: frozenset[str], hidden: tuple[Place, ...]) -> Struct:
    made = Struct(
        struct.name,
        lambda: tuple(_shown_fields(struct, gates)),
        gvk=struct.gvk,
        atomic=struct.atomic,
        doc=struct.doc,
        protobuf=struct.protobuf,
        granular=struct.granular,
        union=struct.union,
    )
    made.cache["hidden"] = hidden
    #: The hidden fields outside of lists and maps: their parents and names.
    made.cache["hidden fields"] = tuple(
        (place.steps[:-1], place.steps[-1]) for place in hidden if not {ITEMS, VALUES}.intersection(place.steps)
    )
    return made


def _shown_fields(struct: Struct, gates: frozenset[str]) -> Iterator[Field]:
    for item in struct.declared:
        if item.gate is None or not gates.intersection(item.gate.gates):
            type_ = _shown_type(item.type, gates)
            yield item if type_ is item.type else item.replaced(type=type_)


def _shown_type(type_: Type, gates: frozenset[str]) -> Type:
    if isinstance(type_, Struct):
        return without_gates(type_, gates)
    if isinstance(type_, ListOf):
        item = _shown_type(type_.item, gates)
        if item is type_.item:
            return type_
        return ListOf(item, type_.kind, type_.keys, type_.merge_key, type_.strategy, type_.go)
    if isinstance(type_, MapOf):
        value = _shown_type(type_.value, gates)
        return type_ if value is type_.value else MapOf(value, type_.atomic, type_.key, type_.go, type_.granular)
    return type_


def drop_hidden(struct: Struct, obj: Json) -> None:
    """Remove the hidden fields of a type from an object, in place. No hidden field is inside a list or map."""
    for above, name in struct.cache.get("hidden fields", ()):
        holder = obj
        for step in above:
            holder = holder.get(step) or {}
        holder.pop(name, None)


def marks_of(struct: Struct) -> tuple[bytes, ...]:
    """Return texts: the JSON of every object with hidden fields contains one. Other JSON may contain them too."""
    opening = {Struct: "{", ListOf: "[", MapOf: "{"}
    return tuple(
        f'"{place.steps[-1]}":{opening.get(type(place.field.type), "")}'.encode()
        for place in struct.cache.get("hidden", ())
    )
