"""Delays before a client reads a collection again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_FIRST, _LAST, _FACTOR = 0.8, 30.0, 2.0
_RESET = 120.0


class Backoff:
    """Delays in seconds: 0.8 doubling to 30, each with up to 100 % jitter.

    The delay starts at 0.8 again when two minutes have passed since its last reset. `spread` returns a random number
    between 0 and 1. Source: client-go, tools/cache/reflector.go, and wait.Backoff.DelayWithReset.
    """

    def __init__(self, spread: Callable[[], float]) -> None:
        self._spread = spread
        self._delay = _FIRST
        self._since = asyncio.get_running_loop().time()

    def next(self) -> float:
        """Return the delay before the next attempt."""
        now = asyncio.get_running_loop().time()
        if now - self._since > _RESET:
            self._delay, self._since = _FIRST, now
        delay = self._delay
        self._delay = min(delay * _FACTOR, _LAST)
        return delay * (1 + self._spread())
