"""Defaults in a schema: complete, without unknown fields, and valid by the schema that they stand in.

Facts: apiextensions-apiserver, pkg/apiserver/schema/defaulting/validation.go.
"""

from __future__ import annotations

from typing import Any

from apiserver.api.codec import DecodeError
from apiserver.api.fielderrors import FieldError, Path, invalid
from apiserver.api.validation.structural import ABSENT, Structural
from apiserver.resources.customresources.coercion import Coercion, plain
from apiserver.resources.customresources.rulechecks import Budget, RuleChecks

__all__ = ["default_errors"]

Json = dict[str, Any]


def default_errors(at: Path, schema: Json) -> list[FieldError]:
    """What is wrong with the defaults of a structural schema. Those of maps are not allowed, and not looked at."""
    return _errors(at, {**schema, "x-kubernetes-embedded-resource": True}, Budget(), root=True)


def _errors(at: Path, schema: Json, budget: Budget, *, root: bool = False) -> list[FieldError]:
    errors: list[FieldError] = []
    default = schema.get("default")
    if default is not None:
        errors += _default(at / "default", schema, default, budget)
    items = schema.get("items")
    if isinstance(items, dict):
        errors += _errors(at / "items", items, budget)
    for name, part in (schema.get("properties") or {}).items():
        # Metadata has no defaults of its own at the root, which is another rule.
        if not (root and name in ("metadata", "kind", "apiVersion")):
            errors += _errors((at / "properties").key(name), part, budget)
    return errors


def _default(at: Path, schema: Json, default: Any, budget: Budget) -> list[FieldError]:
    errors: list[FieldError] = []
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    try:
        pruned = Coercion({"properties": {"default": schema}}).pruned({"default": default})[0]
    except DecodeError as error:
        return [invalid(at, default, str(error))]
    if pruned.get("default") != plain(default) and not embedded:
        errors.append(invalid(at, default, "must not have unknown fields"))
    structural = Structural(schema)
    found = structural.embedded(default, None, at) or structural.limits(default, ABSENT, at)
    if found:
        return errors + found
    checks = RuleChecks(schema)
    found = checks.errors(at, default, default, budget=budget)
    return errors + (found or checks.errors(at, default, ABSENT, budget=budget))
