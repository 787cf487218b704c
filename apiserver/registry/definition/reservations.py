"""Reservation of values that all objects of a kind share, such as the addresses of Services.

A write reserves them before the object is prepared and validated, as upstream's registry begins a write. They are
released if the write fails.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["Reservation", "Reservations"]


class Reservation(Protocol):
    """The values reserved by one write."""

    async def finish(self, *, stored: bool) -> None:
        """End the write: with `stored` the object owns the reserved values, otherwise they are released."""
        ...


class Reservations(Protocol):
    """Allocator of shared values for one resource."""

    def reserve(self, ctx: Context, obj: Json, old: Json | None) -> Awaitable[Reservation]:
        """Reserve the values for a new or changed object and set them in the object.

        `old` is None for a new object. A dry run reserves nothing.
        Raises StatusError.
        """
        ...

    def release(self, ctx: Context, obj: Json) -> Awaitable[None]:
        """Release the values of a deleted object."""
        ...
