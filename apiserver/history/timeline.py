"""The timeline of an object: what happened to it, in order, and the time spent in each stage.

A pod's stages are read from the changes of the pod and of its claims, attempts to schedule it from Events and, if the
scheduler runs in this server, from its own record, which also has the attempts that Events only count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from operator import attrgetter
from typing import Any, Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.history.changes import Change, time_of

__all__ = ["Attempt", "Entry", "build_timeline", "claim_names"]

#: Maximum number of field changes in the text of a change.
_FIELDS: Final = 3
#: Stages after which no time is spent.
_FINAL: Final = frozenset({"ended", "deleted"})
#: Difference of the times at which an attempt's Event, its condition and the scheduler's record are written.
_SAME: Final = timedelta(seconds=2)
#: The effects of a successful attempt.
_DECIDED: Final = frozenset({"allocated", "reserved", "bound"})
_SCHEDULER_EVENTS: Final = frozenset({"FailedScheduling", "Scheduled"})


class Attempt(NamedTuple):
    """An attempt to schedule a pod: its result ("scheduled", "unschedulable", "error") and the text about it."""

    time: datetime
    result: str
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a timeline. `seconds` is the time until the next stage, None for what is no stage and for an end."""

    time: datetime
    revision: int
    name: str
    detail: str
    stage: bool = True
    seconds: float | None = None
    #: Position among the entries of one time, in revisions.
    order: float = inf

    def as_json(self) -> Json:
        """Return the fields of `/-/timeline`."""
        fields = ("time", "name", "detail", "stage", "seconds")
        return {**{field: getattr(self, field) for field in fields}, "revision": str(self.revision or "") or None}


def build_timeline(
    kind: str,
    changes: Sequence[Change],
    *,
    claims: Iterable[Sequence[Change]] = (),
    events: Iterable[Change] = (),
    attempts: Sequence[Attempt] = (),
    calls: Iterable[Entry] = (),
    now: datetime,
) -> list[Entry]:
    """Return the entries of an object's last life, in order.

    `attempts` are the scheduler's own record, `calls` the calls of kubelets to drivers.
    """
    changes = _last_life(changes)
    uid = changes[-1].obj["metadata"]["uid"]
    entries = [*(_pod_entries(changes) if kind == "Pod" else _other_entries(changes)), *calls]
    for claim in claims:
        entries += _claim_entries(claim, uid)
    about = [change for change in events if not change.deleted]
    if kind == "Pod":
        seen = [*_attempts_of_events(about), *_attempts_of_conditions(changes)]
        # The scheduler's record begins at its start.
        begin = min((attempt.time for attempt in attempts), default=now + _SAME) - _SAME
        attempts = [*attempts, *(attempt for attempt in seen if attempt.time < begin)]
        entries += _attempt_entries(attempts, [entry for entry in entries if entry.name in _DECIDED])
        about = [change for change in about if change.obj.get("reason") not in _SCHEDULER_EVENTS]
    entries += map(_event_entry, about)
    entries.sort(key=lambda entry: (entry.time, entry.revision or entry.order))
    return _with_durations(entries, now)


def claim_names(changes: Sequence[Change]) -> list[str]:
    """Return the names of all claims that a pod used."""
    names: dict[str, None] = {}
    for change in changes:
        spec, status = change.obj.get("spec") or {}, change.obj.get("status") or {}
        for each in (*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())):
            if each.get("resourceClaimName"):
                names[each["resourceClaimName"]] = None
    return [*names]


def _last_life(changes: Sequence[Change]) -> Sequence[Change]:
    """Return the changes of the newest object of the name."""
    uid = changes[-1].obj["metadata"].get("uid")
    return [change for change in changes if change.obj["metadata"].get("uid") == uid]


def _with_durations(entries: Sequence[Entry], now: datetime) -> list[Entry]:
    following: datetime | None = now
    found: list[Entry] = []
    for entry in reversed(entries):
        if entry.stage:
            spent = (
                None if following is None or entry.name in _FINAL else max((following - entry.time).total_seconds(), 0)
            )
            entry, following = replace(entry, seconds=spent), entry.time
        found.append(entry)
    return found[::-1]


def _entry(change: Change, name: str, detail: str, *, stage: bool = True) -> Entry:
    return Entry(time_of(change), change.revision, name, detail, stage)


# Pods


def _pod_entries(changes: Sequence[Change]) -> Iterator[Entry]:
    before: Json = {}
    if not changes[0].created:
        yield _entry(changes[0], "known", "the history begins after the creation of the pod")
        before = changes[0].obj
    for change in changes:
        yield from _pod_stages(before, change)
        before = change.obj


def _pod_stages(before: Json, change: Change) -> Iterator[Entry]:
    """Yield the stages that a pod entered by a change."""
    pod, by = change.obj, f"by {change.who}"
    old, new = before.get("spec") or {}, pod.get("spec") or {}
    was, status = before.get("status") or {}, pod.get("status") or {}
    if change.deleted:
        yield _entry(change, "deleted", by)
        return
    gates = [gate["name"] for gate in new.get("schedulingGates") or ()]
    if change.created:
        yield _entry(change, "created", by)
    if gates and change.created:
        yield _entry(change, "gated", ", ".join(gates))
    elif not gates and (change.created or old.get("schedulingGates")) and not new.get("nodeName"):
        yield _entry(change, "queued", "")
    if status.get("resourceClaimStatuses") != was.get("resourceClaimStatuses"):
        names = [each.get("resourceClaimName", "") for each in status.get("resourceClaimStatuses") or ()]
        yield _entry(change, "claims", ", ".join(filter(None, names)), stage=False)
    if status.get("nominatedNodeName") and status.get("nominatedNodeName") != was.get("nominatedNodeName"):
        yield _entry(change, "nominated", f"to {status['nominatedNodeName']}")
    if new.get("nodeName") and not old.get("nodeName"):
        yield _entry(change, "bound", f"to {new['nodeName']} {by}")
    if _is_true(status, "PodReadyToStartContainers") and not _is_true(was, "PodReadyToStartContainers"):
        yield _entry(change, "prepared", "sandbox and devices are ready")
    if status.get("phase") == "Running" != was.get("phase"):
        yield _entry(change, "running", "")
    if _is_true(status, "Ready") and not _is_true(was, "Ready"):
        yield _entry(change, "ready", "")
    if status.get("phase") in ("Succeeded", "Failed") and status["phase"] != was.get("phase"):
        yield _entry(change, "ended", _describe_end(status))
    if pod["metadata"].get("deletionTimestamp") and not (before.get("metadata") or {}).get("deletionTimestamp"):
        yield _entry(change, "terminating", f"deletion requested {by}")


def _is_true(status: Json, kind: str) -> bool:
    return any(each["type"] == kind and each["status"] == "True" for each in status.get("conditions") or ())


def _describe_end(status: Json) -> str:
    parts = [status["phase"], status.get("reason", ""), status.get("message", "")]
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            parts.append(f"container {container['name']}: exit code {ended['exitCode']}")
    return ", ".join(filter(None, parts))


# Attempts


def _attempts_of_events(events: Iterable[Change]) -> Iterator[Attempt]:
    for change in events:
        event = change.obj
        if event.get("reason") in _SCHEDULER_EVENTS:
            result = "scheduled" if event["reason"] == "Scheduled" else "unschedulable"
            yield Attempt(time_of(change), result, event.get("message") or "")


def _attempts_of_conditions(changes: Sequence[Change]) -> Iterator[Attempt]:
    """Yield the attempts that a changed condition shows."""
    last: Any = None
    for change in changes:
        for each in (change.obj.get("status") or {}).get("conditions") or ():
            if each["type"] == "PodScheduled" and each != last:
                last = each
                if each["status"] == "False" and each.get("reason") in ("Unschedulable", "SchedulerError"):
                    result = "unschedulable" if each["reason"] == "Unschedulable" else "error"
                    yield Attempt(time_of(change), result, each.get("message") or "")


def _attempt_entries(attempts: Iterable[Attempt], effects: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the numbered attempts, a successful one before its effects.

    The Event and the condition of one attempt are written one after the other. The Event of a binding follows it.
    """
    first = min(effects, key=attrgetter("revision"), default=None)
    number, last = 0, None
    for attempt in sorted(attempts, key=attrgetter("time")):
        if last is not None and attempt[1:] == last[1:] and timedelta() < attempt.time - last.time < _SAME:
            continue
        number, last = number + 1, attempt
        detail = f"{attempt.result}: {attempt.text}".removesuffix(": ")
        if attempt.result == "scheduled" and first is not None:
            time = min(attempt.time, first.time)
            yield Entry(time, 0, f"attempt {number}", detail, order=first.revision - 0.5)
        else:
            yield Entry(attempt.time, 0, f"attempt {number}", detail)


# Claims, events and other objects


def _claim_entries(changes: Sequence[Change], pod_uid: str) -> Iterator[Entry]:
    before: Json = {}
    for change in changes:
        claim = change.obj
        name, was, status = claim["metadata"]["name"], before.get("status") or {}, claim.get("status") or {}
        if change.deleted:
            yield _entry(change, "claim", f"{name} deleted by {change.who}", stage=False)
            before = {}
            continue
        if status.get("allocation") and not was.get("allocation"):
            yield _entry(change, "allocated", f"{name}: {_describe_devices(status['allocation'])}")
        if was.get("allocation") and not status.get("allocation"):
            yield _entry(change, "claim", f"{name} deallocated by {change.who}", stage=False)
        reserved, earlier = (pod_uid in _consumers(each) for each in (status, was))
        if reserved and not earlier:
            yield _entry(change, "reserved", name)
        if earlier and not reserved:
            yield _entry(change, "released", f"{name} by {change.who}", stage=False)
        before = claim


def _consumers(status: Json) -> list[str]:
    return [each.get("uid", "") for each in status.get("reservedFor") or ()]


def _describe_devices(allocation: Json) -> str:
    results = (allocation.get("devices") or {}).get("results") or ()
    return ", ".join(f"{each['driver']}/{each['pool']}/{each['device']}" for each in results) or "no devices"


def _event_entry(change: Change) -> Entry:
    event = change.obj
    number = event.get("count") or (event.get("series") or {}).get("count") or 1
    times = f" ({number} times)" if number > 1 else ""
    return _entry(change, "event", f"{event.get('reason', '')}: {event.get('message') or ''}{times}", stage=False)


def _other_entries(changes: Sequence[Change]) -> Iterator[Entry]:
    """Yield one entry per change of an object without stages."""
    for change in changes:
        verb = "deleted" if change.deleted else "created" if change.created else "changed"
        yield _entry(change, verb, f"by {change.who}: {describe_fields(change)}".removesuffix(": "))


def describe_fields(change: Change) -> str:
    """Return the first changed fields in one line."""
    fields = change.fields or ()
    texts = [f"{field.path}: {_short(field.old)} → {_short(field.new)}" for field in fields[:_FIELDS]]
    more = len(fields) - len(texts)
    return ", ".join([*texts, f"{more} more fields"] if more > 0 else texts)


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        return "{…}" if isinstance(value, dict) else "[…]"
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
