"""Conditions of objects for people. The status of a custom resource may have any form."""

from __future__ import annotations

from typing import Any

from kubedra.runtime.objects import Json


def conditions_of(status: Json) -> list[Json]:
    """Return the conditions of a status; those without type and status are omitted."""
    return [found for found in mappings(status.get("conditions")) if "type" in found and "status" in found]


def describe_condition(condition: Json) -> str:
    """Return a condition as `TYPE=STATUS`, with its message unless it is True."""
    text = condition.get("message") or condition.get("reason")
    reason = f" ({text})" if condition["status"] != "True" and text else ""
    return f"{condition['type']}={condition['status']}{reason}"


def mapping(value: Any) -> Json:
    """Return a value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[Json]:
    """Return the objects of a list; empty for another value."""
    return [found for found in value if isinstance(found, dict)] if isinstance(value, list) else []
