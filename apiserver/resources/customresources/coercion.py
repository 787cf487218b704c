"""Objects brought into the form of a structural schema: unknown fields and stray nulls dropped, defaults filled in.

    coercion = Coercion(schema)
    obj, unknown = coercion.pruned(obj)     a new object, and the paths of what was dropped
    coercion.default(obj)                   in place
    coerce_defaults(schema)                 the same for the defaults that a definition brings

Facts: apiextensions-apiserver, pkg/apiserver/schema/pruning and defaulting, and the coercing decoder of
customresource_handler.go. Dropped are fields that the schema does not have, unless it preserves unknown ones there, and
nulls where the schema allows none and has no default that takes their place. Numbers without a fraction are integers,
and the keys of maps are in order, as Go's encoder writes them.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, Final

import orjson

from apiserver.api.codec.codec import DecodeError, decode
from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.types.meta import ObjectMeta

__all__ = ["IDENTITY", "Coercion", "Malformed", "TooLarge", "coerce_defaults", "plain"]


#: Floats below are exact integers; above the other one no JSON encoder writes integers.
_EXACT: Final = 2.0**53
_LARGEST: Final = 2.0**64
#: What every object has, an embedded one too.
IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})


class TooLarge(ValueError):
    """A number is beyond what a float holds."""


class Malformed(DecodeError):
    """An embedded object's kind, apiVersion or metadata is none; `error` says which."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(error.text)
        self.error = error


def plain(value: Any) -> Any:
    """A value without a schema: keys in order, whole numbers as integers. Raises TooLarge."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    """Numbers as Go has them: integers of 64 bits, floats beyond, without a fraction where there is none."""
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else _scalar(float(value))
    if type(value) is not float:
        return value
    if math.isinf(value):
        raise TooLarge
    if not value.is_integer() or abs(value) >= _LARGEST:
        return value
    # Go writes the fewest digits that tell a float from its neighbours, and zeros up to the point.
    return int(value) if abs(value) < _EXACT else int(Decimal(repr(value)))


class _Node:
    """What is known of one place. `others` is the node of properties without a schema of their own, None where there
    are none; `keeps`: unknown fields stay."""

    __slots__ = ("default", "embedded", "has_defaults", "items", "keeps", "nullable", "others", "properties")

    def __init__(self, schema: Json) -> None:
        self.properties: dict[str, _Node] = {
            name: _Node(part) for name, part in (schema.get("properties") or {}).items()
        }
        others, items = schema.get("additionalProperties"), schema.get("items")
        self.others: _Node | None = None
        if isinstance(others, dict):
            self.others = _Node(others)
        elif others:
            self.others = _SCALARS
        self.items = _Node(items) if isinstance(items, dict) else None
        self.keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.nullable = bool(schema.get("nullable"))
        self.default = orjson.dumps(schema["default"]) if schema.get("default") is not None else None
        below = [node for node in (*self.properties.values(), self.others, self.items) if node is not None]
        self.has_defaults: bool = any(node.default is not None or node.has_defaults for node in below)


_ANYTHING: Final = _Node({"x-kubernetes-preserve-unknown-fields": True, "nullable": True})
#: Where `additionalProperties` is true there is no schema: maps, also those in lists, lose everything.
_SCALARS: Final = _Node({"nullable": True})


class Coercion:
    """A compiled schema; None stands for a version without one, of which nothing but metadata is known."""

    def __init__(self, schema: Json | None, *, keeps_all: bool = False) -> None:
        self._root = _Node(schema or {})
        self._root.embedded = True
        self._keeps_all = keeps_all
        #: Whether a default may bring unknown fields into the metadata of an embedded object.
        self._cuts_defaults = self._root.has_defaults and _embeds(schema or {})

    def unknown(self, obj: Json) -> list[str]:
        """The paths of unknown fields, those in metadata of embedded objects aside, which are dropped without a word.
        Raises Malformed as `pruned`.
        """
        run = _Pruning()
        run.prune(self._root, obj, "")
        return sorted(run.unknown)

    def pruned(self, obj: Json, *, keeps_nulls: bool = False) -> tuple[Json, list[str]]:
        """The object in the schema's form, and the paths of what was dropped, in order. Its own metadata is left alone.
        `keeps_nulls`: those that the schema does not allow stay as well. Raises Malformed.
        """
        if self._keeps_all:
            return plain(obj), []
        identity = {name: obj[name] for name in ("apiVersion", "kind", "metadata") if name in obj}
        run = _Pruning(keeps_nulls=keeps_nulls)
        made = run.prune(self._root, obj, "")
        unknown = sorted(run.unknown) + sorted(run.embedded)
        if any(name in made for name in identity):
            made = {**made, **identity}
        return made, unknown

    def default(self, obj: Json) -> None:
        """Fills in what the schema has defaults for, in place."""
        if self._root.has_defaults:
            _default(self._root, obj)
        if self._cuts_defaults:
            made, _ = self.pruned(obj, keeps_nulls=True)
            obj.clear()
            obj.update(made)


def _embeds(schema: Any) -> bool:
    """Whether some part of a schema is an embedded object."""
    if isinstance(schema, list):
        return any(map(_embeds, schema))
    return isinstance(schema, dict) and (
        schema.get("x-kubernetes-embedded-resource") is True or any(map(_embeds, schema.values()))
    )


def coerce_defaults(schema: Json) -> None:
    """Takes out of the defaults of a valid schema, in place, what metadata of embedded objects in them does not have.
    Those within such metadata stay as they are.
    """
    default, items = schema.get("default"), schema.get("items")
    if default is not None:
        made, _ = Coercion({"properties": {"default": schema}}).pruned({"default": default}, keeps_nulls=True)
        if made["default"] != plain(default):
            schema["default"] = made["default"]
    if isinstance(items, dict):
        coerce_defaults(items)
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    for name, part in (schema.get("properties") or {}).items():
        if not (embedded and name in IDENTITY):
            coerce_defaults(part)


class _Pruning:
    """One object on its way into the form of a schema: several threads use a schema at once. `unknown` are the paths of
    what was dropped, `embedded` those in metadata of embedded objects."""

    __slots__ = ("_keeps_nulls", "embedded", "unknown")

    def __init__(self, *, keeps_nulls: bool = False) -> None:
        self._keeps_nulls = keeps_nulls
        self.unknown: list[str] = []
        self.embedded: list[str] = []

    def prune(self, node: _Node, value: Any, path: str, *, keeps: bool = False) -> Any:
        """`keeps`: the value is an item of a list that keeps unknown fields, and so do its items."""
        keeps = keeps or node.keeps
        if isinstance(value, dict):
            return self._map(node, value, path, keeps=keeps)
        if isinstance(value, list):
            below = node.items if node.items is not None else _ANYTHING if keeps else None
            if below is None:
                return [self._unschemed(item, f"{path}[{at}]") for at, item in enumerate(value)]
            return [self.prune(below, item, f"{path}[{at}]", keeps=keeps) for at, item in enumerate(value)]
        return _scalar(value)

    def _unschemed(self, value: Any, path: str) -> Any:
        """An item of a list whose schema says nothing of items: maps lose everything."""
        if isinstance(value, dict):
            self.unknown += [f"{path}.{name}" for name in value]
            return {}
        if isinstance(value, list):
            return [self._unschemed(item, f"{path}[{at}]") for at, item in enumerate(value)]
        return _scalar(value)

    def _map(self, node: _Node, value: Json, path: str, *, keeps: bool) -> Json:
        made: Json = {}
        prefix = f"{path}." if path else ""
        for name in sorted(value):
            item = value[name]
            if node.embedded and name in IDENTITY:
                made[name] = item if not path else self._identity(name, item, prefix + name)
                continue
            below = node.properties.get(name)
            if below is None:
                below = node.others
            if below is None:
                if keeps:
                    made[name] = plain(item)
                elif path or name not in IDENTITY:
                    self.unknown.append(prefix + name)
                continue
            if item is None and not below.nullable and below.default is None and not self._keeps_nulls:
                continue
            made[name] = self.prune(below, item, prefix + name)
        return made

    def _identity(self, name: str, value: Any, path: str) -> Any:
        """apiVersion, kind or metadata of an embedded object."""
        if name != "metadata":
            if not isinstance(value, str):
                raise Malformed(invalid(Path(path), plain(value), "must be a string"))
            return value
        try:
            decoded = decode(ObjectMeta, plain(value))
        except DecodeError as error:
            raise Malformed(invalid(Path(path), plain(value), str(error))) from None
        self.embedded += [f"{path}.{field}" for field in decoded.unknown]
        metadata = decoded.obj
        if metadata.get("creationTimestamp") is None:
            metadata.pop("creationTimestamp", None)
        return metadata


def _default(node: _Node, value: Any) -> None:
    if isinstance(value, dict):
        for name, below in node.properties.items():
            if below.default is not None and (name not in value or (value[name] is None and not below.nullable)):
                value[name] = orjson.loads(below.default)
        for name, item in value.items():
            part = node.properties.get(name) or node.others
            if part is None:
                continue
            if item is None and part.default is not None and not part.nullable:
                value[name] = item = orjson.loads(part.default)
            if part.has_defaults:
                _default(part, item)
    elif isinstance(value, list) and (each := node.items) is not None:
        for at, item in enumerate(value):
            if item is None and each.default is not None and not each.nullable:
                value[at] = item = orjson.loads(each.default)
            if each.has_defaults:
                _default(each, item)
