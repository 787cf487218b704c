"""Regular compaction of the history. Watches resume, pages continue and lists go back only within the history.

As kube-apiserver does with etcd: every interval, the history older than one interval is dropped, so that history covers
between one and two intervals. A busy server also limits the number of revisions, so that a database does not grow
without bound within an interval. On a full disk all history is dropped.
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

#: Maximal number of kept revisions, approximately.
KEPT_REVISIONS: Final = 100_000
#: Seconds between two checks of the number of revisions.
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
    """Compact until cancelled. Log a failure and retry at the next check.

    `retire` is called every interval with the revision of one interval ago, to free it in memory.
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
            bound = store.revision  # history makes way for new writes
        if bound > store.compacted:
            try:
                dropped = await store.compact(bound)
                log.info("compacted to revision %d: %d rows dropped", bound, dropped)
            except StorageError as error:
                log.warning("compaction to revision %d failed: %s", bound, error)
