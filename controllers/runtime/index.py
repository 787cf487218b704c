"""The objects of an informer by something that they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controllers.runtime.kinds import Json


class Index:
    """Objects by a value computed from each (none, one or several)."""

    def __init__(self, values: Callable[[Json], Iterable[str]]) -> None:
        self._values = values
        self._objects: dict[str, dict[str, Json]] = {}
        self._values_of: dict[str, tuple[str, ...]] = {}

    def get(self, value: str) -> list[Json]:
        found = self._objects.get(value)
        return list(found.values()) if found else []

    def count(self, value: str) -> int:
        """How many objects have it."""
        return len(self._objects.get(value, ()))

    def keys(self, value: str) -> list[str]:
        found = self._objects.get(value)
        return list(found) if found else []

    def values(self) -> list[str]:
        """The values that some object has."""
        return list(self._objects)

    def replace(self, key: str, new: Json | None) -> None:
        """The object of a key is another one now; None where there is none any more."""
        before = self._values_of.get(key, ())
        after = tuple(self._values(new)) if new is not None else ()
        if before != after:
            for value in before:
                self._remove(value, key)
            if after:
                self._values_of[key] = after
            else:
                self._values_of.pop(key, None)
        if new is not None:
            for value in after:
                self._objects.setdefault(value, {})[key] = new

    def _remove(self, value: str, key: str) -> None:
        group = self._objects.get(value)
        if group is not None:
            group.pop(key, None)
            if not group:
                del self._objects[value]
