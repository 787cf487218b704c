"""Event of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, MICRO_TIME, STRING, TIME, Struct, field
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

EventSource = Struct("io.k8s.api.core.v1.EventSource", lambda: (
    field("component", 1, STRING, doc="Program that reported the event."),
    field("host", 2, STRING, doc="Node on which the program ran."),
), doc="EventSource says who reported an event.")
EventSeries = Struct("io.k8s.api.core.v1.EventSeries", lambda: (
    field("count", 1, INT32, doc="How often the event has happened."),
    field("lastObservedTime", 2, MICRO_TIME, omit=False, doc="When the event happened last."),
), doc="EventSeries is about an event that goes on happening.")
Event = Struct("io.k8s.api.core.v1.Event", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, required=True, doc="Standard object's metadata."),
    field("involvedObject", 2, ObjectReference, omit=False, required=True,
        doc="Object that the event is about; in the namespace of the event, if it has one."),
    field("reason", 3, STRING, doc="What happened, as one CamelCase word, such as FailedScheduling."),
    field("message", 4, STRING, doc="What happened, as text for people."),
    field("source", 5, EventSource, omit=False, doc="Who reported the event; reportingComponent takes its place."),
    field("firstTimestamp", 6, TIME, omit=False, doc="When the first of the counted events happened."),
    field("lastTimestamp", 7, TIME, omit=False, doc="When the last of the counted events happened."),
    field("count", 8, INT32, doc="How often the event has happened."),
    field("type", 9, STRING, doc="Normal or Warning."),
    field("eventTime", 10, MICRO_TIME, omit=False,
        doc="When the event happened first, with microseconds; set by reporters of the newer API."),
    field("series", 11, EventSeries, pointer=True, doc="Set while the event goes on happening."),
    field("action", 12, STRING, doc="What was done or failed with the object, such as Binding."),
    field("related", 13, ObjectReference, pointer=True, doc="Second object that had a part in it."),
    field("reportingComponent", 14, STRING, omit=False,
        doc="Name of the controller that reported the event, such as kubernetes.io/kubelet."),
    field("reportingInstance", 15, STRING, omit=False,
        doc="Which instance of the controller reported it, for example by pod or node name."),
), gvk=("", "v1", "Event"), doc="Event reports that something happened to an object.")

EventList = list_of(Event)
