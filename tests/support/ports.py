"""Free ports of this machine."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

#: Below the ports that the system assigns.
_RANGE = (20_000, 32_000)


def free_port() -> int:
    """Return a port that is free and outside the range of automatic ports."""
    while True:
        port = random.randint(*_RANGE)
        with suppress(OSError), socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            return port
