"""The Table form: rows of cells by the columns of a resource, as kubectl prints them.

Cells without a time are computed once per entry and shared by all readers. Ages are computed for each request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.registry.definition.resource import Resource
    from apiserver.storage.watchcache.entry import Entry

__all__ = ["definitions", "row_of", "row_of_entry", "table_of"]


_KEY: Final = "cells"
#: The last column of kinds without columns of their own.
_CREATED: Final = "Created At"


def definitions(resource: Resource) -> list[Json]:
    """Return the column definitions of a Table."""
    return [
        {"name": c.name, "type": c.type, "format": c.format, "description": c.description, "priority": c.priority}
        for c in resource.columns
        if c.is_defined
    ]


def row_of(resource: Resource, obj: Json, now: datetime) -> Json:
    """Return an object's cells, and its row's conditions if it has any."""
    cells = [column.cell(obj, now) if column.timed else column.cell(obj) for column in resource.columns]
    return _row(resource, obj, cells)


def row_of_entry(
    resource: Resource, entry: Entry, now: datetime, version: str = "", shown: Callable[[Json], Json] | None = None
) -> Json:
    """Return the row of an entry, with its untimed cells cached at the entry.

    Each `version` has columns of its own. `shown` converts the stored object to the form that the columns read.
    """
    obj = entry.obj if shown is None else shown(entry.obj)
    key = (_KEY, resource.group, resource.plural, version)
    kept: list[Any] | None = entry.encodings.get(key)
    if kept is None:
        kept = entry.encodings[key] = [None if column.timed else column.cell(obj) for column in resource.columns]
    cells = kept.copy()
    for index in _timed(resource.columns):
        cells[index] = resource.columns[index].cell(obj, now)
    return _row(resource, obj, cells)


@lru_cache(maxsize=256)
def _timed(columns: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(index for index, column in enumerate(columns) if column.timed)


def _row(resource: Resource, obj: Json, cells: list[Any]) -> Json:
    row: Json = {"cells": cells}
    if resource.row_conditions is not None and (conditions := resource.row_conditions(obj)):
        row["conditions"] = conditions
    return row


def table_of(
    resource: Resource, rows: Sequence[Json], meta: Json, *, version: str = "v1", columns: bool = True
) -> Json:
    """Return the whole Table.

    A watch sends the columns once (`columns`) and null after that. A kind without columns of its own shows no rows as
    null.
    """
    own = resource.columns[-1].name != _CREATED
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": meta,
        "columnDefinitions": definitions(resource) if columns else None,
        "rows": list(rows) if rows or own else None,
    }
