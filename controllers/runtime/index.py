"""An index over the objects of an informer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from apiserver.api.objects import Json


class Index:
    """Keys of objects by the values computed from each object.

    An unchanged set of values costs no more than computing it. `objects` are the informer's objects by key.
    """

    def __init__(self, values: Callable[[Json], Iterable[str]], objects: Mapping[str, Json]) -> None:
        self._values, self._objects = values, objects
        self._keys: dict[str, dict[str, None]] = {}
        self._values_of: dict[str, tuple[str, ...]] = {}

    def get(self, value: str) -> list[Json]:
        keys = self._keys.get(value)
        return [self._objects[key] for key in keys] if keys else []

    def count(self, value: str) -> int:
        """Return the number of objects that have the value."""
        return len(self._keys.get(value, ()))

    def keys(self, value: str) -> list[str]:
        keys = self._keys.get(value)
        return list(keys) if keys else []

    def values(self) -> list[str]:
        """Return all values that some object has."""
        return list(self._keys)

    def replace(self, key: str, new: Json | None) -> None:
        """Update the values of a key's object; None means that the object is gone."""
        before = self._values_of.get(key, ())
        after = tuple(self._values(new)) if new is not None else ()
        if before == after:
            return
        for value in before:
            self._remove(value, key)
        if after:
            self._values_of[key] = after
        else:
            self._values_of.pop(key, None)
        for value in after:
            self._keys.setdefault(value, {})[key] = None

    def _remove(self, value: str, key: str) -> None:
        group = self._keys.get(value)
        if group is not None:
            group.pop(key, None)
            if not group:
                del self._keys[value]
