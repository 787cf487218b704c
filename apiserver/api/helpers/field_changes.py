"""The differences of two objects, by field: `status.conditions[Ready].status: False → True`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from apiserver.api.objects import Json

__all__ = ["FieldChange", "compare_objects"]

#: Fields that every write changes.
_UNCOMPARED: Final = {"metadata": frozenset({"managedFields", "resourceVersion"})}
#: Fields that may identify the items of a list, in order of preference.
_IDENTITIES: Final = ("type", "name", "uid", "key", "request", "ip", "containerPort", "port")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")


class FieldChange(NamedTuple):
    """A field with its old and its new value; None is a missing field."""

    path: str
    old: Any
    new: Any


def compare_objects(old: Json, new: Json) -> list[FieldChange]:
    """Return the changed fields, without managed fields and resource version.

    List items are matched by an identifying field if every item has a different one, otherwise by position.
    """
    return [*_compare(_strip(old), _strip(new), "")]


def _strip(obj: Json) -> Json:
    return {
        key: {name: value for name, value in part.items() if name not in _UNCOMPARED[key]}
        if key in _UNCOMPARED and isinstance(part, dict)
        else part
        for key, part in obj.items()
    }


def _compare(old: Any, new: Any, path: str) -> Iterator[FieldChange]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _compare(old.get(key), new.get(key), _join(path, key))
    elif (old or new) and _are_dicts(old) and _are_dicts(new):
        before, after = _index(old or (), new or ())
        for item in dict.fromkeys((*before, *after)):
            yield from _compare(before.get(item), after.get(item), f"{path}[{item}]")
    else:
        yield FieldChange(path, old, new)


def _join(path: str, key: str) -> str:
    if not _PLAIN.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _are_dicts(items: Any) -> bool:
    """Return whether a value is a list of objects, or a missing list."""
    return items is None or (isinstance(items, list) and all(isinstance(item, dict) for item in items))


def _index(old: Sequence[Json], new: Sequence[Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the items of two lists by their identifying field, or by position."""
    for field in _IDENTITIES:
        before, after = ([item.get(field) for item in items] for items in (old, new))
        if all(_identify(values) for values in (before, after)):
            return _by(before, old), _by(after, new)
    return _by(range(len(old)), old), _by(range(len(new)), new)


def _identify(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str | int) for value in values) and len({*values}) == len(values)


def _by(keys: Sequence[Any], items: Sequence[Json]) -> dict[str, Json]:
    return {str(key): item for key, item in zip(keys, items, strict=True)}
