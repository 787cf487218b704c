"""Keeping core/v1 events few: what client-go's correlator does before anything is written.

* The same event again (all but its time equal) counts up the first one.
* From the tenth different message within ten minutes on, events that are equal but for the message become one whose
  message
  begins with `(combined from similar events): `.
* A source may send 25 events about an object, then one more every five minutes; the rest is dropped.

State is bounded: the least recently used of 4096 entries goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from apiserver.api.objects import Json
from controllers.runtime.times import go_time

Value = TypeVar("Value")
_SIMILAR, _INTERVAL = 10, timedelta(minutes=10)
_BURST, _REFILL = 25, timedelta(minutes=5)
_ENTRIES = 4096


class _Recent(Generic[Value]):
    """A dict that forgets what was not used for longest."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable) -> Value | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > _ENTRIES:
            self._entries.popitem(last=False)


@dataclass(slots=True)
class _Group:
    """Events that differ only in their message."""

    last: datetime
    messages: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Budget:
    tokens: float
    at: datetime


@dataclass(frozen=True, slots=True)
class _Seen:
    name: str
    count: int
    first: str


class Correlator:
    """Decides what becomes of an event."""

    def __init__(self) -> None:
        self._groups: _Recent[_Group] = _Recent()
        self._seen: _Recent[_Seen] = _Recent()
        self._budgets: _Recent[_Budget] = _Recent()

    def observe(self, event: Json, now: datetime) -> tuple[Json, bool] | None:
        """The event to write and whether it repeats one written before (then to be patched); None: drop it."""
        source, involved = event["source"], event["involvedObject"]
        about = (
            source["component"], source.get("host"), involved["kind"], involved.get("namespace"), involved["name"],
            involved.get("uid"), involved["apiVersion"], event["type"],
        )  # fmt: skip
        event, key = self._combine(event, about, now)
        event, repeated = self._count(event, key)
        return (event, repeated) if self._afford(about, now) else None

    def _combine(self, event: Json, about: tuple[Any, ...], now: datetime) -> tuple[Json, Hashable]:
        similar = (*about, event["reason"])
        group = self._groups.get(similar)
        if group is None or now - group.last > _INTERVAL:
            group = _Group(now)
        group.messages.add(event["message"])
        group.last = now
        self._groups.put(similar, group)
        if len(group.messages) < _SIMILAR:
            return event, (*similar, event["message"])
        group.messages.pop()
        combined = {**event, "message": f"(combined from similar events): {event['message']}"}
        combined["firstTimestamp"] = combined["lastTimestamp"] = go_time(now)
        return combined, similar

    def _count(self, event: Json, key: Hashable) -> tuple[Json, bool]:
        seen = self._seen.get(key)
        if seen is not None:
            metadata = {**event["metadata"], "name": seen.name}
            event = {**event, "metadata": metadata, "count": seen.count + 1, "firstTimestamp": seen.first}
        self._seen.put(key, _Seen(event["metadata"]["name"], event["count"], event["firstTimestamp"]))
        return event, seen is not None

    def _afford(self, about: Hashable, now: datetime) -> bool:
        budget = self._budgets.get(about) or _Budget(_BURST, now)
        tokens = min(_BURST, budget.tokens + (now - budget.at) / _REFILL)
        affordable = tokens >= 1
        self._budgets.put(about, _Budget(tokens - 1 if affordable else tokens, now))
        return affordable
