"""The latest attempts to schedule pods, for timelines: an Event counts repetitions without their times."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Final, NamedTuple

from controllers.scheduler.framework.status import shorten_note

#: Number of kept attempts.
_KEPT: Final = 2000


class Attempt(NamedTuple):
    """An attempt for a pod: its result ("scheduled", "unschedulable", "error") and the text about it."""

    time: datetime
    uid: str
    result: str
    text: str


class Attempts:
    """The latest attempts of a scheduler, in memory."""

    def __init__(self) -> None:
        self._latest: deque[Attempt] = deque(maxlen=_KEPT)

    def record(self, time: datetime, uid: str, result: str, text: str) -> None:
        self._latest.append(Attempt(time, uid, result, shorten_note(text)))

    def of_pod(self, uid: str) -> list[tuple[str, str, str]]:
        """Return a pod's attempts as (RFC 3339 time, result, text), oldest first."""
        return [(each.time.isoformat(), each.result, each.text) for each in self._latest if each.uid == uid]
