"""Correlation of core/v1 events, as client-go's correlator does it before writing.

* A repeated event (all but its time equal) increments the count of the first one.
* From the tenth different message within ten minutes on, events that differ only in the message are combined. The
  combined message begins with `(combined from similar events): `.
* A source may send 25 events about an object, then one more every five minutes. The rest is dropped.

State is bounded: the least recently used of 4096 entries is dropped first.
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
    """A dict that drops the least recently used entry."""

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
class _Occurrences:
    name: str
    count: int
    first: str


class Correlator:
    """The decision about each event: write, repeat, combine or drop."""

    def __init__(self) -> None:
        self._groups: _Recent[_Group] = _Recent()
        self._occurrences: _Recent[_Occurrences] = _Recent()
        self._budgets: _Recent[_Budget] = _Recent()

    def observe(self, event: Json, now: datetime) -> tuple[Json, bool] | None:
        """Return the event to write and whether to patch it over an earlier one; None to drop it."""
        source, involved = event["source"], event["involvedObject"]
        about = (
            source["component"], source.get("host"), involved["kind"], involved.get("namespace"), involved["name"],
            involved.get("uid"), involved["apiVersion"], event["type"],
        )  # fmt: skip
        event, key = self._combine(event, about, now)
        event, repeated = self._count(event, key)
        return (event, repeated) if self._acquire_token(about, now) else None

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
        earlier = self._occurrences.get(key)
        if earlier is not None:
            metadata = {**event["metadata"], "name": earlier.name}
            event = {**event, "metadata": metadata, "count": earlier.count + 1, "firstTimestamp": earlier.first}
        self._occurrences.put(key, _Occurrences(event["metadata"]["name"], event["count"], event["firstTimestamp"]))
        return event, earlier is not None

    def _acquire_token(self, about: Hashable, now: datetime) -> bool:
        budget = self._budgets.get(about) or _Budget(_BURST, now)
        tokens = min(_BURST, budget.tokens + (now - budget.at) / _REFILL)
        affordable = tokens >= 1
        self._budgets.put(about, _Budget(tokens - 1 if affordable else tokens, now))
        return affordable
