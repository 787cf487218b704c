"""Event recorders.

    EventRecorder        events.k8s.io/v1, as the scheduler uses it: an event that repeats becomes a series
    CoreEventRecorder    core/v1, as controllers and kubelet use it: counts repetitions, combines similar events,
                         limits spam (rules in `correlation.py`)

Recording never blocks and never fails: events wait in a queue that `run` empties. Events beyond 1000 are dropped. Facts
(client-go tools/events, tools/record): names are `OBJECT.UNIXNANOS` in hex. A series starts with the second isomorphic
event and is patched in. A series without events for six minutes is written a last time and dropped from the cache.
Series are rewritten every 30 minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from itertools import count
from typing import Literal
from weakref import WeakKeyDictionary

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.client import Client
from controllers.runtime.correlation import Correlator
from controllers.runtime.kinds import CORE_EVENTS, EVENTS, Kind
from controllers.runtime.times import go_time, micro_time
from controllers.runtime.transport import TransportError

log = logging.getLogger(__name__)
EventType = Literal["Normal", "Warning"]
_QUEUED = 1000
_TRIES = 12
_WRITERS = 8
_RETRY, _FINISH, _REFRESH = timedelta(seconds=10), timedelta(minutes=6), timedelta(minutes=30)
_LONGEST_NAME = 253


def reference(obj: Json) -> Json:
    """Build an ObjectReference to an object, which must carry kind and apiVersion."""
    metadata = obj["metadata"]
    fields = {
        "kind": obj["kind"],
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
        "apiVersion": obj["apiVersion"],
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {name: value for name, value in fields.items() if value}


#: Events per loop, over all recorders of a process. On a virtual loop two components often record events about one
#: object at the same time, and the server would refuse the second event.
_EVENT_COUNTS: WeakKeyDictionary[asyncio.AbstractEventLoop, Iterator[int]] = WeakKeyDictionary()


def _event_name(name: str, now: datetime) -> str:
    """Return a unique name for an event.

    The clock has microseconds; the last three digits of the nanoseconds count events.
    """
    number = next(_EVENT_COUNTS.setdefault(asyncio.get_running_loop(), count(1)))
    nanos = (int(now.timestamp() // 1) * 1_000_000 + now.microsecond) * 1000
    suffix = f".{nanos + number % 1000:x}"
    return name[: _LONGEST_NAME - len(suffix)].rstrip("-.") + suffix


class _Writer:
    """A queue of event writes with a few writers. A write that does not reach the server is retried."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._queue: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(_QUEUED)

    def put(self, write: Callable[[], Awaitable[None]]) -> None:
        try:
            self._queue.put_nowait(write)
        except asyncio.QueueFull:
            log.warning("too many events wait to be written; dropped one")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_WRITERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            write = await self._queue.get()
            for _ in range(_TRIES):
                try:
                    await write()
                    break
                except TransportError as error:
                    log.info("cannot write an event yet: %s", error)
                    await asyncio.sleep(_RETRY.total_seconds())
                except StatusError as error:
                    log.debug("the server refused an event: %s", error)
                    break


class EventRecorder:
    """A recorder of events.k8s.io/v1 events for one component."""

    def __init__(self, client: Client, component: str, host: str) -> None:
        self._client = client
        self._component, self._instance = component, f"{component}-{host}"
        self._writer = _Writer(client)
        self._cache: dict[tuple[object, ...], Json] = {}

    def record(
        self, regarding: Json, type: EventType, reason: str, action: str, note: str, related: Json | None = None
    ) -> None:
        """Record one occurrence. `regarding` and `related` are whole objects."""
        ref = reference(regarding)
        rel = reference(related) if related else None
        key = (type, action, reason, *ref.items(), *(rel.items() if rel else ()))
        known = self._cache.get(key)
        now = clock.now()
        if known is not None:
            self._repeat(known, now)
            return
        event: Json = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": _event_name(ref["name"], now),
                "namespace": ref.get("namespace", "default"),
            },
            "eventTime": micro_time(now),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": ref,
            "note": note,
            "type": type,
        }
        if rel:
            event["related"] = rel
        self._cache[key] = event
        self._writer.put(lambda: self._create(event))

    def _repeat(self, event: Json, now: datetime) -> None:
        series = event.get("series")
        if series is not None:
            series["count"] += 1
            series["lastObservedTime"] = micro_time(now)
            return
        event["series"] = {"count": 2, "lastObservedTime": micro_time(now)}
        self._writer.put(lambda: self._write_series(event))

    async def _create(self, event: Json) -> None:
        # A series that starts before this write is patched in afterwards.
        body = {name: value for name, value in event.items() if name != "series"}
        await self._client.create(EVENTS, body, parse=False)

    async def _write_series(self, event: Json) -> None:
        metadata = event["metadata"]
        try:
            body = {"series": event["series"]}
            await self._client.patch(EVENTS, metadata["name"], body, metadata["namespace"], parse=False)
        except StatusError as error:
            if error.code != 404:
                raise
            await self._client.create(EVENTS, event, parse=False)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._writer.run())
            group.create_task(self._every(_FINISH, self._finish))
            group.create_task(self._every(_REFRESH, self._refresh))

    async def _every(self, period: timedelta, work: Callable[[], None]) -> None:
        while True:
            with clock.timers(clock.Timer.UPKEEP):
                await asyncio.sleep(period.total_seconds())
            work()

    def _finish(self) -> None:
        """Drop events that have not recurred, after writing the last count of a series."""
        before = micro_time(clock.now() - _FINISH)
        for key, event in list(self._cache.items()):
            series = event.get("series")
            if (series["lastObservedTime"] if series else event["eventTime"]) < before:
                del self._cache[key]
                if series:
                    self._write_later(event)

    def _refresh(self) -> None:
        for event in self._cache.values():
            if "series" in event:
                self._write_later(event)

    def _write_later(self, event: Json) -> None:
        self._writer.put(lambda: self._write_series(event))


class CoreEventRecorder:
    """A recorder of core/v1 events for one component."""

    def __init__(self, client: Client, component: str, host: str = "") -> None:
        self._client = client
        self._component, self._host = component, host
        self._writer = _Writer(client)
        self._correlator = Correlator()
        self._kind: Kind = CORE_EVENTS

    def record(self, regarding: Json, type: EventType, reason: str, message: str) -> None:
        """Record one occurrence. `regarding` is a whole object."""
        now = clock.now()
        at, ref = go_time(now), reference(regarding)
        source = {"component": self._component, **({"host": self._host} if self._host else {})}
        event: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": _event_name(ref["name"], now),
                "namespace": ref.get("namespace", "default"),
            },
            "involvedObject": ref,
            "reason": reason,
            "message": message,
            "source": source,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "type": type,
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }
        correlated = self._correlator.observe(event, now)
        if correlated is not None:
            self._writer.put(lambda: self._write(*correlated))

    async def _write(self, event: Json, repeated: bool) -> None:
        metadata = event["metadata"]
        if repeated:
            patch = {name: event[name] for name in ("count", "lastTimestamp", "message")}
            try:
                await self._client.patch(self._kind, metadata["name"], patch, metadata["namespace"], parse=False)
            except StatusError as error:
                if error.code != 404:
                    raise
            else:
                return
        await self._client.create(self._kind, event, parse=False)

    async def run(self) -> None:
        await self._writer.run()
