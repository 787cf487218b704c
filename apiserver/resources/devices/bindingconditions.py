"""Validate binding conditions of a device, or of a result that copies them (pkg/apis/resource/validation)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, duplicate, invalid
from apiserver.api.schema.markers import Invalid, is_set, is_unset
from apiserver.api.validation.compile import At, Step

__all__ = ["BINDING_CONDITIONS"]

_CONDITIONS: Final = ("bindingConditions", "bindingFailureConditions")


def _lists(at: At) -> list[FieldError]:
    """Require that no condition is repeated, within a list or in both lists."""
    wanted, failing = at.value.get("bindingConditions"), at.value.get("bindingFailureConditions")
    errors = at.fields(*_CONDITIONS)
    errors += [duplicate((at.path / "bindingConditions")[index], item) for index, item in _repeated(wanted)]
    repeated = dict(_repeated(failing))
    for index, condition in enumerate(failing or ()):
        path = (at.path / "bindingFailureConditions")[index]
        if index in repeated:
            errors.append(duplicate(path, condition))
        if condition in (wanted or ()):
            errors.append(invalid(path, condition, "bindingFailureConditions must not overlap with bindingConditions"))
    return errors


def _repeated(conditions: list[str] | None) -> list[tuple[int, str]]:
    listed = conditions or []
    return [(index, condition) for index, condition in enumerate(listed) if condition in listed[:index]]


#: The rules for both lists.
BINDING_CONDITIONS: Final[tuple[Step, ...]] = (
    (*_CONDITIONS, _lists),
    *(
        Invalid(missing, f"{missing} are required to use {given}", when=(is_unset(missing), is_set(given)))
        for missing, given in (_CONDITIONS, _CONDITIONS[::-1])
    ),
)
