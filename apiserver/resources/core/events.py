"""Define Events: one stored kind, served by core/v1 and by events.k8s.io/v1.

The hub is core/v1; `from_hub` and `to_hub` rename fields for the newer group. Core accepts nearly any event. The newer
group validates events, and reports some fields under their core names. Rules: pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.core.events import Event as CoreEvent
from apiserver.api.types.events import Event
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.durations import age
from apiserver.api.values.names import dns_subdomain, label_key
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.metadata import validate_metadata, validate_metadata_update
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy

_TEXT_LIMIT: Final = 128
_NOTE_LIMIT: Final = 1024
#: events.k8s.io/v1 name → core/v1 name.
_RENAMED: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_TO_NEW: Final = {core: new for new, core in _RENAMED.items()}
#: The fields in the order of each version's type.
_CORE_ORDER: Final = (
    "kind",
    "apiVersion",
    "metadata",
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "series",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_NEW_ORDER: Final = (
    "kind",
    "apiVersion",
    "metadata",
    "eventTime",
    "series",
    "reportingController",
    "reportingInstance",
    "action",
    "reason",
    "regarding",
    "related",
    "note",
    "type",
    "deprecatedSource",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
)
#: The fields that each version encodes even if they are empty.
_CORE_ALWAYS: Final[dict[str, Any]] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEW_ALWAYS: Final[dict[str, Any]] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}
_OMITTED_WHEN_EMPTY: Final = ("reportingController", "reportingInstance")


def to_hub(obj: Json) -> Json:
    """Convert events.k8s.io/v1 to core/v1."""
    named = {_RENAMED.get(name, name): value for name, value in obj.items()}
    return {
        name: named.get(name, _CORE_ALWAYS.get(name)) for name in _CORE_ORDER if name in named or name in _CORE_ALWAYS
    }


def from_hub(obj: Json) -> Json:
    """Convert core/v1 to events.k8s.io/v1."""
    named = {_TO_NEW.get(name, name): value for name, value in obj.items()}
    for name in _OMITTED_WHEN_EMPTY:
        if not named.get(name):
            named.pop(name, None)
    return {name: named.get(name, _NEW_ALWAYS.get(name)) for name in _NEW_ORDER if name in named or name in _NEW_ALWAYS}


# --- validation
# ----------------------------------------------------------------------------------------------------------------------


def _bounded(
    errors: list[FieldError], obj: Json, field: str, required_too: bool = True, limit: int = _TEXT_LIMIT
) -> None:
    value = obj.get(field) or ""
    if required_too and not value:
        errors.append(required(Path(field)))
    if len(value.encode()) > limit:
        errors.append(invalid(Path(field), "", f"can have at most {limit} characters"))


def _series_event(obj: Json, controller: Path) -> list[FieldError]:
    """Validate an event with eventTime. The newer recorders create them with all fields set."""
    errors: list[FieldError] = []
    involved = obj["involvedObject"].get("namespace", "")
    if not involved and obj["metadata"].get("namespace", "") not in ("default", "kube-system"):
        errors.append(invalid(Path("involvedObject.namespace"), involved, "does not match event.namespace"))
    reporting = obj.get("reportingComponent") or ""
    if not reporting:
        errors.append(required(controller))
    errors += [invalid(controller, reporting, text) for text in label_key(reporting)]
    _bounded(errors, obj, "reportingInstance")
    _bounded(errors, obj, "action")
    _bounded(errors, obj, "reason")
    _bounded(errors, obj, "message", required_too=False, limit=_NOTE_LIMIT)
    return errors


def _common(obj: Json, core: bool) -> list[FieldError]:
    """Validate the rules of both groups."""
    namespace = obj["metadata"].get("namespace", "")
    if obj.get("eventTime"):
        errors = _series_event(obj, Path("reportingComponent" if core else "reportingController"))
    else:
        involved = obj["involvedObject"].get("namespace", "")
        fits = namespace == involved if involved else namespace in ("", "default")
        errors = [] if fits else [invalid(Path("involvedObject.namespace"), involved, "does not match event.namespace")]
    return errors + [invalid(Path("namespace"), namespace, text) for text in dns_subdomain(namespace)]


def _series(obj: Json) -> list[FieldError]:
    series = obj.get("series")
    if not series:
        return []
    errors = [invalid(Path("series.count"), "", "should be at least 2")] if series.get("count", 0) < 2 else []
    return errors if series.get("lastObservedTime") else [*errors, required(Path("series.lastObservedTime"))]


def _unset(obj: Json) -> list[FieldError]:
    """Reject fields of the older recorders in new events."""
    errors = [
        invalid(Path(field), "", "needs to be unset")
        for field in ("firstTimestamp", "lastTimestamp", "count")
        if obj.get(field)
    ]
    source = obj.get("source") or {}
    return (
        [*errors, invalid(Path("source"), "", "needs to be unset")]
        if source.get("component") or source.get("host")
        else errors
    )


_IMMUTABLE: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_EMPTY: Final = {"reason": "", "message": "", "count": 0, "type": "", "action": ""}


class CoreEventStrategy(Strategy):
    """Strategy of core/v1, which leaves metadata to the generic rules."""

    checks_metadata = False
    revalidates_metadata = False
    garbage_collection = "unsupported"

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _common(obj, core=True)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _common(obj, core=True)


class EventStrategy(CoreEventStrategy):
    """Strategy of events.k8s.io/v1, which validates metadata after the common rules."""

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors = _common(obj, core=False)
        errors += validate_metadata(obj["metadata"], True, self.name_rule, kind_rules=True)
        errors += _series(obj)
        if not obj.get("eventTime"):
            errors.append(required(Path("eventTime")))
        if obj.get("type", "") not in ("Normal", "Warning"):
            errors.append(invalid(Path("type"), "", f"has invalid value: {obj.get('type', '')}"))
        return errors + _unset(obj)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        errors = _common(obj, core=False)
        errors += validate_metadata_update(obj["metadata"], old["metadata"], kind_rules=True)
        if obj.get("series") != old.get("series"):
            errors += _series(obj)
        for field in _IMMUTABLE:
            value = obj.get(field, _EMPTY.get(field))
            if value != old.get(field, _EMPTY.get(field)):
                shown = "reportingController" if field == "reportingComponent" else field
                errors.append(invalid(Path(shown), internal(CoreEvent.fields[field].type, value), "field is immutable"))
        return errors


# --- fields and columns
# --------------------------------------------------------------------------------------------------------------------


def _involved(field: str) -> Any:
    return lambda obj: obj["involvedObject"].get(field, "")


def _source_name(obj: Json) -> str:
    name: str = (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
    return name


_FIELD_LABELS: Final[dict[str, Any]] = {
    **{
        f"involvedObject.{field}": _involved(field)
        for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": lambda obj: obj.get("reason", ""),
    "reportingComponent": lambda obj: obj.get("reportingComponent") or "",
    "source": _source_name,
    "type": lambda obj: obj.get("type", ""),
}


def _first_seen(obj: Json, now: datetime) -> str:
    return age(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _last_seen(obj: Json, now: datetime) -> str:
    if series := obj.get("series"):
        return age(series.get("lastObservedTime"), now)
    return age(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else _first_seen(obj, now)


def _object(obj: Json) -> str:
    involved = obj["involvedObject"]
    kind: str = involved.get("kind", "").lower()
    return f"{kind}/{involved['name']}" if involved.get("name") else kind


def _source(obj: Json) -> str:
    host = (obj.get("source") or {}).get("host") or obj.get("reportingInstance") or ""
    return f"{_source_name(obj)}, {host}" if host else _source_name(obj)


def _count(obj: Json) -> int:
    series = obj.get("series")
    count: int = series.get("count", 0) if series else obj.get("count") or 1
    return count


_COLUMNS: Final = (
    Column(name="Last Seen", cell=_last_seen, timed=True, description="Time since the event was last observed."),
    Column(name="Type", cell=lambda obj: obj.get("type", ""), description="Normal or Warning."),
    Column(name="Reason", cell=lambda obj: obj.get("reason", ""), description="Short, machine-readable cause."),
    Column(name="Object", cell=_object, description="The object that the event is about."),
    Column(
        name="Subobject",
        cell=lambda obj: obj["involvedObject"].get("fieldPath", ""),
        priority=1,
        description="Part of the object.",
    ),
    Column(name="Source", cell=_source, priority=1, description="Component that reported the event."),
    Column(
        name="Message", cell=lambda obj: (obj.get("message") or "").strip(), description="Description of the event."
    ),
    Column(
        name="First Seen",
        cell=_first_seen,
        timed=True,
        priority=1,
        description="Time since the event was first observed.",
    ),
    Column(name="Count", cell=_count, priority=1, description="Number of observations."),
    Column(
        name="Name",
        cell=lambda obj: obj["metadata"].get("name", ""),
        format="name",
        priority=1,
        description="Name of the event.",
    ),
)


#: Selectable fields under the newer group's names.
_NEW_FIELD_LABELS: Final[dict[str, Any]] = {
    label.replace("involvedObject.", "regarding.").replace("reportingComponent", "reportingController"): value
    for label, value in _FIELD_LABELS.items() if label != "source"
}  # fmt: skip


def _resource(group: str, version: Version, strategy: Strategy, fields: dict[str, Any]) -> Resource:
    return Resource(
        group=group,
        kind="Event",
        plural="events",
        singular="event",
        namespaced=True,
        short_names=("ev",),
        versions=(version,),
        strategy=strategy,
        storage_prefix="events",
        storage_version="v1",
        columns=_COLUMNS,
        create_on_update=True,
        field_labels=fields,
        field_error_style="plain",
        cached=False,
    )


CORE_EVENTS = _resource("", Version(name="v1", schema=CoreEvent), CoreEventStrategy(), _FIELD_LABELS)
EVENTS = _resource(
    "events.k8s.io",
    Version(name="v1", schema=Event, to_hub=to_hub, from_hub=from_hub),
    EventStrategy(),
    _NEW_FIELD_LABELS,
)
