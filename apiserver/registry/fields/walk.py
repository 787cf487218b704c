"""Field sets of objects by their schema: the changes of a write, and the fields of an applied object.

A schema type becomes a walker once; walkers of structs are cached in the struct. Objects must be in the schema's normal
form (the codec's), because the comparison distinguishes absent from null. The rules are those of structured-merge-diff,
upstream's library for field management:

* an added value counts with all fields below it, and so does a removed one;
* two empty containers, atomic lists, maps and structs, and scalars are leaves;
* items of lists of kind map are identified by their keys (absent ones by their defaults), items of sets by value.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, Final

from apiserver.api.schema.language import DEDUCED, Field, ListOf, MapOf, Scalar, Struct, Type
from apiserver.registry.fields.set import FieldSet

__all__ = ["ABSENT", "NAMELESS", "ListWalker", "NamelessItem", "Walker", "collect_applied", "compare", "walker_of"]

#: Fields gained (added or changed) and fields lost; None is the empty set.
FieldChange = tuple[FieldSet | None, FieldSet | None]

_SAME: Final[FieldChange] = (None, None)
#: Printable ASCII without quotes, backslashes, and the characters that Go escapes for HTML.
_plain: Final = re.compile(r"[ !#-%'-;=?-\[\]-~]*").fullmatch


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


#: No value, as opposed to null.
ABSENT: Final = _Absent()


def compare(schema: Struct, old: dict[str, Any], new: dict[str, Any]) -> tuple[FieldSet, FieldSet]:
    """Return the fields that `new` gained (added or changed) and lost compared to `old`."""
    if old == new:
        return {}, {}
    walker: Walker = schema.cache.get("fieldwalk") or walker_of(schema)
    gained, lost = walker.change(old, new)
    return gained or {}, lost or {}


def collect_applied(schema: Struct, obj: dict[str, Any]) -> FieldSet:
    """Return the fields of an object: those that an apply of it owns."""
    return walker_of(schema).collect_applied(obj)


def walker_of(type_: Type) -> Walker:
    """Return the walker of a type."""
    if isinstance(type_, Struct):
        if type_.atomic:
            return _LEAF
        made: Walker | None = type_.cache.get("fieldwalk")
        if made is None:
            made = type_.cache["fieldwalk"] = _StructWalker(type_)
        return made
    if isinstance(type_, MapOf) and not type_.atomic:
        return _MapWalker(type_)
    if isinstance(type_, ListOf) and type_.kind != "atomic":
        return ListWalker(type_)
    return _DEDUCED if type_ is DEDUCED else _LEAF


class Walker:
    """Walker of values of one type. The base class is the walker of leaves."""

    __slots__ = ()

    def change(self, old: Any, new: Any) -> FieldChange:
        """Compare two different values; either may be ABSENT."""
        return ({}, None) if new is not ABSENT else (None, {})

    def collect_all(self, value: Any) -> FieldSet:
        """Return the node of an added or removed value with everything below it."""
        return {}

    def collect_applied(self, value: Any) -> FieldSet:
        """Return the node of an applied value."""
        return {}


_LEAF: Final = Walker()


class _Container(Walker):
    """The shared rules of granular structs, maps and lists. `none` replaces a null container."""

    __slots__ = ()

    none: ClassVar[Any] = {}

    def change(self, old: Any, new: Any) -> FieldChange:
        if new is ABSENT:
            return None, self.collect_all(old)
        if old is ABSENT:
            return self.collect_all(new), None
        if not old and not new:
            return {}, None
        return self.compare(old or self.none, new or self.none)

    def compare(self, old: Any, new: Any) -> FieldChange:
        raise NotImplementedError


class _StructWalker(_Container):
    __slots__ = ("_declared", "_fields", "_struct")

    def __init__(self, struct: Struct) -> None:
        self._struct = struct
        self._fields: dict[str, tuple[str, Walker]] = {}
        self._declared: frozenset[str] = frozenset()

    @property
    def fields(self) -> dict[str, tuple[str, Walker]]:
        """Element and walker by name, built at first use because structs may be recursive."""
        if not self._fields:
            if self._struct.others is not None:
                self._fields = _OpenWalkers(walker_of(self._struct.others))
            self._declared = frozenset(self._struct.fields.keys())
            for name, item in self._struct.fields.items():
                self._fields[name] = ("f:" + name, _LEAF if item.atomic else walker_of(item.type))
        return self._fields

    def compare(self, old: Any, new: Any) -> FieldChange:
        fields = self._fields or self.fields
        gained: FieldSet = {}
        lost: FieldSet = {}
        for name in sorted(new):
            before, value = old.get(name, ABSENT), new[name]
            if before == value or name not in fields:
                continue
            element, walker = fields[name]
            plus, minus = walker.change(before, value)
            if plus is not None:
                gained[element] = plus
            if minus is not None:
                lost[element] = minus
        for name in old:
            if name not in new and name in fields:
                element, walker = fields[name]
                lost[element] = walker.collect_all(old[name])
        return gained or None, lost or None

    def collect_all(self, value: Any) -> FieldSet:
        if not value:
            return {}
        fields = self._fields or self.fields
        out: FieldSet = {".": {}}
        for name in sorted(value):
            if name in fields:
                element, walker = fields[name]
                out[element] = {} if walker is _LEAF else walker.collect_all(value[name])
        return out

    def collect_applied(self, value: Any) -> FieldSet:
        out: FieldSet = {}
        for name in sorted(value or ()):
            if name in self.fields:
                element, walker = self.fields[name]
                part = value[name]
                node = walker.collect_applied(part)
                if name not in self._declared:  # A map's key is always a member.
                    out[element] = _as_member(node)
                elif node or not isinstance(walker, _Container) or part is None or part == {}:
                    out[element] = node
        return out


class _OpenWalkers(dict[str, tuple[str, Walker]]):
    """Walkers of an open struct: an undeclared field has the walker of the others."""

    def __init__(self, others: Walker) -> None:
        super().__init__()
        self._others = others

    def __missing__(self, name: str) -> tuple[str, Walker]:
        return "f:" + name, self._others

    def __contains__(self, name: object) -> bool:
        return True


class _DeducedWalker(Walker):
    """Walker of a value without a schema: maps are walked key by key, other values are leaves."""

    __slots__ = ()

    def change(self, old: Any, new: Any) -> FieldChange:
        if isinstance(old, dict) and isinstance(new, dict):
            return _DEDUCED_MAP.change(old, new)
        if old is ABSENT:
            return self.collect_all(new), None
        if new is ABSENT:
            return None, self.collect_all(old)
        gained, lost = self.collect_all(new), self.collect_all(old)
        # Both have this field. If a map became a leaf, the fields below it are lost.
        return gained, {name: node for name, node in lost.items() if name != "."} or None

    def collect_all(self, value: Any) -> FieldSet:
        return _DEDUCED_MAP.collect_all(value) if isinstance(value, dict) else {}

    def collect_applied(self, value: Any) -> FieldSet:
        return _DEDUCED_MAP.collect_applied(value) if isinstance(value, dict) else {}


class _MapWalker(_Container):
    __slots__ = ("_walker",)

    def __init__(self, type_: MapOf) -> None:
        self._walker = walker_of(type_.value)

    def compare(self, old: Any, new: Any) -> FieldChange:
        gained: FieldSet = {}
        lost: FieldSet = {}
        for key in sorted(new):
            before, value = old.get(key, ABSENT), new[key]
            if before != value:
                plus, minus = self._walker.change(before, value)
                if plus is not None:
                    gained["f:" + key] = plus
                if minus is not None:
                    lost["f:" + key] = minus
        for key in old:
            if key not in new:
                lost["f:" + key] = self._walker.collect_all(old[key])
        return gained or None, lost or None

    def collect_all(self, value: Any) -> FieldSet:
        if not value:
            return {}
        out: FieldSet = {".": {}}
        for key in sorted(value):
            out["f:" + key] = self._walker.collect_all(value[key])
        return out

    def collect_applied(self, value: Any) -> FieldSet:
        return {"f:" + key: _as_member(self._walker.collect_applied(value[key])) for key in sorted(value or ())}


_DEDUCED: Final = _DeducedWalker()
_DEDUCED_MAP: Final = _MapWalker(MapOf(DEDUCED))


#: The name of an item without any key.
NAMELESS: Final = "k:{}"


class NamelessItem(ValueError):
    """Error: a keyed list item has none of its keys, or a value has another type than its schema.

    The fields of such an object cannot be owned.
    """


class ListWalker(_Container):
    """Walker of lists of kind map and set. Repeated elements are compared as one group."""

    none: ClassVar[Any] = ()

    __slots__ = ("_defaults", "_keys", "_type", "_walker")

    def __init__(self, type_: ListOf) -> None:
        self._type = type_
        self._walker: Walker | None = None
        self._keys = tuple((key, _json(key) + ":") for key in sorted(type_.keys))
        self._defaults: dict[str, Any] = {}

    @property
    def item(self) -> Walker:
        if self._walker is None:
            self._walker = walker_of(self._type.item)
            if isinstance(self._type.item, Struct):
                fields = self._type.item.fields
                defaults = {key: _key_default(fields[key]) for key, _ in self._keys}
                self._defaults = {key: default for key, default in defaults.items() if default is not None}
        return self._walker

    def element(self, item: Any) -> str:
        """Return an item's path element: `k:{"name":"c"}` or `v:"x"`; `k:{}` without any key."""
        if not self._keys:
            return "v:" + _json(item)
        parts = []
        for key, shown in self._keys:
            value = item.get(key)
            if value is None:
                value = self._defaults.get(key)
            if value is not None:
                parts.append(shown + _json(value))
        return "k:{" + ",".join(parts) + "}"

    def groups(self, items: Any) -> dict[str, list[Any]]:
        """Return the items by element, in the list's order."""
        out: dict[str, list[Any]] = {}
        for item in items:
            element = self.element(item)
            if element == NAMELESS:
                raise NamelessItem(
                    f"an element omits all key fields of its list: {', '.join(key for key, _ in self._keys)}"
                )
            out.setdefault(element, []).append(item)
        return out

    def compare(self, old: Any, new: Any) -> FieldChange:
        walker = self._walker or self.item
        before, after = self.groups(old), self.groups(new)
        gained: FieldSet = {}
        lost: FieldSet = {}
        for element in sorted({**before, **after}):
            left, right = before.get(element, ()), after.get(element, ())
            if left == right:
                continue
            if len(left) <= 1 and len(right) <= 1:
                plus, minus = walker.change(left[0] if left else ABSENT, right[0] if right else ABSENT)
            else:
                plus, minus = self._group_change(walker, left, right)
            if plus is not None:
                gained[element] = plus
            if minus is not None:
                lost[element] = minus
        return gained or None, lost or None

    @staticmethod
    def _group_change(walker: Walker, left: Any, right: Any) -> FieldChange:
        """Compare the items of an element that is repeated on one side or both, like `change`."""
        if len(left) > 1 and len(right) > 1:
            return {}, None
        if len(left) > 1:
            return (walker.collect_all(right[0]) if right else None), {}
        return {}, (walker.collect_all(left[0]) if left else None)

    def collect_all(self, value: Any) -> FieldSet:
        if not value:
            return {}
        walker = self._walker or self.item
        groups = self.groups(value)
        out: FieldSet = {".": {}}
        for element in sorted(groups):
            items = groups[element]
            out[element] = walker.collect_all(items[0]) if len(items) == 1 else {}
        return out

    def collect_applied(self, value: Any) -> FieldSet:
        walker = self._walker or self.item
        groups = self.groups(value or ())
        return {
            element: _as_member(walker.collect_applied(items[0])) if len(items) == 1 else {}
            for element, items in sorted(groups.items())
        }


def _key_default(item: Field) -> Any:
    """Return the value of an absent key: its default, or the zero value of a field that is always written."""
    if item.default is not None or item.omit or item.pointer or not isinstance(item.type, Scalar):
        return item.default
    return {"string": "", "bool": False, "int32": 0, "int64": 0}.get(item.type.name)


def _as_member(node: FieldSet) -> FieldSet:
    return {".": {}, **node} if node and "." not in node else node


def _json(value: Any) -> str:
    """Encode a key or value of a path element as JSON with Go's escapes."""
    if isinstance(value, str) and _plain(value):
        return f'"{value}"'
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
