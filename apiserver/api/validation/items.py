"""The items of lists with their paths, for rules that validate items themselves.

`Limits.unique` reports the repetitions of a list after all its items. `each_unique` is for rules that report them among
the other errors of an item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apiserver.api.errors.field_errors import Path

__all__ = ["each_item", "each_unique"]


def each_item(path: Path, items: Iterable[Any] | None) -> Iterator[tuple[Path, Any]]:
    """Yield each item of a list with its path."""
    for index, item in enumerate(items or ()):
        yield path[index], item


def each_unique(path: Path, items: Iterable[Any] | None, *fields: str) -> Iterator[tuple[Path, Any, bool]]:
    """Yield each item with its path, and whether an earlier item has the same values in the fields.

    Without fields whole items are compared. An absent field is equal to an empty one.
    """
    seen = set()
    for at, item in each_item(path, items):
        key = tuple(item.get(field) or "" for field in fields) if fields else item
        yield at, item, key in seen
        seen.add(key)
