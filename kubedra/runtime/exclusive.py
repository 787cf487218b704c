"""Names that one process of a machine has at a time. The kernel releases them when the process ends."""

from __future__ import annotations

import socket
import sys
from hashlib import sha256

__all__ = ["take_name"]

#: The sockets that hold the names of this process.
_HELD: list[socket.socket] = []


def take_name(name: str) -> bool:
    """Take a name until this process ends. Return False if another process has it.

    The name is that of an abstract Unix socket, which leaves no file. Other systems than Linux have none; there every
    name is free.
    """
    if sys.platform != "linux":
        return True
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(f"\0kubedra-{sha256(name.encode()).hexdigest()}")
    except OSError:
        holder.close()
        return False
    _HELD.append(holder)
    return True
