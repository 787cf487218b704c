"""Record the newest acknowledged revision outside the database.

SQLite reads a damaged write-ahead log as a shorter one and silently opens on an older state. The last acknowledged
revision is therefore written to a small file after every commit, through a memory map. It survives a crash of the
process. Nothing syncs it: after a power cut it may be behind, never ahead.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Final
from zlib import crc32

from apiserver.storage.log.types import Durability
from kubedra.runtime import private_files as private

__all__ = ["FILE", "CommitMarker"]

FILE: Final = "revision"
#: Revision, the store's identity, whether the write must survive a power cut; then a CRC-32 of these.
_BODY: Final = struct.Struct(">QIB")
_SUM: Final = struct.Struct(">I")
_SIZE: Final = _BODY.size + _SUM.size


class CommitMarker:
    """The marker file of one store. `identity` is the store's random number; markers of other databases are ignored.

    Raises:
        OSError: The file cannot be created.
    """

    def __init__(self, directory: Path, identity: int) -> None:
        self._identity = identity
        descriptor = private.open_file(directory / FILE)
        try:
            os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)

    def read(self) -> tuple[int, bool]:
        """Return (newest acknowledged revision, whether it must survive a power cut); (0, False) if unknown."""
        body, (found,) = self._map[: _BODY.size], _SUM.unpack(self._map[_BODY.size :])
        if crc32(body) != found:
            return 0, False
        revision, identity, full = _BODY.unpack(body)
        return (revision, bool(full)) if identity == self._identity else (0, False)

    def write(self, revision: int, durability: Durability) -> None:
        """Record that writes up to a revision are acknowledged."""
        body = _BODY.pack(revision, self._identity, durability is Durability.FULL)
        self._map[:] = body + _SUM.pack(crc32(body))

    def close(self) -> None:
        self._map.close()
