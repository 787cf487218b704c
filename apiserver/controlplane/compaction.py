"""Regular compaction of the history. Watches resume, pages continue and lists go back only within the history.

As kube-apiserver does with etcd: every interval, the history older than one interval is dropped, so that history covers
between one and two intervals. A busy server also limits the number of revisions, so that a database does not grow
without bound within an interval. `--history` keeps another time or number. On a full disk all history is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from apiserver.options.retention import Retention
from apiserver.runtime.clock import Timer, timers
from apiserver.storage.log.types import StorageError

if TYPE_CHECKING:
    from apiserver.storage.log.types import RevisionLog

#: Seconds between two checks of the number of revisions.
CHECK_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


async def compact_regularly(
    store: RevisionLog,
    retention: Retention,
    *,
    check: float = CHECK_SECONDS,
    retire: Callable[[int], object] = lambda _: None,
) -> None:
    """Compact until cancelled. Log a failure and retry at the next check.

    `retire` is called regularly with the revision of `retention.seconds` ago, to free it in memory.
    """
    loop = asyncio.get_running_loop()
    seconds = inf if retention.seconds is None else retention.seconds
    #: Times with the revisions of then, oldest first.
    marks = deque([(loop.time(), store.revision)])
    past = 0
    while True:
        due = marks[-1][0] + seconds / retention.steps
        with timers(Timer.UPKEEP):
            await asyncio.sleep(min(check, max(due - loop.time(), 0.0)))
        if loop.time() >= due:
            while marks and marks[0][0] + seconds <= loop.time():
                _, past = marks.popleft()
                retire(past)
            marks.append((loop.time(), store.revision))
        bound = past if retention.revisions is None else max(past, store.revision - retention.revisions)
        if store.is_full:
            bound = store.revision  # history makes way for new writes
        if bound > store.compacted:
            try:
                dropped = await store.compact(bound)
                log.info("compacted to revision %d: %d rows dropped", bound, dropped)
            except StorageError as error:
                log.warning("compaction to revision %d failed: %s", bound, error)
