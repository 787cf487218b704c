"""Texts of failures of files and connections, in one line and without repeated paths."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["IS_IT_RUNNING", "check_socket_path", "describe_failure"]

IS_IT_RUNNING: Final = "is it running? `kubedra status` shows it, `kubedra up` starts one"
#: Maximal bytes of the path of a Unix socket.
_LONGEST: Final = 107 if sys.platform == "linux" else 103


def describe_failure(error: BaseException) -> str:
    """Return why a file cannot be used, without its path and number: "no such file or directory"."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return " ".join(str(error).split())


def check_socket_path(path: Path) -> None:
    """Raise ValueError if a path is too long for a Unix socket."""
    length = len(os.fsencode(path.absolute()))
    if length > _LONGEST:
        raise ValueError(
            f"{path}: the path of a socket has at most {_LONGEST} bytes, this one has {length}; use a shorter directory"
        )
