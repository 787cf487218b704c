"""Test the conditions of a Job's status."""

from __future__ import annotations

from apiserver.api.objects import Json

__all__ = ["has_status", "is_finished", "is_true"]


def has_status(status: Json, kind: str, value: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == value
        for condition in status.get("conditions") or ()
    )


def is_true(status: Json, kind: str) -> bool:
    return has_status(status, kind, "True")


def is_finished(status: Json) -> bool:
    return is_true(status, "Complete") or is_true(status, "Failed")
