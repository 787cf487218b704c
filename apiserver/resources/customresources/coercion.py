"""Coerce objects to a structural schema: prune unknown fields and stray nulls, and set defaults.

    coercion = Coercion(schema)
    obj, unknown = coercion.pruned(obj)     a new object, and the paths of the dropped fields
    coercion.default(obj)                   in place
    coerce_defaults(schema)                 the same for the defaults in a schema

Facts: apiextensions-apiserver, pkg/apiserver/schema/pruning and defaulting, and the coercing decoder of
customresource_handler.go. Pruning drops fields that the schema does not have, unless it preserves unknown fields there.
It also drops nulls that the schema neither allows nor replaces by a default. Integral floats become integers, and map
keys are sorted, as Go's encoder does.
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


#: Integral floats below _EXACT are exact. From _LARGEST on, JSON encoders do not write them as integers.
_EXACT: Final = 2.0**53
_LARGEST: Final = 2.0**64
#: The fields of every object, including embedded ones.
IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})


class TooLarge(ValueError):
    """A number exceeds the range of a float."""


class Malformed(DecodeError):
    """An embedded object's kind, apiVersion or metadata is invalid. `error` is the cause."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(error.text)
        self.error = error


def plain(value: Any) -> Any:
    """Normalize a value without a schema: sorted keys, integral numbers as integers. Raise TooLarge."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    """Convert a number as Go does: 64-bit integers, larger ones to floats, integral floats to integers."""
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else _scalar(float(value))
    if type(value) is not float:
        return value
    if math.isinf(value):
        raise TooLarge
    if not value.is_integer() or abs(value) >= _LARGEST:
        return value
    # Go writes the shortest digits that identify the float, and zeros up to the decimal point.
    return int(value) if abs(value) < _EXACT else int(Decimal(repr(value)))


class _Node:
    """The compiled schema of one location.

    `others` is the node of additional properties, None if there is none. `keeps`: unknown fields are preserved.
    """

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
#: `additionalProperties: true` has no schema: maps, also those in lists, lose all fields.
_SCALARS: Final = _Node({"nullable": True})


class Coercion:
    """A compiled schema. None means a version without a schema, of which only metadata is known."""

    def __init__(self, schema: Json | None, *, keeps_all: bool = False) -> None:
        self._root = _Node(schema or {})
        self._root.embedded = True
        self._keeps_all = keeps_all
        #: Whether a default may add unknown fields to the metadata of an embedded object.
        self._cuts_defaults = self._root.has_defaults and _embeds(schema or {})

    def unknown(self, obj: Json) -> list[str]:
        """Return the paths of unknown fields. Raise Malformed, like `pruned`.

        Unknown metadata fields of embedded objects are dropped without a report.
        """
        run = _Pruning()
        run.prune(self._root, obj, "")
        return sorted(run.unknown)

    def pruned(self, obj: Json, *, keeps_nulls: bool = False) -> tuple[Json, list[str]]:
        """Return the pruned object, and the sorted paths of the dropped fields. Raise Malformed.

        The object's own metadata is not pruned. `keeps_nulls`: nulls that the schema does not allow stay too.
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
        """Set the defaults of the schema in place."""
        if self._root.has_defaults:
            _default(self._root, obj)
        if self._cuts_defaults:
            made, _ = self.pruned(obj, keeps_nulls=True)
            obj.clear()
            obj.update(made)


def _embeds(schema: Any) -> bool:
    """Return whether any part of a schema is an embedded object."""
    if isinstance(schema, list):
        return any(map(_embeds, schema))
    return isinstance(schema, dict) and (
        schema.get("x-kubernetes-embedded-resource") is True or any(map(_embeds, schema.values()))
    )


def coerce_defaults(schema: Json) -> None:
    """Prune unknown metadata fields of embedded objects from a valid schema's defaults, in place.

    Defaults within such metadata are not pruned.
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
    """The state of pruning one object, because several threads share a schema.

    `unknown` are the paths of the dropped fields, `embedded` those in metadata of embedded objects.
    """

    __slots__ = ("_keeps_nulls", "embedded", "unknown")

    def __init__(self, *, keeps_nulls: bool = False) -> None:
        self._keeps_nulls = keeps_nulls
        self.unknown: list[str] = []
        self.embedded: list[str] = []

    def prune(self, node: _Node, value: Any, path: str, *, keeps: bool = False) -> Any:
        """Prune a value. `keeps`: it is an item of a list that preserves unknown fields in all its items."""
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
        """Prune an item of a list without an item schema: maps lose all fields."""
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
        """Prune apiVersion, kind or metadata of an embedded object."""
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
