"""The objects of an informer by something that they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from apiserver.api.objects import Json


class Index:
    """Keys of objects by a value computed from each (none, one or several). `objects` is what the keys are of, so that
    a change which leaves an object's values as they are costs no more than computing them.
    """

    def __init__(self, values: Callable[[Json], Iterable[str]], objects: Mapping[str, Json]) -> None:
        self._values, self._objects = values, objects
        self._keys: dict[str, dict[str, None]] = {}
        self._values_of: dict[str, tuple[str, ...]] = {}

    def get(self, value: str) -> list[Json]:
        found = self._keys.get(value)
        return [self._objects[key] for key in found] if found else []

    def count(self, value: str) -> int:
        """How many objects have it."""
        return len(self._keys.get(value, ()))

    def keys(self, value: str) -> list[str]:
        found = self._keys.get(value)
        return list(found) if found else []

    def values(self) -> list[str]:
        """The values that some object has."""
        return list(self._keys)

    def replace(self, key: str, new: Json | None) -> None:
        """The object of a key is another one now; None where there is none any more."""
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
