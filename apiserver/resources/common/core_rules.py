"""Checks of the types of all groups but those of devices and of groups of pods, whose rules are their own, and of the
label selectors that many types hold (pkg/apis/meta/v1/validation, ValidateLabelSelector). The modules of the kinds say
which rules stand between the fields of their types (`RULES.set`).
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
    """What is wrong with a selector; None is none."""
    if selector is None:
        return []
    return RULES.of(LabelSelector).errors(path, selector, ANY_VALUE if any_value else None)
