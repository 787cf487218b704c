"""What the registry asks of whoever converts the objects of a resource (see `apiserver.registry.store.conversion`)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.api.objects import Hub
    from apiserver.storage.watchcache.entry import Entry, Event

__all__ = ["Conversion", "request_version"]


#: The version in which the objects of the request that is being answered are seen.
request_version: ContextVar[str] = ContextVar("request_version", default="")


class Conversion(Protocol):
    """Converts the objects of one resource."""

    def shown(self, entries: Sequence[Entry], version: str, *, kept: bool) -> Awaitable[list[Entry]]:
        """Entries as they are stored, in a version. `kept`: what was made for another reader will do. Raises
        StatusError.
        """
        ...

    def events(self, events: Sequence[Event], version: str) -> Awaitable[list[Event]]:
        """Changes, in a version. Raises StatusError."""
        ...

    def stored(self, obj: Hub, version: str) -> Awaitable[Hub]:
        """An object of a version in the storage version. Raises StatusError."""
        ...

    def between(self, obj: Json, source: str, version: str) -> Json:
        """An object of one version in another; not on the event loop, as its caller waits. Raises StatusError."""
        ...
