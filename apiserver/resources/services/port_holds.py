"""Node ports reserved by writes in progress, of all servers of a database.

Services record their node ports, so a port is only contested until its service is stored. Until then a server holds a
row of metadata whose name is unique in the database. The rows of a server that ended during a write expire.
"""

from __future__ import annotations

import contextlib
import secrets
import time as system
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from apiserver.storage.log.types import StorageUnavailable

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry

__all__ = ["LIFETIME", "PortHolds"]

#: Seconds of the system's clock after which other servers remove a row. No write lasts as long.
LIFETIME: Final = 120.0


class PortHolds:
    """The reserved ports of one server."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._owner = registry, secrets.token_hex(8)
        #: The row of each port. It is empty for a database that only this server uses.
        self._rows: dict[int, bytes] = {}

    def __contains__(self, port: int) -> bool:
        return port in self._rows

    async def take(self, port: int) -> bool:
        """Reserve a port; return False if it is reserved.

        Afterwards the caches have the service of the previous holder, if it was stored.
        """
        if port in self._rows:
            return False
        row = self._rows[port] = self._new_row() if self._registry.shared else b""
        if not row:
            return True
        log, name = self._registry.log, _name(port)
        if (kept := await log.get_or_set_meta(name, row)) != row and _has_expired(kept):
            await log.delete_meta(name, kept)
            kept = await log.get_or_set_meta(name, row)
        if kept != row:
            del self._rows[port]
            return False
        await self._registry.consistent()
        return True

    async def drop(self, ports: Iterable[int]) -> None:
        """Release ports. A row that cannot be deleted expires."""
        for port in ports:
            if row := self._rows.pop(port, b""):
                with contextlib.suppress(StorageUnavailable):
                    await self._registry.log.delete_meta(_name(port), row)

    def _new_row(self) -> bytes:
        return f"{self._owner} {system.time() + LIFETIME:.0f}".encode()


def _name(port: int) -> str:
    return f"nodeport/{port}"


def _has_expired(row: bytes) -> bool:
    return float(row.rpartition(b" ")[2]) < system.time()
