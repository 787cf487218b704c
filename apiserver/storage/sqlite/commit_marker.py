"""The newest revision that was answered, known outside the database.

SQLite takes a damaged write-ahead log for a shorter one: it opens on an older state, without a word. So the last
answered revision is written to a small file of its own after every commit, through a memory map (a crash of the process
leaves it; no sync is waited for, so after a power cut it may be behind, never ahead of what was answered).
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

__all__ = ["FILE", "Mark"]

FILE: Final = "revision"
#: Revision, the store's identity, whether an answer was promised to survive a power cut; then a CRC-32 of these.
_BODY: Final = struct.Struct(">QIB")
_SUM: Final = struct.Struct(">I")
_SIZE: Final = _BODY.size + _SUM.size


class Mark:
    """The file of one store. `identity` is the store's random number: the mark of another database counts for nothing.

    Raises OSError where the file cannot be made.
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
        """(newest answered revision, whether it was to survive a power cut); (0, False) where none is known."""
        body, (found,) = self._map[: _BODY.size], _SUM.unpack(self._map[_BODY.size :])
        if crc32(body) != found:
            return 0, False
        revision, identity, full = _BODY.unpack(body)
        return (revision, bool(full)) if identity == self._identity else (0, False)

    def write(self, revision: int, durability: Durability) -> None:
        """Notes that writes up to a revision are answered."""
        body = _BODY.pack(revision, self._identity, durability is Durability.FULL)
        self._map[:] = body + _SUM.pack(crc32(body))

    def close(self) -> None:
        self._map.close()
