"""The differences between two snapshots, by object and field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, Literal

from kubedra.archive.objects import StoredObject, StoredObjects
from kubedra.runtime.objects import Json

__all__ = ["Difference", "FieldDifference", "compare", "format_value"]

#: Objects that change all the time.
_BUSY: Final = ("events", "leases")
#: List items with one of these fields are compared by it.
_KEYS: Final = ("name", "type", "uid", "key", "containerPort", "port", "ip")
_LONGEST: Final = 200


@dataclass(frozen=True)
class FieldDifference:
    """A field that differs; None: it is missing on that side."""

    path: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Difference:
    """An object that differs: `+` is only in the second snapshot, `-` only in the first, `~` in both."""

    sign: Literal["+", "-", "~"]
    name: str
    fields: tuple[FieldDifference, ...] = ()

    def as_json(self) -> Json:
        """Return the JSON form."""
        change = {"+": "added", "-": "removed", "~": "changed"}[self.sign]
        fields = [{"path": each.path, "old": each.old, "new": each.new} for each in self.fields]
        return {"change": change, "object": self.name, "fields": fields}


def compare(
    before: StoredObjects, after: StoredObjects, ignored: AbstractSet[str] = frozenset(), *, rare: bool = False
) -> list[Difference]:
    """Return the differences in the order of the objects' keys.

    Args:
        before: the first snapshot.
        after: the second snapshot.
        ignored: fields of the metadata to leave out.
        rare: leave out Events and Leases.
    """
    found = []
    for key in sorted(before.objects.keys() | after.objects.keys()):
        old, new = before.objects.get(key), after.objects.get(key)
        either = old or new
        assert either is not None
        if rare and either.kind in _BUSY:
            continue
        if old is None or new is None:
            found.append(Difference("-" if new is None else "+", either.name))
        elif fields := _compare_objects(old, new, ignored):
            found.append(Difference("~", either.name, fields))
    return found


def _compare_objects(old: StoredObject, new: StoredObject, ignored: AbstractSet[str]) -> tuple[FieldDifference, ...]:
    if old.value == new.value and (old.revision == new.revision or "resourceVersion" in ignored):
        return ()
    first, second = old.decode(), new.decode()
    for obj in (first, second):
        for field in ignored:
            obj["metadata"].pop(field, None)
    return tuple(_compare_values("", first, second))


def _compare_values(path: str, old: Any, new: Any) -> Iterator[FieldDifference]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from _compare_values(_join(path, name), old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and (key := _find_key(old, new)):
        olds, news = ({item[key]: item for item in items} for items in (old, new))
        for name in [*olds, *(name for name in news if name not in olds)]:
            yield from _compare_values(f"{path}[{key}={name}]", olds.get(name), news.get(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (first, second) in enumerate(zip(old, new, strict=True)):
            yield from _compare_values(f"{path}[{number}]", first, second)
    else:
        yield FieldDifference(path, old, new)


def _join(path: str, name: str) -> str:
    if "." in name or "/" in name:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _find_key(*lists: list[Any]) -> str:
    """Return the field that names the items of all lists; "" if there is none."""
    for key in _KEYS:
        if all(
            all(isinstance(item, dict) and isinstance(item.get(key), str | int) for item in items)
            and len({item[key] for item in items}) == len(items)
            for items in lists
        ):
            return key
    return ""


def format_value(value: Any) -> str:
    """Return a value in one line of limited length."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
