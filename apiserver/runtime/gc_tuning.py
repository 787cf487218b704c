"""Python's garbage collector in a process that serves or controls: small rounds, so that nobody waits for one.

A round looks at every container of its generations, at a third to half a microsecond each, and holds all threads
meanwhile; the oldest generation is everything that lives. Nearly all of that stays for good or is freed by its counts:
entries, events, schemas, expressions. So whoever has lived through a round or two is set aside (`gc.freeze`) and is not
looked at again, and rounds come often enough to be small. Every second round takes along who survived the one before:
what was under way then has ended meanwhile.

Cycles that die after they were set aside stay until a round of everything, which a thread of its own holds once enough
was added: while nothing else is done, or, where the process is never at rest, once twice as much was added.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

#: Net new containers before a round of the youngest; how many such rounds may go by before one that takes the survivors
#: along, after which these are set aside; and what is never reached, as the oldest generation is always empty.
THRESHOLDS: Final = (10_000, 0, 1_000)
#: Blocks of memory that are added before a round of everything: their number at the last one, but no fewer than this
#: (some 100 MB). A server at work on a store that does not grow adds none.
LEAST: Final = 1_000_000
#: Seconds between looks at what was added.
INTERVAL: Final = 5.0
#: A process that takes less than this part of a processor is at rest.
AT_REST: Final = 0.02


class Upkeep:
    """When everything is looked at. `blocks`: how many blocks of memory are in use."""

    def __init__(self, blocks: Callable[[], int] = sys.getallocatedblocks) -> None:
        self._blocks = blocks
        self._last = blocks()

    def look(self, *, at_rest: bool) -> bool:
        """Looks at everything if it is time; whether it was."""
        added = self._blocks() - self._last
        due = max(self._last, LEAST)
        if added < (due if at_rest else 2 * due):
            return False
        gc.unfreeze()
        gc.collect()  # what survives is set aside at its end
        self._last = self._blocks()
        return True


def wait() -> None:
    """No rounds until `begin`: what a start makes, types and tables above all, stays."""
    gc.disable()


def begin() -> None:
    """Sets aside what the start has made; from here on rounds are small."""
    gc.enable()
    gc.callbacks.append(_set_aside)
    gc.collect()
    gc.collect()  # Python compares the next rounds with what this one finds: nothing
    gc.set_threshold(*THRESHOLDS)
    threading.Thread(target=_watch, name="garbage", daemon=True).start()


def _set_aside(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] > 0:
        gc.freeze()


def _watch() -> None:
    upkeep = Upkeep()
    while True:
        worked, since = time.process_time(), time.monotonic()
        time.sleep(INTERVAL)
        worked, since = time.process_time() - worked, time.monotonic() - since
        upkeep.look(at_rest=worked < AT_REST * since)
