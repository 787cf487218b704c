"""A cache of values computed from informer objects.

Informers replace objects instead of changing them, so a value is valid while the object is the same. It spares an owner
of 1000 pods from examining all of them after each change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from apiserver.api.objects import Json

Finding = TypeVar("Finding")


class ObjectCache(Generic[Finding]):
    """A cache of `find` per object. Values of objects missing in the last call are dropped."""

    def __init__(self, find: Callable[[Json], Finding]) -> None:
        self._find = find
        #: Keyed by identity, which is unique while the object is referenced here.
        self._known: dict[int, tuple[Json, Finding]] = {}

    def of(self, objects: Iterable[Json]) -> list[tuple[Json, Finding]]:
        """Return each object with its value, in order."""
        known, find = self._known, self._find
        found = {key: known.get(key) or (obj, find(obj)) for obj in objects if (key := id(obj))}
        self._known = found
        return list(found.values())
