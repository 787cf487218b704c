"""Validate that a schema is structural: no types inside combinations, which only constrain typed fields.

Facts: apiextensions-apiserver, pkg/apiserver/schema/{convert,validation,complete}.go. Errors are sorted by text, as
upstream's are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, required
from apiserver.api.objects import Json
from apiserver.cel.regex.regex import compile_pattern

__all__ = ["structural_errors", "unsupported"]

Level = Literal["root", "item", "field"]

_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
_EMPTY: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
#: Fields that combinations must not set, and the error texts.
_FORBIDDEN: Final = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_UNSUPPORTED: Final = (
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
)


def unsupported(schema: Any) -> str:
    """Return why a schema cannot be converted to a structural one; "" if it can."""
    if not isinstance(schema, dict):
        return ""
    for name, shown in _UNSUPPORTED:
        if schema.get(name) or (name == "additionalItems" and schema.get(name) is not None):
            return f"OpenAPIV3Schema '{shown}' is not supported"
    for part in _combined(schema):
        if text := unsupported(part):
            return text
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    if isinstance(schema.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    below = [schema.get("items"), *(schema.get("properties") or {}).values(), schema.get("additionalProperties")]
    return next((text for part in below if (text := unsupported(part))), "")


def _combined(schema: Json) -> Iterator[Json]:
    if schema.get("not") is not None:
        yield schema["not"]
    for name in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(name) or ()


def structural_errors(at: Path, schema: Json) -> list[FieldError]:
    """Return the errors that prevent a schema from being structural."""
    errors = _invariants(schema, "root", at) + _complete(schema, schema, at, at)
    return sorted(errors, key=lambda error: error.text)


def _invariants(schema: Json, level: Level, at: Path) -> list[FieldError]:
    kind, items, properties = schema.get("type") or "", schema.get("items"), schema.get("properties") or {}
    errors: list[FieldError] = []
    if kind == "array" and items is None:
        errors.append(required(at / "items", "must be specified"))
    if isinstance(items, dict):
        errors += _invariants(items, "item", at / "items")
    for name, part in properties.items():
        errors += _invariants(part, "field", (at / "properties").key(name))
    others = schema.get("additionalProperties")
    if others is not None:
        if level == "root":
            errors.append(forbidden(at / "additionalProperties", "must not be used at the root"))
        if isinstance(others, dict):
            errors += _invariants(others, "field", at / "additionalProperties")
    errors += _extensions(schema, at)
    first = (schema.get("allOf") or [{}])[0]
    errors += _values(schema, at, skip_any=schema.get("anyOf") == _EITHER, skip_first=first.get("anyOf") == _EITHER)
    return errors + _typed(schema, level, at) + _identity(schema, level, at)


def _extensions(schema: Json, at: Path) -> list[FieldError]:
    if not schema.get("x-kubernetes-int-or-string"):
        return []
    return [
        invalid(at / name, True, "must be false if x-kubernetes-int-or-string is true")
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
        if schema.get(name)
    ]


def _typed(schema: Json, level: Level, at: Path) -> list[FieldError]:
    kind, embedded = schema.get("type") or "", bool(schema.get("x-kubernetes-embedded-resource"))
    keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    errors: list[FieldError] = []
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        errors.append(invalid(at / "type", kind, text) if kind else required(at / "type", text))
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not keeps:
        errors.append(required(at / "type", _EMPTY[level]))
    if embedded and schema.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden(at / "additionalProperties", text))
    if level == "root" and kind not in ("", "object"):
        errors.append(invalid(at / "type", kind, "must be object at the root"))
    return errors


def _identity(schema: Json, level: Level, at: Path) -> list[FieldError]:
    """Validate the schemas of kind, apiVersion and metadata, which may set almost nothing."""
    properties = schema.get("properties") or {}
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    checked = level == "root" or embedded
    errors: list[FieldError] = []
    for name in ("kind", "apiVersion"):
        kind = properties.get(name, {"type": "string"}).get("type") or ""
        if checked and kind != "string":
            errors.append(invalid((at / "properties").key(name) / "type", kind, "must be string"))
    if (metadata := properties.get("metadata")) is not None:
        place = (at / "properties").key("metadata")
        if checked and (metadata.get("type") or "") != "object":
            errors.append(invalid(place / "type", metadata.get("type") or "", "must be object"))
        if level == "root" and _says_more(metadata):
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            errors.append(forbidden(place, text))
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not properties:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(at / "properties", text))
    return errors


def _says_more(metadata: Json) -> bool:
    rest = {name for name, value in metadata.items() if value not in (None, "", False, [], {})} - {"type", "default"}
    if set(metadata.get("properties") or {}) <= {"name", "generateName"}:
        rest.discard("properties")
    return bool(rest)


def _values(schema: Json, at: Path, *, skip_any: bool, skip_first: bool) -> list[FieldError]:
    """Validate the combinations of a schema, including nested ones, and its pattern."""
    errors: list[FieldError] = []
    if not skip_any:
        for index, part in enumerate(schema.get("anyOf") or ()):
            errors += _nested(part, (at / "anyOf")[index])
    for index, part in enumerate(schema.get("allOf") or ()):
        errors += _nested(part, (at / "allOf")[index], skip_any=skip_first and index == 0)
    for index, part in enumerate(schema.get("oneOf") or ()):
        errors += _nested(part, (at / "oneOf")[index])
    if schema.get("not") is not None:
        errors += _nested(schema["not"], at / "not")
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except ValueError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            errors.append(invalid(at / "pattern", pattern, text))
    return errors


def _nested(schema: Json, at: Path, *, skip_any: bool = False) -> list[FieldError]:
    errors = _values(schema, at, skip_any=skip_any, skip_first=False)
    if isinstance(schema.get("items"), dict):
        errors += _nested(schema["items"], at / "items")
    for name, part in (schema.get("properties") or {}).items():
        errors += _nested(part, (at / "properties").key(name))
    if schema.get("type"):
        errors.append(forbidden(at / "type", "must be empty to be structural"))
    if schema.get("additionalProperties") not in (None, False):
        errors.append(forbidden(at / "additionalProperties", "must be undefined to be structural"))
    errors += [forbidden(at / name, text) for name, text in _FORBIDDEN if schema.get(name) not in (None, "", False, [])]
    if "metadata" in (schema.get("properties") or {}):
        text = "must not be specified in a nested context"
        errors.append(forbidden((at / "properties").key("metadata"), text))
    return errors


def _complete(values: Json, schema: Json | None, at: Path, said: Path) -> list[FieldError]:
    """Require that fields of combinations are declared outside: `said` is their path, `at` the required one."""
    if schema is None:
        return [required(at, f"because it is defined in {said}")]
    errors: list[FieldError] = []
    if values.get("not") is not None:
        errors += _complete_nested(values["not"], schema, at, said / "not")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(values.get(name) or ()):
            errors += _complete_nested(part, schema, at, (said / name)[index])
    return errors


def _complete_nested(values: Json, schema: Json | None, at: Path, said: Path) -> list[FieldError]:
    if schema is None:
        return [required(at, f"because it is defined in {said}")]
    errors = _complete(values, schema, at, said)
    if isinstance(values.get("items"), dict):
        items = schema.get("items")
        errors += _complete_nested(
            values["items"], items if isinstance(items, dict) else None, at / "items", said / "items"
        )
    for name, part in (values.get("properties") or {}).items():
        errors += _complete_nested(
            part,
            (schema.get("properties") or {}).get(name),
            (at / "properties").key(name),
            (said / "properties").key(name),
        )
    return errors
