"""Binding conditions and binding failure conditions of a device, or of a result that copies them
(pkg/apis/resource/validation).
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, duplicate, invalid
from apiserver.api.validation.compile import At

__all__ = ["CONDITIONS", "binding_conditions"]

#: The two lists.
CONDITIONS: Final = ("bindingConditions", "bindingFailureConditions")


def binding_conditions(at: At) -> list[FieldError]:
    """Both lists or none, and nothing in both."""
    wanted, failing = at.value.get("bindingConditions"), at.value.get("bindingFailureConditions")
    if not wanted and not failing:
        return []
    path, failing_path = at.path / "bindingConditions", at.path / "bindingFailureConditions"
    errors = at.field("bindingConditions") + at.field("bindingFailureConditions")
    errors += [duplicate(path[index], condition) for index, condition in _repeated(wanted)]
    repeated = dict(_repeated(failing))
    for index, condition in enumerate(failing or ()):
        if index in repeated:
            errors.append(duplicate(failing_path[index], condition))
        if condition in (wanted or ()):
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid(failing_path[index], condition, detail))
    if not wanted:
        errors.append(invalid(path, wanted, "bindingConditions are required to use bindingFailureConditions"))
    if not failing:
        errors.append(invalid(failing_path, failing, "bindingFailureConditions are required to use bindingConditions"))
    return errors


def _repeated(conditions: list[str] | None) -> list[tuple[int, str]]:
    listed = conditions or []
    return [(index, condition) for index, condition in enumerate(listed) if condition in listed[:index]]
