"""Lists, sets and maps with limits. Too long a list is one error, and nothing in it is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver.api.fielderrors import FieldError, Path, duplicate, too_many

__all__ = ["bounded_list", "bounded_map", "bounded_set"]

Check = Callable[[Path, Any], list[FieldError]]


def bounded_list(path: Path, items: list[Any] | None, limit: int, check: Check) -> list[FieldError]:
    """Every item at `path[i]`, when there are not too many. `limit` -1 is none."""
    if not items:
        return []
    if 0 <= limit < len(items):
        return [too_many(path, len(items), limit)]
    errors: list[FieldError] = []
    for index, item in enumerate(items):
        errors += check(path[index], item)
    return errors


def bounded_set(
    path: Path,
    items: list[Any] | None,
    limit: int,
    check: Check,
    key: Callable[[Any], Any],
    shown: Callable[[Any], Any] | None = None,
) -> list[FieldError]:
    """A list whose keys must differ; repetitions come after the errors of all items. `shown` is how an error shows a
    key.
    """
    if not items:
        return []
    errors = bounded_list(path, items, limit, check)
    if 0 <= limit < len(items) or len(items) == 1:
        return errors
    seen = set()
    for index, item in enumerate(items):
        identity = key(item)
        if identity in seen:
            errors.append(duplicate(path[index], shown(item) if shown else identity))
        seen.add(identity)
    return errors


def _truncated(key: str, limit: int) -> str:
    """A long key without its middle."""
    if len(key) <= limit:
        return key
    remaining = limit - 3
    return f"{key[: (remaining + 1) // 2]}...{key[len(key) - remaining // 2 :]}"


def bounded_map(
    path: Path, items: dict[str, Any] | None, limit: int, key_limit: int, check_key: Check, check: Check | None
) -> list[FieldError]:
    """Errors of keys stand at the map, those of values at `path[key]`."""
    if not items:
        return []
    if 0 <= limit < len(items):
        return [too_many(path, len(items), limit)]
    errors: list[FieldError] = []
    for key, value in items.items():
        errors += check_key(path, key)
        if check is not None:
            errors += check(path.key(_truncated(key, key_limit)), value)
    return errors
