"""Whether the control plane is idle: no component has work, and the next timer's due time (`/-/idle`).

A client that waits for a change can stop once nothing is left that would cause it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from apiserver.request.messages import Request, Stream
from apiserver.request.records import RequestRecord
from apiserver.runtime.clock import Timer, timers

__all__ = ["Components", "IdleMonitor", "IdleStatus", "PendingWork"]

#: Prefix of the user agent of watches that only wait, and act on nothing.
WAITING: Final = "kubedra-wait"
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
#: Resources that are written without other activity: heartbeats and reports.
_UPKEEP: Final = frozenset({"leases", "events"})
#: Polls of the components, and the seconds between them, in which writes of one reach the others.
_POLLS: Final = 4
_BETWEEN: Final = 0.01


#: The busy components; and the component of the next timer with the seconds until then, upkeep excluded.
PendingWork = tuple[Collection[str], tuple[str, float] | None]


class Components(Protocol):
    """The controllers and the scheduler that run with this server."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the running components."""
        ...

    async def get_pending_work(self) -> PendingWork: ...


@dataclass(frozen=True, slots=True)
class IdleStatus:
    """The result of a poll. `quiet` is the time since the last write in seconds; None if there was none."""

    components: Sequence[str]
    busy: Collection[str]
    next_timer: tuple[str, float] | None
    watches: int
    quiet: float | None


class IdleMonitor:
    """Polls the whole server. The server is never idle without components."""

    def __init__(
        self,
        records: Callable[[], Iterable[RequestRecord]],
        streams: Callable[[], Mapping[Stream, Request]],
        revision: Callable[[], int],
        clock: Callable[[], datetime],
        components: Components,
    ) -> None:
        self._records, self._streams, self._revision, self._clock = records, streams, revision, clock
        self._components = components

    async def poll(self) -> IdleStatus:
        """Poll several times in a row: `busy` are the components that had work in any poll."""
        running = self._components
        if not running.names:
            return IdleStatus((), (), None, self._count_watches(), self._get_quiet_seconds())
        busy: set[str] = set()
        revision = self._revision()
        for attempt in range(_POLLS):
            if attempt:
                with timers(Timer.MACHINE):  # virtual time stands still meanwhile
                    await asyncio.sleep(_BETWEEN)
            at_work, next_timer = await running.get_pending_work()
            busy |= set(at_work)
            if busy or self._revision() != revision:
                break
        quiet = 0.0 if self._revision() != revision else self._get_quiet_seconds()
        return IdleStatus(running.names, sorted(busy), next_timer, self._count_watches(), quiet)

    def _count_watches(self) -> int:
        """Count the watches of external clients that may act on events."""
        return sum(
            not stream.inside and not request.headers.get("user-agent", "").startswith(WAITING)
            for stream, request in self._streams().items()
        )

    def _get_quiet_seconds(self) -> float | None:
        for record in self._records():
            info = record.info
            if info.verb in _WRITES and info.resource not in _UPKEEP:
                return max(0.0, (self._clock() - record.time).total_seconds())
        return None
