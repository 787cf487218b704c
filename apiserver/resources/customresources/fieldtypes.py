"""Convert a structural schema to types for server-side apply and managed fields.

Facts: kube-openapi, pkg/schemaconv/openapi.go. A schema that preserves unknown fields accepts undeclared fields at all
levels below. Fields without type or properties are merged by their values.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from apiserver.api.schema.language import (
    BOOL,
    DEDUCED,
    FLOAT64,
    STRING,
    Field,
    ListOf,
    ListType,
    MapOf,
    Scalar,
    Struct,
    Type,
    field,
)
from apiserver.api.types.meta import TYPE_META, ObjectMeta

__all__ = ["fields_of_kind"]


#: Any scalar: formats other than byte, and integers that may be strings.
_SCALAR: Final = Scalar("scalar", "interface {}", "json")


def fields_of_kind(schema: Json | None, *, keeps_all: bool) -> tuple[tuple[Field, ...], Type | None]:
    """Return the declared fields of a kind, and the type of other fields (None: not allowed)."""
    root = schema or {}
    keeps = keeps_all or schema is None or bool(root.get("x-kubernetes-preserve-unknown-fields"))
    own = ("apiVersion", "kind", "metadata")
    declared = tuple(
        _field(name, part, keeps) for name, part in (root.get("properties") or {}).items() if name not in own
    )
    return (TYPE_META, field("metadata", 0, ObjectMeta, omit=False), *declared), DEDUCED if keeps else None


def _field(name: str, schema: Json, keeps: bool) -> Field:
    return field(name, 0, _type(schema, keeps), pointer=True, default=schema.get("default"))


def _type(schema: Json, keeps: bool) -> Type:
    keeps = keeps or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    match schema.get("type") or "":
        case "object":
            return _map(schema, keeps)
        case "array":
            return _list(schema, keeps)
        case "integer" | "number":
            return FLOAT64
        case "boolean":
            return BOOL
        case "string":
            return STRING if schema.get("format", "") in ("", "byte") else _SCALAR
    if schema.get("properties") or schema.get("additionalProperties"):
        return _map(schema, keeps)
    return DEDUCED


def _map(schema: Json, keeps: bool) -> Type:
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if isinstance(others, dict):
        rest: Type | None = _type(others, keeps)
    elif others or (others is None and (keeps or not (properties or embedded))):
        rest = DEDUCED
    else:
        rest = None
    if not properties and not embedded and rest is not None:
        return MapOf(rest, atomic=atomic)
    fields = tuple(_field(name, part, keeps) for name, part in properties.items())
    if embedded:
        own = [field("metadata", 0, ObjectMeta, pointer=True)]
        own += [field(name, 0, STRING, pointer=True) for name in ("apiVersion", "kind")]
        fields = (*own, *(item for item in fields if item.name not in ("apiVersion", "kind", "metadata")))
    return Struct("io.k8s.custom.Object", fields, atomic=atomic, others=rest)


def _list(schema: Json, keeps: bool) -> ListOf:
    items = schema.get("items")
    item = _type(items, keeps) if isinstance(items, dict) else DEDUCED
    kind: ListType = schema.get("x-kubernetes-list-type") or "atomic"
    return ListOf(item, kind, tuple(schema.get("x-kubernetes-list-map-keys") or ()) if kind == "map" else ())
