"""Memory of the fields that feature gates dropped from objects.

Upstream drops such fields silently. The memory is bounded, belongs to this process, and is no part of any object.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from apiserver.api.schema.dropping import DroppedField

__all__ = ["DroppedFields", "Loss"]

#: Maximum number of objects. The least recently written one is evicted.
MOST_OBJECTS: Final = 1000
#: Maximum number of fields per object.
MOST_FIELDS: Final = 100


class Loss(NamedTuple):
    """The fields that the last write of an object lost, and its time."""

    group: str
    kind: str
    namespace: str
    name: str
    when: datetime
    fields: tuple[DroppedField, ...]


class DroppedFields:
    """Store of losses by object, the latest last. With `warns` the client gets Warning headers."""

    def __init__(self, *, warns: bool = False, most: int = MOST_OBJECTS) -> None:
        self.warns, self._most = warns, most
        self._losses: OrderedDict[tuple[str, str, str, str], Loss] = OrderedDict()

    def record(
        self, group: str, kind: str, namespace: str, name: str, when: datetime, fields: Iterable[DroppedField]
    ) -> None:
        key = (group, kind, namespace, name)
        self._losses[key] = Loss(*key, when, tuple(fields)[:MOST_FIELDS])
        self._losses.move_to_end(key)
        if len(self._losses) > self._most:
            self._losses.popitem(last=False)

    def losses(self, kind: str = "", namespace: str = "", name: str = "") -> list[Loss]:
        """Return the losses of a kind, of a namespace, of a name; the latest first."""
        return [
            loss
            for loss in reversed(self._losses.values())
            if kind in ("", loss.kind) and namespace in ("", loss.namespace) and name in ("", loss.name)
        ]

    def clear(self) -> None:
        self._losses.clear()
