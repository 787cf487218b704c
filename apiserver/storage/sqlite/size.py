"""Size of the database in bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from apiserver.storage.sqlite.opening import DATABASE

__all__ = ["bytes_of"]

#: The database and its companion files.
_FILES: Final = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")


def bytes_of(storage: str, data_dir: Path) -> int | None:
    """Return the bytes on disk; 0 in memory; None for a remote database."""
    if storage == "memory":
        return 0
    if storage != "sqlite":
        return None
    found = (data_dir / name for name in _FILES)
    return sum(file.stat().st_size for file in found if file.exists())
