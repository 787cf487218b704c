"""What was found out about objects that have not changed since. Objects of informers are replaced, never changed: as
long as it is the same object, what was found holds. An owner of a thousand pods looks at all whenever one changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from controllers.runtime.kinds import Json

Finding = TypeVar("Finding")


class Remembered(Generic[Finding]):
    """What `find` says of objects, asked once for each. What was not there at the last look is forgotten."""

    def __init__(self, find: Callable[[Json], Finding]) -> None:
        self._find = find
        #: By identity, which no other object can have as long as the object is kept here.
        self._known: dict[int, tuple[Json, Finding]] = {}

    def of(self, objects: Iterable[Json]) -> list[tuple[Json, Finding]]:
        """Each object with what is known of it, in their order."""
        known, find = self._known, self._find
        found = {key: known.get(key) or (obj, find(obj)) for obj in objects if (key := id(obj))}
        self._known = found
        return list(found.values())
