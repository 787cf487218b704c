"""Event of events.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema import INT32, MICRO_TIME, STRING, TIME, Struct, field
from apiserver.api.types.core.events import EventSource
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

EventSeries = Struct("io.k8s.api.events.v1.EventSeries", lambda: (
    field("count", 1, INT32, omit=False, required=True),
    field("lastObservedTime", 2, MICRO_TIME, omit=False, required=True),
))
Event = Struct("io.k8s.api.events.v1.Event", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("eventTime", 2, MICRO_TIME, omit=False, required=True),
    field("series", 3, EventSeries, pointer=True),
    field("reportingController", 4, STRING),
    field("reportingInstance", 5, STRING),
    field("action", 6, STRING),
    field("reason", 7, STRING),
    field("regarding", 8, ObjectReference, omit=False),
    field("related", 9, ObjectReference, pointer=True),
    field("note", 10, STRING),
    field("type", 11, STRING),
    field("deprecatedSource", 12, EventSource, omit=False),
    field("deprecatedFirstTimestamp", 13, TIME, omit=False),
    field("deprecatedLastTimestamp", 14, TIME, omit=False),
    field("deprecatedCount", 15, INT32),
), gvk=("events.k8s.io", "v1", "Event"))

EventList = list_of(Event)
