"""A collection as this process knows it: what its informer shows, or what the server answered to a later write."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import key_of


class Newest:
    """Made before the handlers that read it, so that it hears of changes first."""

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self._written: dict[str, Json] = {}
        informer.on(self._seen, lambda _, obj: self._seen(obj), self._gone)

    def get(self, key: str) -> Json | None:
        """By `namespace/name` or `name`."""
        return self._written.get(key) or self.informer.get(key)

    def of(self, objects: list[Json]) -> list[Json]:
        """The same objects, each as new as it is known."""
        return [self._written.get(key_of(obj), obj) for obj in objects] if self._written else objects

    def wrote(self, obj: Json) -> Json:
        """The answer to an update; an object that the informer does not have is not kept."""
        known = self.informer.get(key_of(obj))
        if known is not None and _version(known) < _version(obj) and known["metadata"]["uid"] == obj["metadata"]["uid"]:
            self._written[key_of(obj)] = obj
        return obj

    def _seen(self, obj: Json) -> None:
        written = self._written.get(key_of(obj))
        if written is not None and _version(written) <= _version(obj):
            del self._written[key_of(obj)]

    def _gone(self, obj: Json) -> None:
        self._written.pop(key_of(obj), None)


def _version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])
