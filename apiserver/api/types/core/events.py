"""Event of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, MICRO_TIME, STRING, TIME, Struct, field
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

EventSource = Struct("io.k8s.api.core.v1.EventSource", lambda: (
    field("component", 1, STRING, doc="Program that reported the event."),
    field("host", 2, STRING, doc="Node on which the program ran."),
), doc="EventSource names the reporter of an event.")
EventSeries = Struct("io.k8s.api.core.v1.EventSeries", lambda: (
    field("count", 1, INT32, doc="Number of occurrences."),
    field("lastObservedTime", 2, MICRO_TIME, omit=False, doc="Time of the last occurrence."),
), doc="EventSeries is about an event that continues to happen.")
Event = Struct("io.k8s.api.core.v1.Event", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, required=True, doc="Standard object's metadata."),
    field("involvedObject", 2, ObjectReference, omit=False, required=True,
        doc="Object that the event is about; in the namespace of the event, if it has one."),
    field("reason", 3, STRING, doc="Reason as one CamelCase word, such as FailedScheduling."),
    field("message", 4, STRING, doc="Description as text, for people."),
    field("source", 5, EventSource, omit=False, doc="Reporter of the event; replaced by reportingComponent."),
    field("firstTimestamp", 6, TIME, omit=False, doc="Time of the first counted occurrence."),
    field("lastTimestamp", 7, TIME, omit=False, doc="Time of the last counted occurrence."),
    field("count", 8, INT32, doc="Number of occurrences."),
    field("type", 9, STRING, doc="Normal or Warning."),
    field("eventTime", 10, MICRO_TIME, omit=False,
        doc="Time of the first occurrence, with microseconds; set by reporters of the newer API."),
    field("series", 11, EventSeries, pointer=True, doc="Set while the event continues to happen."),
    field("action", 12, STRING, doc="Action on the object, such as Binding."),
    field("related", 13, ObjectReference, pointer=True, doc="Related object of the event."),
    field("reportingComponent", 14, STRING, omit=False,
        doc="Name of the controller that reported the event, such as kubernetes.io/kubelet."),
    field("reportingInstance", 15, STRING, omit=False,
        doc="Instance of the controller, for example its pod or node name."),
), gvk=("", "v1", "Event"), doc="Event reports that something happened to an object.")

EventList = list_of(Event)
