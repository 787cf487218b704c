"""Validate metav1 conditions (apimachinery's pkg/apis/meta/v1/validation)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from apiserver.api.objects import Json
from apiserver.api.validation.items import each_unique
from apiserver.api.values.names import NamePattern, label_key

__all__ = ["validate_conditions"]


_STATUSES: Final = ("False", "True", "Unknown")
_REASON_LIMIT: Final = 1024
_MESSAGE_LIMIT: Final = 32768
_REASON: Final = NamePattern(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    " characters or '_,:', and must end with an alphanumeric character or '_'",
    r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def validate_conditions(path: Path, conditions: list[Json] | None) -> list[FieldError]:
    errors: list[FieldError] = []
    for at, condition, is_repeated in each_unique(path, conditions, "type"):
        kind = condition.get("type", "")
        if is_repeated:
            errors.append(duplicate(at / "type", kind))
        errors += _condition(at, condition, kind)
    return errors


def _condition(path: Path, condition: Json, kind: str) -> list[FieldError]:
    errors = [invalid(path / "type", kind, text) for text in label_key(kind)]
    status = condition.get("status", "")
    if status not in _STATUSES:
        errors.append(not_supported(path / "status", Named(status), _STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        errors.append(invalid(path / "observedGeneration", generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        errors.append(required(path / "lastTransitionTime"))
    reason = condition.get("reason", "")
    if not reason:
        errors.append(required(path / "reason"))
    else:
        if not _REASON.matches(reason):
            errors.append(invalid(path / "reason", reason, _REASON.text))
        if len(reason.encode()) > _REASON_LIMIT:
            errors.append(too_long(path / "reason", _REASON_LIMIT))
    if len(condition.get("message", "").encode()) > _MESSAGE_LIMIT:
        errors.append(too_long(path / "message", _MESSAGE_LIMIT))
    return errors
