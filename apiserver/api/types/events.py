"""Event of events.k8s.io/v1."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, MICRO_TIME, STRING, TIME, Struct, field
from apiserver.api.types.core.events import EventSource
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

EventSeries = Struct("io.k8s.api.events.v1.EventSeries", lambda: (
    field("count", 1, INT32, omit=False, required=True, doc="Number of occurrences."),
    field("lastObservedTime", 2, MICRO_TIME, omit=False, required=True, doc="Time of the last occurrence."),
), doc="EventSeries is about an event that continues to happen.")
Event = Struct("io.k8s.api.events.v1.Event", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("eventTime", 2, MICRO_TIME, omit=False, required=True,
        doc="Time of the first occurrence, with microseconds; required for new events."),
    field("series", 3, EventSeries, pointer=True, doc="Set while the event continues to happen."),
    field("reportingController", 4, STRING,
        doc="Name of the controller that reported the event, such as kubernetes.io/kubelet; required for new events."),
    field("reportingInstance", 5, STRING,
        doc="Instance of the controller, for example its pod or node name; at most 128 characters."),
    field("action", 6, STRING,
        doc="Action on the object, such as Binding; required for new events, at most 128 characters."),
    field("reason", 7, STRING,
        doc="Reason as one CamelCase word, such as FailedScheduling; required for new events, at most 128 characters."),
    field("regarding", 8, ObjectReference, omit=False, doc="Object that the event is about."),
    field("related", 9, ObjectReference, pointer=True, doc="Related object of the event."),
    field("note", 10, STRING, doc="Description as text, for people; at most 1 KiB."),
    field("type", 11, STRING, doc="Normal or Warning."),
    field("deprecatedSource", 12, EventSource, omit=False, doc="The source of a core/v1 event."),
    field("deprecatedFirstTimestamp", 13, TIME, omit=False, doc="The firstTimestamp of a core/v1 event."),
    field("deprecatedLastTimestamp", 14, TIME, omit=False, doc="The lastTimestamp of a core/v1 event."),
    field("deprecatedCount", 15, INT32, doc="The count of a core/v1 event."),
), gvk=("events.k8s.io", "v1", "Event"), doc="Event reports that something happened to an object.")

EventList = list_of(Event)
