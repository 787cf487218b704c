"""Deleting the data of an earlier start (`--fresh`). Certificates, tokens and logs stay."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from apiserver.storage.sqlite.opening import DATABASE, lock_directory

__all__ = ["delete_data"]

#: The files and directories of objects and of their pods.
_PATTERNS: Final = (f"{DATABASE}*", "checkpoint*", "revision", "run", "kubelets")


def delete_data(directory: Path) -> None:
    """Delete the objects in a data directory. Raise UnusableDatabase if a server runs on it."""
    release = lock_directory(directory)
    try:
        for pattern in _PATTERNS:
            for path in directory.glob(pattern):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
    finally:
        release()
