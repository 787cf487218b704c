"""What an object takes of something that all objects of its kind share, such as a service its addresses: taken before
the object is prepared and checked, as upstream's registry begins a write, and given back when the write fails.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["Reservation", "Reservations"]


class Reservation(Protocol):
    """What one write has taken."""

    async def settle(self, *, stored: bool) -> None:
        """The write is over: with `stored` the object has what was taken, else it is given back."""
        ...


class Reservations(Protocol):
    """Who gives it to the objects of one resource."""

    def reserve(self, ctx: Context, obj: Json, old: Json | None) -> Awaitable[Reservation]:
        """Takes what a new or changed object needs (`old` None: it is new), and writes it into the object. A dry run
        takes nothing. Raises StatusError.
        """
        ...

    def release(self, ctx: Context, obj: Json) -> Awaitable[None]:
        """An object is gone."""
        ...
