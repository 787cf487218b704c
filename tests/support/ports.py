"""Ports of this machine."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

#: Below those that the system gives to whoever asks for any.
_RANGE = (20_000, 32_000)


def free_port() -> int:
    """A port that nobody has, nor gets by chance."""
    while True:
        port = random.randint(*_RANGE)
        with suppress(OSError), socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            return port
