"""Limit the time of evaluations.

The cost limit of an expression says little about its time: the same budget is 10 ms of additions or several seconds of
sorting. A caller that shares its thread or has a deadline therefore passes a `Meter`. It is checked after every `SLICE`
of cost, at no extra cost: the frame starts that much below the limit, and `passed_limit` distinguishes a used-up slice
from an exceeded limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from apiserver.cel.language.values import CostExceeded

__all__ = ["SLICE", "Interrupted", "Meter", "OffloadRequired", "check_time", "passed_limit", "running"]

#: Cost between two checks of the clock: about 20 µs, unless single calls take long.
SLICE: Final = 256


class OffloadRequired(Exception):
    """The evaluation takes too long for this thread; it is to be restarted in another one."""


class Interrupted(Exception):
    """The caller no longer waits for the evaluation."""


class Meter:
    """Seconds that all evaluations with this meter may take together, and the exception raised beyond.

    The time starts at the first check.
    """

    __slots__ = ("_error", "_now", "_seconds", "_until")

    def __init__(self, now: Callable[[], float], seconds: float, error: type[Exception]) -> None:
        self._now, self._seconds, self._error = now, seconds, error
        self._until: float | None = None

    def begin_long_work(self) -> None:
        """Raise OffloadRequired before work that takes long, if this thread must not be blocked."""
        if self._error is OffloadRequired:
            raise OffloadRequired

    def check_time(self) -> None:
        """Raise the exception if the time is used up."""
        if self._until is None:
            self._until = self._now() + self._seconds
        elif self._now() > self._until:
            raise self._error


class _Running(threading.local):
    """The meter of the evaluation running in a thread."""

    meter: Meter | None = None


running: Final = _Running()


def check_time() -> None:
    """Check the time of the running evaluation during a long step."""
    if running.meter is not None:
        running.meter.check_time()


def passed_limit(frame: list[Any], limit: int) -> None:
    """Start the next slice of a frame that is over its limit.

    Raises:
        CostExceeded: The limit is exceeded, not only a slice.
        Exception: The meter's, if its time is used up.
    """
    meter: Meter | None = frame[-1]
    if meter is None:
        raise CostExceeded
    frame[-2] += frame[0] - (limit - SLICE)
    frame[0] = limit - SLICE
    if frame[-2] > limit:
        raise CostExceeded
    meter.check_time()
