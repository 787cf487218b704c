"""Event of core/v1."""

from __future__ import annotations

from apiserver.api.schema import INT32, MICRO_TIME, STRING, TIME, Struct, field
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

EventSource = Struct("io.k8s.api.core.v1.EventSource", lambda: (
    field("component", 1, STRING),
    field("host", 2, STRING),
))
EventSeries = Struct("io.k8s.api.core.v1.EventSeries", lambda: (
    field("count", 1, INT32),
    field("lastObservedTime", 2, MICRO_TIME, omit=False),
))
Event = Struct("io.k8s.api.core.v1.Event", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, required=True),
    field("involvedObject", 2, ObjectReference, omit=False, required=True),
    field("reason", 3, STRING),
    field("message", 4, STRING),
    field("source", 5, EventSource, omit=False),
    field("firstTimestamp", 6, TIME, omit=False),
    field("lastTimestamp", 7, TIME, omit=False),
    field("count", 8, INT32),
    field("type", 9, STRING),
    field("eventTime", 10, MICRO_TIME, omit=False),
    field("series", 11, EventSeries, pointer=True),
    field("action", 12, STRING),
    field("related", 13, ObjectReference, pointer=True),
    field("reportingComponent", 14, STRING, omit=False),
    field("reportingInstance", 15, STRING, omit=False),
), gvk=("", "v1", "Event"))

EventList = list_of(Event)
