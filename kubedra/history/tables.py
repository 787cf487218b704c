"""Tables of the API as kubectl prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubedra.runtime.objects import Json

__all__ = ["ACCEPT", "table_lines"]

#: Requests a table, from a server without tables the objects.
ACCEPT = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def table_lines(table: Json, *, wide: bool = False, namespaces: bool = False) -> Iterator[str]:
    """Yield the lines of a table, header first. `wide` adds the columns of lower priority."""
    shown = [at for at, column in enumerate(table["columnDefinitions"]) if wide or not column.get("priority")]
    head = [table["columnDefinitions"][at]["name"].upper() for at in shown]
    rows = [[_cell(row["cells"][at]) for at in shown] for row in table.get("rows") or ()]
    if namespaces:
        head = ["NAMESPACE", *head]
        rows = [
            [row["object"]["metadata"].get("namespace", ""), *cells]
            for row, cells in zip(table.get("rows") or (), rows, strict=True)
        ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield _line(row, widths)


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "   ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
