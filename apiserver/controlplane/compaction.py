"""History is kept for a while and then dropped: watches resume, pages continue and lists go back only so far.

As kube-apiserver does with etcd: every interval, all that was history one interval ago goes, so that history reaches
back between one and two intervals. A busy server also drops what is more than a number of revisions ago, so that a
database does not grow without bound between two times; on a full disk all history goes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from apiserver.runtime.clock import Timer, timers
from apiserver.storage.log.types import StorageError

if TYPE_CHECKING:
    from apiserver.storage.log.types import RevisionLog

#: Revisions that are kept at most, give or take a check.
KEPT_REVISIONS: Final = 100_000
#: How often the number is looked at, in seconds.
CHECK_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


async def compact_regularly(
    store: RevisionLog,
    interval: float,
    *,
    kept: int = KEPT_REVISIONS,
    check: float = CHECK_SECONDS,
    retire: Callable[[int], object] = lambda _: None,
) -> None:
    """Until cancelled. A failure is logged and tried again at the next time. `retire` is told every interval what was
    history one interval ago, to let go of it in memory.
    """
    loop = asyncio.get_running_loop()
    past, due = store.revision, loop.time() + interval
    while True:
        with timers(Timer.UPKEEP):
            await asyncio.sleep(min(check, max(due - loop.time(), 0.0)))
        bound = store.revision - kept
        if loop.time() >= due:
            bound = max(bound, past)
            retire(past)
            past, due = store.revision, loop.time() + interval
        if store.is_full:
            bound = store.revision  # history makes way for what is to be kept
        if bound > store.compacted:
            try:
                dropped = await store.compact(bound)
                log.info("compacted to revision %d: %d rows dropped", bound, dropped)
            except StorageError as error:
                log.warning("compaction to revision %d failed: %s", bound, error)
