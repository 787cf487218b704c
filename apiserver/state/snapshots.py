"""Snapshots in a server's memory: take, restore, send and receive them.

After a restore a snapshot has the revisions of the rows with its objects. Restoring it again compares only these.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver.registry.definition.authors import RESTORE
from apiserver.state.contents import KIND, SHARED_KEYS, Contents, parse, render
from apiserver.storage.log.types import Record, Restore, RevisionLog
from kubedra.archive.archive import ArchiveError, ArchiveReader

__all__ = ["RestoreResult", "Snapshots", "StoredSnapshot"]

#: Objects that went back are deleted and created again: a pod's phase, node and containers never go back.
_RECREATED: Final = "/registry/pods/"
#: Files up to this size are read and written on the loop; larger ones in a thread.
_SMALL: Final = 1 << 18
#: Objects of a snapshot that fits.
_FEW: Final = 500


@dataclass(slots=True)
class StoredSnapshot:
    """A snapshot under a name. `own` says whether its revisions are those of this server's log."""

    name: str
    header: Mapping[str, Any]
    state: dict[str, Record]
    own: bool
    #: As sent to clients: the revisions at which the snapshot was taken.
    records: list[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The effect of a restore, as numbers of objects."""

    created: int
    updated: int
    deleted: int
    revision: int


class Snapshots:
    """The snapshots of one server.

    Args:
        log: the server's log.
        describe: returns the header of a snapshot at a revision, given the store's metadata.
        settle: called after a restore; returns when the server agrees with the new state.
    """

    def __init__(
        self,
        log: RevisionLog,
        describe: Callable[[int, Mapping[str, bytes]], dict[str, Any]],
        settle: Callable[[], Awaitable[None]],
    ) -> None:
        self._log, self._describe, self._settle = log, describe, settle
        self._by_name: dict[str, StoredSnapshot] = {}
        self._parts: dict[str, list[bytes]] = {}
        self._last = 0

    def all(self) -> list[StoredSnapshot]:
        """Return all snapshots, oldest first."""
        return list(self._by_name.values())

    def get(self, name: str) -> StoredSnapshot:
        """Return a snapshot. Raise KeyError."""
        return self._by_name[name]

    def delete(self, name: str) -> None:
        """Delete a snapshot. Raise KeyError."""
        del self._by_name[name]

    async def take(self, name: str = "") -> StoredSnapshot:
        """Keep the current state under a name, by default a new one. A snapshot of that name is replaced."""
        contents = await self.read()
        return self._keep(name, contents, own=True)

    async def read(self) -> Contents:
        """Return the current state."""
        revision, records, _ = await self._log.state(at=await self._log.current_revision())
        shared = {name: value for name in SHARED_KEYS if (value := await self._log.get_meta(name)) is not None}
        return Contents(self._describe(revision, shared), records)

    @staticmethod
    def contents(snapshot: StoredSnapshot) -> Contents:
        """Return the content of a snapshot as it was taken or received."""
        return Contents(snapshot.header, snapshot.records)

    def _keep(self, name: str, contents: Contents, *, own: bool) -> StoredSnapshot:
        if not name:
            self._last += 1
            name = f"snapshot-{self._last}"
        state = {record.key: record for record in contents.records}
        self._by_name.pop(name, None)
        kept = self._by_name[name] = StoredSnapshot(name, contents.header, state, own, contents.records)
        return kept

    async def render(self, contents: Contents) -> bytes:
        """Return the file of a snapshot."""
        if len(contents.records) <= _FEW:
            return render(contents.header, contents.records)
        return await asyncio.to_thread(render, contents.header, contents.records)

    async def receive(self, name: str, part: int, data: bytes, *, last: bool) -> StoredSnapshot | None:
        """Receive a part of a file, and keep its snapshot under a name after the last one. Raise ArchiveError."""
        parts = self._parts.setdefault(name, [])
        del parts[part:]
        if len(parts) != part:
            raise ArchiveError(f"part {part} of {name} came before part {len(parts)}")
        parts.append(data)
        if not last:
            return None
        file = b"".join(self._parts.pop(name))
        found = _parse(file, name) if len(file) <= _SMALL else await asyncio.to_thread(_parse, file, name)
        return self._keep(name, found, own=False)

    async def restore(self, name: str) -> RestoreResult:
        """Go back to a snapshot. Raise KeyError and StorageUnavailable; nothing is changed then."""
        snapshot = self._by_name[name]
        restored = await self._log.restore(
            Restore(snapshot.state, snapshot.own, lambda key: key.startswith(_RECREATED), RESTORE)
        )
        snapshot.state, snapshot.own = restored.state, True
        gone = {row.key for row in restored.rows if row.deleted}
        written = [row for row in restored.rows if not row.deleted]
        if restored.rows:
            await self._settle()
        created = sum(row.create_revision == row.revision and row.key not in gone for row in written)
        deleted = len(gone.difference(row.key for row in written))
        return RestoreResult(created, len(written) - created, deleted, self._log.revision)


def _parse(file: bytes, name: str) -> Contents:
    return parse(ArchiveReader(io.BytesIO(file), name, KIND), name)
