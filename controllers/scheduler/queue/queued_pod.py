"""A pod that waits to be scheduled: where, and what became of it so far."""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto

from controllers.scheduler.state.pod_info import PodInfo


class Place(Enum):
    """Where a pod of the queue is."""

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
        "info",
        "place",
        "plugins",
        "rejections",
        "since",
        "ticket",
        "timestamp",
    )

    def __init__(self, info: PodInfo, timestamp: datetime) -> None:
        self.info = info
        self.timestamp = self.since = timestamp
        self.place = Place.GATED
        self.attempts = 0
        self.entered: datetime | None = None
        """When it was first let in."""
        self.begun = 0.0
        """When its last attempt began, by a stopwatch."""
        self.rejections = 0
        self.errors = 0
        """Consecutive ones."""
        self.plugins: frozenset[str] = frozenset()
        """Who rejected it, or keeps it gated."""
        self.ticket = 0
        """Its entry in a heap; older entries are void."""
