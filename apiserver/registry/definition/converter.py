"""The registry's interface to a converter of objects (see `apiserver.registry.store.conversion`)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.api.objects import Hub
    from apiserver.storage.watchcache.entry import Entry, Event

__all__ = ["Conversion", "request_version"]


#: The version of the current request.
request_version: ContextVar[str] = ContextVar("request_version", default="")


class Conversion(Protocol):
    """Converter of the objects of one resource."""

    def convert_entries(self, entries: Sequence[Entry], version: str, *, kept: bool) -> Awaitable[list[Entry]]:
        """Return stored entries in a version. Raise StatusError.

        With `kept` a cached conversion for another reader is acceptable.
        """
        ...

    def convert_events(self, events: Sequence[Event], version: str) -> Awaitable[list[Event]]:
        """Return changes in a version. Raise StatusError."""
        ...

    def convert_to_stored(self, obj: Hub, version: str) -> Awaitable[Hub]:
        """Return an object of a version in the storage version. Raise StatusError."""
        ...

    def convert(self, obj: Json, source: str, version: str) -> Json:
        """Return an object of one version in another. Raise StatusError.

        It blocks, so it must not run on the event loop.
        """
        ...
