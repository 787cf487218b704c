"""Rules of roles and bindings. Facts: pkg/apis/rbac/validation."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, not_supported, required
from apiserver.api.values.names import dns_subdomain, path_segment
from apiserver.resources.common.core_rules import validate_label_selector

__all__ = ["GROUP", "validate_aggregation", "validate_binding", "validate_rules"]

Json = dict[str, Any]

GROUP: Final = "rbac.authorization.k8s.io"
_REF: Final = Path("roleRef")
_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")


def validate_rules(rules: list[Json] | None, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(rules or ()):
        errors += _rule(rule, Path("rules")[index], namespaced=namespaced)
    return errors


def _rule(rule: Json, path: Path, *, namespaced: bool) -> list[FieldError]:
    """A rule is about resources or about other paths, never about both."""
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(path / "verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            errors.append(invalid(path / "nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            errors.append(
                invalid(
                    path / "nonResourceURLs", urls, "rules cannot apply to both regular resources and non-resource URLs"
                )
            )
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(path / "apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(path / "resources", "resource rules must supply at least one resource"))
    return errors


def validate_aggregation(aggregation: Json | None, *, any_value: bool = False) -> list[FieldError]:
    """`any_value`: label values need no check, because the stored object had a bad one already."""
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
    """What it refers to and whom it is for."""
    ref = obj.get("roleRef") or {}
    group, kind, name = ref.get("apiGroup", ""), ref.get("kind", ""), ref.get("name", "")
    errors: list[FieldError] = []
    if group != GROUP:
        errors.append(not_supported(_REF / "apiGroup", group, [GROUP]))
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]
    if kind not in kinds:
        errors.append(not_supported(_REF / "kind", kind, kinds))
    if not name:
        errors.append(required(_REF / "name"))
    errors += [invalid(_REF / "name", name, text) for text in (path_segment(name) if name else ())]
    for index, subject in enumerate(obj.get("subjects") or ()):
        errors += _subject(subject, Path("subjects")[index], namespaced=namespaced)
    return errors


def _subject(subject: Json, path: Path, *, namespaced: bool) -> list[FieldError]:
    kind, group, name = subject.get("kind", ""), subject.get("apiGroup", ""), subject.get("name", "")
    errors = [] if name else [required(path / "name")]
    if kind == "ServiceAccount":
        errors += [invalid(path / "name", name, text) for text in (dns_subdomain(name) if name else ())]
        if group:
            errors.append(not_supported(path / "apiGroup", group, [""]))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(path / "namespace"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            errors.append(not_supported(path / "apiGroup", group, [GROUP]))
    else:
        errors.append(not_supported(path / "kind", kind, ["ServiceAccount", "User", "Group"]))
    return errors
