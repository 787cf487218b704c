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
    "GatedField",
    "drop_disabled",
    "drop_hidden",
    "find_gated_fields",
    "list_hidden_marks",
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


class TypedResource(Protocol):
    """A resource; only the type of the stored object matters here."""

    @property
    def hub_schema(self) -> Struct: ...


class WriteContext(Protocol):
    """The context of a write: gates, resource and dropped fields (`apiserver.registry.definition.context`).

    The dropped fields become warnings to the user.
    """

    features: Features
    dropped: list[DroppedField]

    @property
    def resource(self) -> TypedResource: ...


class GatedField(NamedTuple):
    """A gated field below a type, and the steps to it."""

    steps: Steps
    field: Field
    gate: Gated


class _Feature(NamedTuple):
    """Gated fields that are kept or dropped together.

    `gate` is the disabled one; `keeps` returns whether a stored object keeps the fields.
    """

    gate: str
    gated_fields: tuple[GatedField, ...]
    keeps: Test


class _Dropper(NamedTuple):
    """The features to drop. `lacks` returns whether an object has none of their fields."""

    lacks: Test
    features: tuple[_Feature, ...]


def find_gated_fields(struct: Struct) -> tuple[GatedField, ...]:
    """Return all gated fields of a type and of the types inside it."""
    known: tuple[GatedField, ...] | None = struct.cache.get("gated fields")
    if known is None:
        struct.cache["gated fields"] = ()  # a recursive type contributes its fields once
        known = struct.cache["gated fields"] = tuple(_gated_fields(struct))
    return known


def _gated_fields(struct: Struct) -> Iterator[GatedField]:
    for name, item in struct.fields.items():
        if item.gate is not None:
            yield GatedField((name,), item, item.gate)
        held, marks = _inner_type(item.type)
        if isinstance(held, Struct) and item.ungated != EVERY_GATE:
            for gated in find_gated_fields(held):
                if not set(item.ungated) & set(gated.gate.gates):
                    yield gated._replace(steps=(name, *marks, *gated.steps))


def _inner_type(type_: Type) -> tuple[Type, Steps]:
    """Return the innermost type of lists and maps, and the steps to it."""
    marks: Steps = ()
    while isinstance(type_, ListOf | MapOf):
        marks += (ITEMS if isinstance(type_, ListOf) else VALUES,)
        type_ = type_.item if isinstance(type_, ListOf) else type_.value
    return type_, marks


def drop_disabled(ctx: WriteContext, obj: Json, old: Json | None) -> None:
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
    for gate, gated_fields, keeps in dropper.features:
        if old is None or not keeps(old):
            for gated in gated_fields:
                remover = _FieldRemover(gated)
                made = remover.apply(obj, gated.steps, "", (old or {}) if gated.gate.scope == "place" else {})
                if made is not obj:
                    obj[gated.steps[0]] = made[gated.steps[0]]
                    ctx.dropped += [DroppedField(path, gate) for path in remover.paths]


def _dropper(struct: Struct, features: Features) -> _Dropper | None:
    """Return the dropper of a type, or None if none of its fields is disabled."""
    everything = find_gated_fields(struct)
    groups: dict[tuple[Steps, Scope, str], list[GatedField]] = {}
    for gated in everything:
        gates, scope = gated.gate.gates, gated.gate.scope
        if scope not in ("rule", "never") and not all(map(features.enabled, gates)):
            groups.setdefault((gates, scope, gated.steps[0] if scope == "section" else ""), []).append(gated)
    if not groups:
        return None
    made = []
    for (gates, scope, section), gated_fields in groups.items():
        uses = [p for p in everything if p.gate.gates == gates and p.gate.counts and section in ("", p.steps[0])]
        off = next(gate for gate in gates if not features.enabled(gate))
        made.append(_Feature(off, tuple(gated_fields), _keep_test(scope, uses)))
    return _Dropper(_lack_test([gated for feature in made for gated in feature.gated_fields]), tuple(made))


def _keep_test(scope: Scope, uses: list[GatedField]) -> Test:
    if scope == "create":
        return lambda old: True
    if scope == "place":
        return lambda old: False
    tests = [_use_test(gated.steps, gated) for gated in uses]
    return lambda old: any(test(old) for test in tests)


def _use_test(steps: Steps, gated: GatedField) -> Test:
    """Return a test whether a stored object uses a feature in one gated field."""
    if not steps:
        members = gated.gate.members
        if members:
            return lambda value: any(value.get(name) for name in members)
        return (lambda value: True) if gated.field.pointer else bool
    step, below = steps[0], _use_test(steps[1:], gated)
    if step == ITEMS:
        return lambda items: any(map(below, items))
    if step == VALUES:
        return lambda values: any(map(below, values.values()))

    def in_field(value: Json) -> bool:
        part = value.get(step)
        return part is not None and below(part)

    return in_field


def _lack_test(gated_fields: list[GatedField]) -> Test:
    """Return a test whether an object has none of some gated fields."""
    tree: dict[str, Any] = {}
    for gated in gated_fields:
        node = tree
        for step in gated.steps[:-1]:
            node = node.setdefault(step, {})
            if isinstance(node, GatedField):  # the objects around it are removed as well
                break
        else:
            node[gated.steps[-1]] = gated
    return _lack_test_below(tree)


def _lack_test_below(tree: dict[str, Any]) -> Test:
    if ITEMS in tree:
        item = _lack_test_below(tree[ITEMS])
        return lambda items: all(map(item, items))
    if VALUES in tree:
        each = _lack_test_below(tree[VALUES])
        return lambda values: all(map(each, values.values()))
    leaves = {name: node for name, node in tree.items() if isinstance(node, GatedField)}
    disjoint = frozenset(name for name, gated in leaves.items() if gated.field.omit).isdisjoint
    always = [name for name, gated in leaves.items() if not gated.field.omit]
    deeper = [(name, _lack_test_below(node)) for name, node in tree.items() if name not in leaves]
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


class _FieldRemover:
    """Removes one gated field from objects. `paths` are those of the removed values."""

    def __init__(self, gated: GatedField) -> None:
        self.field, self.prunes, self.paths = gated.field, gated.gate.prunes, list[str]()

    def apply(self, value: Any, steps: Steps, at: str, old: Any) -> Any:
        """Return the value without the field, or the value itself if the field is absent.

        `old` is the stored value of the field. Fields that it has are kept.
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
        hidden = tuple(gated for gated in find_gated_fields(struct) if gates.intersection(gated.gate.gates))
        known = struct.cache[key] = _without(struct, gates, hidden) if hidden else struct
    return known


def _without(struct: Struct, gates: frozenset[str], hidden: tuple[GatedField, ...]) -> Struct:
    made = Struct(
        struct.name,
        lambda: tuple(_visible_fields(struct, gates)),
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
        (gated.steps[:-1], gated.steps[-1]) for gated in hidden if not {ITEMS, VALUES}.intersection(gated.steps)
    )
    return made


def _visible_fields(struct: Struct, gates: frozenset[str]) -> Iterator[Field]:
    for item in struct.declared:
        if item.gate is None or not gates.intersection(item.gate.gates):
            type_ = _visible_type(item.type, gates)
            yield item if type_ is item.type else item.replaced(type=type_)


def _visible_type(type_: Type, gates: frozenset[str]) -> Type:
    if isinstance(type_, Struct):
        return without_gates(type_, gates)
    if isinstance(type_, ListOf):
        item = _visible_type(type_.item, gates)
        if item is type_.item:
            return type_
        return ListOf(item, type_.kind, type_.keys, type_.merge_key, type_.strategy, type_.go)
    if isinstance(type_, MapOf):
        value = _visible_type(type_.value, gates)
        return type_ if value is type_.value else MapOf(value, type_.atomic, type_.key, type_.go, type_.granular)
    return type_


def drop_hidden(struct: Struct, obj: Json) -> None:
    """Remove the hidden fields of a type from an object, in place. No hidden field is inside a list or map."""
    for above, name in struct.cache.get("hidden fields", ()):
        holder = obj
        for step in above:
            holder = holder.get(step) or {}
        holder.pop(name, None)


def list_hidden_marks(struct: Struct) -> tuple[bytes, ...]:
    """Return texts: the JSON of every object with hidden fields contains one. Other JSON may contain them too."""
    opening = {Struct: "{", ListOf: "[", MapOf: "{"}
    return tuple(
        f'"{gated.steps[-1]}":{opening.get(type(gated.field.type), "")}'.encode()
        for gated in struct.cache.get("hidden", ())
    )
