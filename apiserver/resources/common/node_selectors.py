"""Validate core/v1 node selectors (pkg/apis/core/validation)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.core.scheduling import NodeSelectorRequirement
from apiserver.api.types.meta import ANY_VALUE
from apiserver.api.values.names import dns_subdomain
from apiserver.resources.common.core_rules import RULES

__all__ = ["validate_node_selector", "validate_node_selector_term", "validate_requirement"]


_FIELD: Final = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"


def validate_requirement(path: Path, requirement: Json, label_values: bool = True) -> list[FieldError]:
    """Validate a requirement on a node's labels."""
    return RULES.of(NodeSelectorRequirement).errors(path, requirement, None if label_values else ANY_VALUE)


def _field_requirement(path: Path, requirement: Json) -> list[FieldError]:
    """Validate a requirement on a node's fields. Only metadata.name exists."""
    errors: list[FieldError] = []
    operator, values, key = requirement.get("operator", ""), requirement.get("values") or [], requirement.get("key", "")
    if operator not in ("In", "NotIn"):
        errors.append(invalid(path / "operator", Named(operator), "not a valid selector operator"))
    elif len(values) != 1:
        errors.append(required(path / "values", _FIELD))
    if key != "metadata.name":
        errors.append(invalid(path / "key", key, "not a valid field selector key"))
    else:
        for index, value in enumerate(values):
            errors += [invalid((path / "values")[index], value, text) for text in dns_subdomain(value)]
    return errors


def validate_node_selector_term(path: Path, term: Json, label_values: bool = True) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        errors += validate_requirement((path / "matchExpressions")[index], requirement, label_values)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        errors += _field_requirement((path / "matchFields")[index], requirement)
    return errors


def validate_node_selector(path: Path, selector: Json, label_values: bool = True) -> list[FieldError]:
    terms = selector.get("nodeSelectorTerms") or []
    at = path / "nodeSelectorTerms"
    if not terms:
        return [required(at, "must have at least one node selector term")]
    return [
        error
        for index, term in enumerate(terms)
        for error in validate_node_selector_term(at[index], term, label_values)
    ]
