"""Python's garbage collector in a server or controller process: short collections, so that requests are not delayed.

A collection visits every container of its generations, at 0.3 to 0.5 µs each, and blocks all threads meanwhile; the
oldest generation is every live object. Nearly all of these stay for good or are freed by reference counts: entries,
events, schemas, expressions. So objects that survive one or two collections are frozen (`gc.freeze`) and not visited
again, and collections run often enough to be short. Every second collection includes the survivors of the one before:
the work in progress at that time has ended meanwhile.

Cycles that die after they were frozen stay until a full collection. A thread of its own runs one once enough objects
were added: while the process is idle, or, if it is never idle, once twice as many were added.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

#: Net new containers before a collection of the youngest generation; the number of these before one that includes
#: the survivors, which are then frozen; and a bound that is never reached, as the oldest generation is always empty.
THRESHOLDS: Final = (10_000, 0, 1_000)
#: Added blocks of memory before a full collection: the total at the last one, but at least this number (about 100
#: MB). A busy server on a store of constant size adds none.
LEAST: Final = 1_000_000
#: Seconds between checks of the added blocks.
INTERVAL: Final = 5.0
#: A process below this share of a processor is idle.
IDLE: Final = 0.02


class CollectionSchedule:
    """The schedule of full collections. `blocks` returns the number of memory blocks in use."""

    def __init__(self, blocks: Callable[[], int] = sys.getallocatedblocks) -> None:
        self._blocks = blocks
        self._last = blocks()

    def collect_if_due(self, *, idle: bool) -> bool:
        """Run a full collection if it is due; return whether it was."""
        added = self._blocks() - self._last
        due = max(self._last, LEAST)
        if added < (due if idle else 2 * due):
            return False
        gc.unfreeze()
        gc.collect()  # the survivors are frozen at its end
        self._last = self._blocks()
        return True


def disable() -> None:
    """Disable collections until `enable`: the objects of a start, above all types and tables, stay."""
    gc.disable()


def enable() -> None:
    """Freeze the objects of the start; collections are short from here on."""
    gc.enable()
    gc.callbacks.append(_freeze_survivors)
    gc.collect()
    gc.collect()  # Python compares the next collections with the result of this one: nothing
    gc.set_threshold(*THRESHOLDS)
    threading.Thread(target=_collect_when_due, name="garbage", daemon=True).start()


def restart() -> None:
    """Continue in a forked process, which has none of the threads."""
    if _freeze_survivors in gc.callbacks:
        threading.Thread(target=_collect_when_due, name="garbage", daemon=True).start()


def _freeze_survivors(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] > 0:
        gc.freeze()


def _collect_when_due() -> None:
    schedule = CollectionSchedule()
    while True:
        worked, since = time.process_time(), time.monotonic()
        time.sleep(INTERVAL)
        worked, since = time.process_time() - worked, time.monotonic() - since
        schedule.collect_if_due(idle=worked < IDLE * since)
