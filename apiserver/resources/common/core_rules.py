"""Collect the checks of all groups but those of devices and pod groups, and the rules of label selectors.

The modules of the kinds add the rules that cross fields of their types (`RULES.set`). Facts:
pkg/apis/meta/v1/validation, ValidateLabelSelector.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.types.meta import ANY_VALUE, LabelSelector
from apiserver.api.validation.compile import Rules

__all__ = ["RULES", "validate_label_selector"]


RULES: Final = Rules()


def validate_label_selector(path: Path, selector: Json | None, *, any_value: bool = False) -> list[FieldError]:
    """Validate a selector; None is valid."""
    if selector is None:
        return []
    return RULES.of(LabelSelector).errors(path, selector, ANY_VALUE if any_value else None)
