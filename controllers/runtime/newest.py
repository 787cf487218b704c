"""A collection in its newest known state: the informer's copy, or the server's answer to a later write."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import key_of


class Newest:
    """The newest known objects. Create it before the handlers that read it, so that it sees changes first."""

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self._written: dict[str, Json] = {}
        informer.on(self._on_change, lambda _, obj: self._on_change(obj), self._on_delete)

    def get(self, key: str) -> Json | None:
        """Return the object of a key, `namespace/name` or `name`."""
        return self._written.get(key) or self.informer.get(key)

    def of(self, objects: list[Json]) -> list[Json]:
        """Return the same objects in their newest known versions."""
        return [self._written.get(key_of(obj), obj) for obj in objects] if self._written else objects

    def wrote(self, obj: Json) -> Json:
        """Record the answer to an update and return it; an object that the informer lacks is not recorded."""
        known = self.informer.get(key_of(obj))
        if known is not None and _version(known) < _version(obj) and known["metadata"]["uid"] == obj["metadata"]["uid"]:
            self._written[key_of(obj)] = obj
        return obj

    def _on_change(self, obj: Json) -> None:
        written = self._written.get(key_of(obj))
        if written is not None and _version(written) <= _version(obj):
            del self._written[key_of(obj)]

    def _on_delete(self, obj: Json) -> None:
        self._written.pop(key_of(obj), None)


def _version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])
