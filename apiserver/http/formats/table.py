"""Tables: the columns that kubectl prints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from apiserver.api.errors.status import bad_request
from apiserver.http.formats.negotiation import ResponseFormat
from apiserver.http.formats.view import View, partial
from apiserver.registry.definition.table import row_of_entry, table_of
from apiserver.request.messages import Request
from apiserver.storage.watchcache.entry import Entry


def parse_include_object(request: Request, chosen: ResponseFormat) -> str:
    """Return the content of a Table's rows: "Metadata", "Object", "None", or "". Raise 400."""
    if not request.query or chosen.shape != "Table":
        return ""
    include = request.params.get("includeObject", ("",))[0]
    if include not in ("", "Metadata", "Object", "None"):
        wrong = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {wrong}")
    return include


def sort_rows(view: View, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Sort the entries of a list in the order of its Table's rows."""
    order = view.resource.row_order
    return entries if order is None else sorted(entries, key=lambda entry: order(entry.obj))


def row(view: View, chosen: ResponseFormat, entry: Entry, now: datetime, include: str) -> dict[str, Any]:
    """Render an entry as a row of a Table."""
    resource, version = view.resource, view.version
    shown = version.from_hub if resource.custom and not view.stored else None
    made = row_of_entry(resource, entry, now, version.name, shown)
    return made | {"object": _row_object(view, chosen, entry, include)}


def table(
    view: View,
    chosen: ResponseFormat,
    entries: Sequence[Entry],
    meta: dict[str, Any],
    now: datetime,
    include: str,
    *,
    columns: bool = True,
) -> dict[str, Any]:
    """Render entries as a Table."""
    rows = [row(view, chosen, entry, now, include) for entry in entries]
    return table_of(view.resource, rows, meta, version=chosen.version, columns=columns)


def _row_object(view: View, chosen: ResponseFormat, entry: Entry, include: str) -> Any:
    if include == "None":
        return None
    return view.dict(entry) if include == "Object" else partial(entry.obj, chosen.version)
