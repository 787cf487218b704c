"""Binding conditions and binding failure conditions of a device, or of a result that copies them (api.md 4.5)."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Path, duplicate, invalid
from apiserver.resources.devices.lists import bounded_list
from apiserver.resources.devices.names import label_key

__all__ = ["validate_binding_conditions"]

LIMIT: Final = 4


def validate_binding_conditions(path: Path, holder: dict[str, Any]) -> list[FieldError]:
    """Both lists or none, and nothing in both."""
    wanted, failing = holder.get("bindingConditions"), holder.get("bindingFailureConditions")
    if not wanted and not failing:
        return []
    at, at_failing = path / "bindingConditions", path / "bindingFailureConditions"
    errors = bounded_list(at, wanted, LIMIT, label_key) + bounded_list(at_failing, failing, LIMIT, label_key)
    errors += [duplicate(at[index], condition) for index, condition in _repeated(wanted)]
    repeated = dict(_repeated(failing))
    for index, condition in enumerate(failing or ()):
        if index in repeated:
            errors.append(duplicate(at_failing[index], condition))
        if condition in (wanted or ()):
            errors.append(
                invalid(
                    at_failing[index], condition, "bindingFailureConditions must not overlap with bindingConditions"
                )
            )
    if not wanted:
        errors.append(invalid(at, wanted, "bindingConditions are required to use bindingFailureConditions"))
    if not failing:
        errors.append(invalid(at_failing, failing, "bindingFailureConditions are required to use bindingConditions"))
    return errors


def _repeated(conditions: list[str] | None) -> list[tuple[int, str]]:
    listed = conditions or []
    return [(index, condition) for index, condition in enumerate(listed) if condition in listed[:index]]
