"""Traverse all parts of a JSON schema in upstream's order (apiextensions validation.SchemaHas)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.validation.textforms import text_form

__all__ = ["has_rules", "parts", "unknown_formats"]


_NUMBERS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def parts(schema: Any) -> Iterator[Json]:
    """Yield a schema and all its parts."""
    if not isinstance(schema, dict):
        return
    yield schema
    items = schema.get("items")
    for below in items if isinstance(items, list) else (items,):
        yield from parts(below)
    for name in ("allOf", "anyOf", "oneOf"):
        for below in schema.get(name) or ():
            yield from parts(below)
    yield from parts(schema.get("not"))
    for below in (schema.get("properties") or {}).values():
        yield from parts(below)
    yield from parts(schema.get("additionalProperties"))
    for name in ("patternProperties", "definitions", "dependencies"):
        for below in (schema.get(name) or {}).values():
            yield from parts(below)
    yield from parts(schema.get("additionalItems"))


def has_rules(schema: Json) -> bool:
    """Return whether a schema has rules anywhere."""
    return any(part.get("x-kubernetes-validations") for part in parts(schema))


def unknown_formats(spec: Json) -> list[str]:
    """Return the unknown formats in the schemas of a definition, which are not validated."""
    return [
        part["format"]
        for version in spec.get("versions") or ()
        for part in parts((version.get("schema") or {}).get("openAPIV3Schema"))
        if part.get("format") and not _is_known(part.get("type") or "", part["format"])
    ]


def _is_known(kind: str, name: str) -> bool:
    if kind in ("", "string"):
        return text_form(name) is not None
    return name in _NUMBERS.get(kind, ())
