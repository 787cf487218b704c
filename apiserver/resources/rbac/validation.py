"""Validate roles and bindings. Facts: pkg/apis/rbac/validation."""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.api.types.rbac import PolicyRule, RoleRef, Subject
from apiserver.resources.common.core_rules import RULES, validate_label_selector

__all__ = ["GROUP", "validate_aggregation", "validate_binding", "validate_rules"]


GROUP: Final = "rbac.authorization.k8s.io"


class Env(NamedTuple):
    """Context of the rules: whether the role or binding is `namespaced`."""

    namespaced: bool


def validate_rules(rules: list[Json] | None, *, namespaced: bool) -> list[FieldError]:
    return _each(PolicyRule, Path("rules"), rules, Env(namespaced))


def _each(kind: Struct, path: Path, items: list[Json] | None, env: Env) -> list[FieldError]:
    checks = RULES.of(kind)
    return [error for index, item in enumerate(items or ()) for error in checks.errors(path[index], item, env)]


def validate_aggregation(aggregation: Json | None, *, any_value: bool = False) -> list[FieldError]:
    """Validate an aggregation rule.

    `any_value`: label values are not validated, because the stored object already has an invalid one.
    """
    if aggregation is None:
        return []
    path = Path("aggregationRule") / "clusterRoleSelectors"
    selectors = aggregation.get("clusterRoleSelectors")
    if not selectors:
        return [required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")]
    errors: list[FieldError] = []
    for index, selector in enumerate(selectors):
        found = validate_label_selector(path[index], selector, any_value=any_value)
        errors += found
        if found:
            errors.append(invalid(path[index], None, "invalid label selector."))
    return errors


def validate_binding(obj: Json, *, namespaced: bool) -> list[FieldError]:
    """Validate the role reference and the subjects of a binding."""
    env = Env(namespaced)
    errors = RULES.of(RoleRef).errors(Path("roleRef"), obj.get("roleRef") or {}, env)
    return errors + _each(Subject, Path("subjects"), obj.get("subjects"), env)
