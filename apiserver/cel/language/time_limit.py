"""Looking at the clock while expressions are evaluated.

What an expression may cost says little of how long it takes: the same budget is a hundredth of a second of additions or
some seconds of sorting. So whoever evaluates where others wait, or for somebody who does not wait for ever, gives a
`Meter`. It is asked after every `SLICE` of cost, which an evaluation notices for nothing: its frame begins with so much
less than the limit, and where the limit is passed `passed_limit` tells a slice that is used up from a limit that is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from apiserver.cel.language.values import CostExceeded

__all__ = ["SLICE", "Aside", "Interrupted", "Meter", "look", "passed_limit", "present"]

#: Cost between two looks at the clock: some twenty microseconds, unless single calls take long.
SLICE: Final = 256


class Aside(Exception):
    """The evaluation takes too long for where it is; it is to be begun again elsewhere."""


class Interrupted(Exception):
    """Nobody waits for the evaluation any more."""


class Meter:
    """Seconds that all evaluations which it is given to may take together, and what is raised beyond. They begin with
    the first look.
    """

    __slots__ = ("_beyond", "_now", "_seconds", "_until")

    def __init__(self, now: Callable[[], float], seconds: float, beyond: type[Exception]) -> None:
        self._now, self._seconds, self._beyond = now, seconds, beyond
        self._until: float | None = None

    def leave(self) -> None:
        """What follows takes long: not here, where others wait. Raises Aside."""
        if self._beyond is Aside:
            raise Aside

    def look(self) -> None:
        """Raises what is raised beyond the time."""
        if self._until is None:
            self._until = self._now() + self._seconds
        elif self._now() > self._until:
            raise self._beyond


class _Present(threading.local):
    """The meter of the evaluation that a thread is in."""

    meter: Meter | None = None


present: Final = _Present()


def look() -> None:
    """A long step looks at the clock of the evaluation that it belongs to."""
    if present.meter is not None:
        present.meter.look()


def passed_limit(frame: list[Any], limit: int) -> None:
    """A frame holds more cost than the limit. Raises CostExceeded where that is so, or what its meter raises; else the
    next slice begins.
    """
    meter: Meter | None = frame[-1]
    if meter is None:
        raise CostExceeded
    frame[-2] += frame[0] - (limit - SLICE)
    frame[0] = limit - SLICE
    if frame[-2] > limit:
        raise CostExceeded
    meter.look()
