"""The stages of a pod, read from changes, Events and the scheduler's record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from apiserver.api.objects import Json
from apiserver.history.changes import Change
from apiserver.history.timeline import Attempt, Entry, build_timeline, claim_names
from apiserver.registry.definition.authors import Author

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = BEGIN + timedelta(hours=1)
_revisions = count(1)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def change(seconds: float, *, created: bool = False, deleted: bool = False, uid: str = "u", **obj: Any) -> Change:
    author = Author("update", "", "", "", "someone")
    whole = {"metadata": {"name": "web", "uid": uid, **obj.pop("metadata", {})}, **obj}
    return Change(next(_revisions), at(seconds), author, whole, deleted, created, None)


def event(seconds: float, reason: str, message: str = "", **fields: Any) -> Change:
    return change(seconds, created=True, reason=reason, message=message, **fields)


def unscheduled(seconds: float, message: str) -> Change:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return change(seconds, spec={}, status={"phase": "Pending", "conditions": [condition]})


def stages(entries: list[Entry]) -> list[tuple[str, float | None]]:
    return [(entry.name, entry.seconds) for entry in entries if entry.stage]


def running(seconds: float, phase: str = "Running", **conditions: str) -> Change:
    listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return change(seconds, spec={"nodeName": "n"}, status={"phase": phase, "conditions": listed})


def test_a_pod_goes_from_its_creation_to_its_end_and_the_time_in_each_stage_is_known() -> None:
    pod = [
        change(0, created=True, spec={}, status={"phase": "Pending"}),
        change(3, spec={"nodeName": "n"}, status={"phase": "Pending"}),
        running(5, "Pending", PodReadyToStartContainers="True"),
        running(6, PodReadyToStartContainers="True"),
        running(10, PodReadyToStartContainers="True", Ready="True"),
        running(70, "Succeeded"),
    ]
    found = build_timeline("Pod", pod, now=NOW)
    assert stages(found) == [
        ("created", 0), ("queued", 3), ("bound", 2), ("prepared", 1), ("running", 4), ("ready", 60), ("ended", None),
    ]  # fmt: skip


def test_the_stage_of_now_lasts_until_now() -> None:
    assert stages(build_timeline("Pod", [change(0, created=True, spec={})], now=at(9))) == [
        ("created", 0),
        ("queued", 9),
    ]


def test_a_gated_pod_is_queued_when_its_gates_are_removed() -> None:
    pod = [change(0, created=True, spec={"schedulingGates": [{"name": "g"}]}), change(4, spec={})]
    assert stages(build_timeline("Pod", pod, now=at(5))) == [("created", 0), ("gated", 4), ("queued", 1)]


def test_attempts_of_a_scheduler_elsewhere_are_its_events_and_conditions() -> None:
    pod = [
        change(0, created=True, spec={}),
        unscheduled(1.01, "no room"),
        unscheduled(30, "no device"),  # its Event was dropped
        change(60, spec={"nodeName": "n"}),
    ]
    events = [
        event(1, "FailedScheduling", "no room"),
        event(10, "FailedScheduling", "no room", series={"count": 2}),
        event(60.02, "Scheduled", "Successfully assigned"),
    ]
    found = build_timeline("Pod", pod, events=events, now=NOW)
    assert [(entry.name, entry.detail, entry.time) for entry in found if entry.name.startswith("attempt")] == [
        ("attempt 1", "unschedulable: no room", at(1)),
        ("attempt 2", "unschedulable: no room", at(10)),
        ("attempt 3", "unschedulable: no device", at(30)),
        ("attempt 4", "scheduled: Successfully assigned", at(60)),
    ]
    assert [entry.name for entry in found][-2:] == ["attempt 4", "bound"], "the verdict precedes its effect"


def test_the_schedulers_own_record_has_the_attempts_that_events_only_count() -> None:
    pod, events = (
        [change(0, created=True, spec={})],
        [event(1, "FailedScheduling", "old"), event(100, "FailedScheduling", "n")],
    )
    attempts = [Attempt(at(seconds), "unschedulable", "n") for seconds in (100, 110, 120)]
    found = build_timeline("Pod", pod, events=events, attempts=attempts, now=NOW)
    assert [(entry.name, entry.time) for entry in found if entry.name.startswith("attempt")] == [
        ("attempt 1", at(1)), ("attempt 2", at(100)), ("attempt 3", at(110)), ("attempt 4", at(120)),
    ]  # fmt: skip


def claim(seconds: float, status: Json, *, deleted: bool = False) -> Change:
    return change(seconds, uid="c", metadata={"name": "gpu"}, status=status, deleted=deleted)


def test_claims_are_allocated_and_reserved_before_the_pod_is_bound() -> None:
    pod = [change(0, created=True, spec={}), change(9, spec={"nodeName": "n"})]
    devices = {"devices": {"results": [{"driver": "d", "pool": "p", "device": "0"}]}}
    reserved = {"allocation": devices, "reservedFor": [{"uid": "u"}]}
    claims = [
        claim(1, {}),
        claim(7, {"allocation": devices}),
        claim(8, reserved),
        claim(20, {}),
        claim(30, {}, deleted=True),
    ]
    found = build_timeline("Pod", pod, claims=[claims], now=NOW)
    assert [(entry.name, entry.detail) for entry in found][2:] == [
        ("allocated", "gpu: d/p/0"),
        ("reserved", "gpu"),
        ("bound", "to n by someone"),
        ("claim", "gpu deallocated by someone"),
        ("released", "gpu by someone"),
        ("claim", "gpu deleted by someone"),
    ]


def test_events_are_lines_but_no_stages() -> None:
    pod, failed = [change(0, created=True, spec={})], event(2, "FailedMount", "no volume", count=3)
    found = build_timeline("Pod", pod, events=[failed], now=at(5))
    assert (found[-1].detail, found[-1].stage) == ("FailedMount: no volume (3 times)", False)
    assert stages(found)[-1] == ("queued", 5)


def test_an_earlier_object_of_the_name_is_another_life() -> None:
    pod = [
        change(0, created=True, uid="old", spec={}),
        change(1, deleted=True, uid="old"),
        change(2, created=True, spec={}),
    ]
    assert stages(build_timeline("Pod", pod, now=at(3))) == [("created", 0), ("queued", 1)]


def test_the_creation_may_be_before_the_history() -> None:
    found = build_timeline("Pod", [running(50)], now=NOW)
    assert [(entry.name, entry.detail) for entry in found] == [
        ("known", "the history begins after the creation of the pod")
    ]


def test_the_claims_of_a_pod_are_those_of_its_spec_and_of_its_status() -> None:
    status = {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "web-b"}, {"name": "c"}]}
    spec = {"resourceClaims": [{"name": "a", "resourceClaimName": "shared"}]}
    assert claim_names([change(0, spec=spec), change(1, spec=spec, status=status)]) == ["shared", "web-b"]
