"""Build the table columns of custom resources. Facts: pkg/registry/customresource/tableconvertor."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.values.durations import age
from apiserver.registry.definition.resource import Column
from apiserver.resources.common.columns import NAME
from apiserver.resources.customresources.jsonpaths import JsonPathError, compile_path, shown

__all__ = ["columns_of"]


_AGE: Final = {
    "name": "Age",
    "type": "date",
    "description": "Time since the object was created.",
    "jsonPath": ".metadata.creationTimestamp",
}


def columns_of(version: Json) -> tuple[Column, ...]:
    """Return the name and the columns of a version; by default its age.

    If any column has an invalid path, only the name is left.
    """
    try:
        own = [_column(item) for item in version.get("additionalPrinterColumns") or [_AGE]]
    except JsonPathError:
        own = []
    return (NAME, *own)


def _column(item: Json) -> Column:
    kind, find = item["type"], compile_path(item["jsonPath"])

    def cell(obj: Json, now: datetime | None = None) -> Any:
        found = find(obj)
        return _cell(kind, found[0], now) if found else None

    return Column(
        name=item["name"],
        cell=cell,
        type=kind,
        format=item.get("format", ""),
        priority=item.get("priority", 0),
        timed=kind == "date",
        description=item.get("description")
        or f"Custom resource definition column (in JSONPath format): {item['jsonPath']}",
    )


def _cell(kind: str, value: Any, now: datetime | None) -> Any:
    """Convert a value to the type of its column; None if it has another type."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "string":
            return shown(value)
        case "integer":
            whole = int(value) if number else None
            # Floats outside the range of integers become the minimum integer.
            return whole if whole is None or -(2**63) <= whole < 2**63 else -(2**63)
        case "number":
            return value if number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date" if isinstance(value, str):
            assert now is not None
            try:
                return age(value, now)
            except ValueError:
                return "<invalid>"
    return None
