"""A pod that waits to be scheduled, with its queue and history."""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto

from controllers.scheduler.state.pod_info import PodInfo


class SubQueue(Enum):
    """The part of the scheduling queue that a pod is in."""

    ACTIVE = auto()
    BACKOFF = auto()
    ERROR_BACKOFF = auto()
    UNSCHEDULABLE = auto()
    GATED = auto()
    IN_FLIGHT = auto()


class QueuedPod:
    """A pod with its history in the queue."""

    __slots__ = (
        "attempts",
        "begun",
        "entered",
        "errors",
        "flushed",
        "info",
        "plugins",
        "rejections",
        "since",
        "sub_queue",
        "ticket",
        "timestamp",
    )

    def __init__(self, info: PodInfo, timestamp: datetime) -> None:
        self.info = info
        self.timestamp = self.since = timestamp
        self.sub_queue = SubQueue.GATED
        self.attempts = 0
        self.entered: datetime | None = None
        """The time at which it first became active."""
        self.begun = 0.0
        """The stopwatch reading at the start of its last attempt."""
        self.rejections = 0
        self.errors = 0
        """Consecutive errors."""
        self.flushed = False
        """Whether it was retried last because it had been unschedulable for too long."""
        self.plugins: frozenset[str] = frozenset()
        """The plugins that rejected or gated it."""
        self.ticket = 0
        """Its current entry in a heap; older entries are void."""
