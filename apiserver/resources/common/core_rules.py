"""Checks of the types of all groups but those of devices and of groups of pods, whose rules are their own, and of the
label selectors that many types hold (pkg/apis/meta/v1/validation, ValidateLabelSelector). The modules of the kinds say
which rules stand between the fields of their types (`RULES.set`).
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, required
from apiserver.api.types.meta import LabelSelector, LabelSelectorRequirement
from apiserver.api.validation.compile import At, Rules

__all__ = ["RULES", "validate_label_selector"]

Json = dict[str, Any]

RULES: Final = Rules()
#: For `env`: values of expressions may be any, since the stored object has wrong ones.
_ANY_VALUE: Final = "any value"


def validate_label_selector(path: Path, selector: Json | None, *, any_value: bool = False) -> list[FieldError]:
    """What is wrong with a selector; None is none."""
    if selector is None:
        return []
    return RULES.of(LabelSelector).errors(path, selector, _ANY_VALUE if any_value else None)


def _expression(at: At) -> list[FieldError]:
    operator, values, path = at.value.get("operator", ""), at.value.get("values"), at.path / "values"
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(path, "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(forbidden(path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    else:
        errors.append(invalid(at.path / "operator", Named(operator), "not a valid selector operator"))
    return errors + at.field("key") + (at.field("values") if at.env != _ANY_VALUE else [])


RULES.set(LabelSelectorRequirement, _expression, by_rules=("key", "values"))
