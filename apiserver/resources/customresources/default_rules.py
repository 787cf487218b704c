"""Validate the defaults in a schema: complete, without unknown fields, and valid by that schema.

Facts: apiextensions-apiserver, pkg/apiserver/schema/defaulting/validation.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apiserver.api.codec.codec import DecodeError
from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.validation.structural import ABSENT, Structural
from apiserver.resources.customresources.coercion import IDENTITY, Coercion, Malformed, plain
from apiserver.resources.customresources.rulechecks import Budget, RuleChecks

__all__ = ["default_errors"]


def default_errors(at: Path, schema: Json) -> list[FieldError]:
    """Validate the defaults of a structural schema, except those of maps, which are forbidden anyway."""
    return _errors(at, {**schema, "x-kubernetes-embedded-resource": True}, Budget(), root=True)


def _errors(
    at: Path, schema: Json, budget: Budget, place: tuple[str, ...] = (), *, root: bool = False
) -> list[FieldError]:
    """Validate the defaults. `place` is the path within an embedded object's metadata, kind or apiVersion, or empty."""
    errors: list[FieldError] = []
    default = schema.get("default")
    if default is not None:
        errors += _default(at / "default", schema, default, budget, place)
    items = schema.get("items")
    if isinstance(items, dict):
        errors += _errors(at / "items", items, budget)
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    for name, part in (schema.get("properties") or {}).items():
        # Another rule forbids defaults of metadata at the root.
        if root and name in IDENTITY:
            continue
        inside = (*place, name) if place or (embedded and name in IDENTITY) else ()
        errors += _errors((at / "properties").key(name), part, budget, inside)
    return errors


def _default(at: Path, schema: Json, default: Any, budget: Budget, place: tuple[str, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    default = plain(default)
    if place:
        if problem := _metadata_problem(place, default):
            return [invalid(at, default, f"must result in valid metadata: {problem}")]
    else:
        try:
            if Coercion({"properties": {"default": schema}}).unknown({"default": default}):
                errors.append(invalid(at, default, "must not have unknown fields"))
        except Malformed as malformed:
            error = malformed.error
            return [*errors, replace(error, field=f"{at}{error.field.removeprefix('default')}")]
    structural = Structural(_of_any_type(schema))
    found = structural.embedded(default, None, at) or structural.limits(default, ABSENT, at)
    if found:
        return errors + found
    checks = RuleChecks(schema)
    found = checks.errors(at, default, default, budget=budget)
    return errors + (found or checks.errors(at, default, ABSENT, budget=budget))


def _of_any_type(schema: Json) -> Json:
    """Return the schema without the int-or-string marker.

    Upstream validates defaults (except of objects) against the marker without a type, so any value is valid.
    """
    made = {name: part for name, part in schema.items() if name != "x-kubernetes-int-or-string"}
    if isinstance(schema.get("properties"), dict):
        made["properties"] = {name: _of_any_type(part) for name, part in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            made[name] = _of_any_type(schema[name])
    return made


def _metadata_problem(place: tuple[str, ...], default: Any) -> str:
    """Return the problem of an embedded object that has the default at `place` in metadata, kind or apiVersion."""
    value: Any = default
    for name in reversed(place):
        value = {name: value}
    try:
        Coercion({"properties": {"in": {"x-kubernetes-embedded-resource": True}}}).unknown({"in": value})
    except DecodeError as error:
        return str(error)
    return ""
