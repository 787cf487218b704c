"""The writes of event recorders, their times and their retries, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from controllers.runtime.events import CoreEventRecorder, EventRecorder
from controllers.runtime.transport import TransportError
from tests.support.recording import RecordingClient
from tests.support.virtual import passes, run

pytestmark = pytest.mark.integration

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
OTHER = {**POD, "metadata": {**POD["metadata"], "name": "q", "uid": "v"}}  # type: ignore[dict-item]


class Flaky(RecordingClient):
    """A client that does not reach its server for a number of writes."""

    away = 0

    def _record(self, verb: str, kind: Any, what: Any) -> Any:
        if self.away:
            self.away -= 1
            raise TransportError("no connection")
        return super()._record(verb, kind, deepcopy(what))  # A series goes on counting.


def played(
    recorder_of: Callable[[Any], Any], *steps: Callable[[Any, Flaky], object] | float, client: Flaky | None = None
) -> list[tuple[str, Any]]:
    """Return the written events after steps and pauses (seconds)."""
    client = client or Flaky()

    async def scenario() -> None:
        recorder = recorder_of(client)
        running = asyncio.create_task(recorder.run())
        for step in steps:
            if callable(step):
                step(recorder, client)
            await passes(0 if callable(step) else step)
        running.cancel()

    run(scenario)
    return [(verb, what) for verb, _, what in client.writes]


def new(client: Any) -> EventRecorder:
    return EventRecorder(client, "comp", "host")


def core(client: Any) -> CoreEventRecorder:
    return CoreEventRecorder(client, "comp", "host")


def once(recorder: EventRecorder, _: Flaky) -> None:
    recorder.record(POD, "Normal", "R", "A", "note")


def core_once(recorder: CoreEventRecorder, _: Flaky) -> None:
    recorder.record(POD, "Normal", "R", "m")


def test_an_event_says_who_saw_what_of_whom() -> None:
    def related(recorder: EventRecorder, _: Flaky) -> None:
        recorder.record(POD, "Warning", "R", "A", "note", OTHER)

    [(verb, event)] = played(new, related)
    assert verb == "create"
    assert {name: event[name] for name in ("reportingController", "reportingInstance", "action", "reason", "type")} == {
        "reportingController": "comp", "reportingInstance": "comp-host", "action": "A", "reason": "R",
        "type": "Warning",
    }  # fmt: skip
    assert (event["regarding"]["name"], event["related"]["name"], event["note"]) == ("p", "q", "note")
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["name"].startswith("p.")
    [(_, plain)] = played(new, once)
    assert "related" not in plain


def test_what_is_seen_again_is_a_series_that_is_written_at_its_second_time_alone() -> None:
    writes = played(new, once, once, once, once)
    assert [verb for verb, _ in writes] == ["create", "patch"]
    name, body = writes[1][1]
    assert name == writes[0][1]["metadata"]["name"]
    assert "series" not in writes[0][1]
    assert (list(body), body["series"]["count"]) == (["series"], 2)


def test_what_rests_for_six_minutes_begins_again_and_its_last_count_is_written() -> None:
    for rest in (359, 365):  # The first look is after six minutes, when it has not rested for longer.
        again = played(new, once, rest, once)
        assert [verb for verb, _ in again] == ["create", "patch"]
    writes = played(new, once, 725, once)
    assert [verb for verb, _ in writes] == ["create", "create"]
    ended = played(new, once, once, 725)
    assert [verb for verb, _ in ended] == ["create", "patch", "patch"]
    assert ended[-1][1][1]["series"]["count"] == 2


def test_a_series_that_goes_on_is_written_every_half_hour() -> None:
    steps: list[Any] = [once]
    for _ in range(16):
        steps += [120, once]
    writes = played(new, *steps)
    assert [verb for verb, _ in writes] == ["create", "patch", "patch"]
    assert writes[-1][1][1]["series"]["count"] == 15


def test_others_are_told_apart() -> None:
    def others(recorder: EventRecorder, _: Flaky) -> None:
        for regarding, how, reason, action, rel in (
            (POD, "Normal", "R", "A", None), (OTHER, "Normal", "R", "A", None), (POD, "Warning", "R", "A", None),
            (POD, "Normal", "S", "A", None), (POD, "Normal", "R", "B", None), (POD, "Normal", "R", "A", OTHER),
        ):  # fmt: skip
            recorder.record(regarding, how, reason, action, "note", rel)  # type: ignore[arg-type]

    writes = played(new, others)
    assert [verb for verb, _ in writes] == ["create"] * 6
    assert len({what["metadata"]["name"] for _, what in writes}) == 6


@pytest.mark.parametrize("which", [new, core])
@pytest.mark.parametrize(("code", "verbs"), [(404, ["create", "patch", "create"]), (403, ["create", "patch"])])
def test_a_repetition_of_an_event_that_is_gone_is_a_new_one(which: Any, code: int, verbs: list[str]) -> None:
    record = once if which is new else core_once

    def gone(_: Any, client: Flaky) -> None:
        client.refuses["patch"] = (code, "Gone")

    writes = played(which, record, gone, record)
    assert [verb for verb, _ in writes] == verbs
    if code == 404:
        last = writes[-1][1]
        assert (last["series"] if which is new else last)["count"] == 2


def test_the_server_may_refuse_an_event_and_take_the_next() -> None:
    def refuse(_: Any, client: Flaky) -> None:
        client.refuses["create"] = (403, "Forbidden")

    def other(recorder: CoreEventRecorder, client: Flaky) -> None:
        client.refuses = {}
        recorder.record(OTHER, "Normal", "R", "m")

    writes = played(core, refuse, core_once, other)
    assert [what["involvedObject"]["name"] for _, what in writes] == ["p", "q"]


@pytest.mark.parametrize(
    ("away", "waited", "written"), [(1, 9, 0), (1, 10, 1), (11, 109, 0), (11, 110, 1), (12, 600, 0)]
)
def test_an_event_waits_for_its_server_for_two_minutes(away: int, waited: int, written: int) -> None:
    client = Flaky()
    client.away = away
    assert len(played(core, core_once, waited, client=client)) == written


def test_a_name_is_the_objects_with_the_time_and_a_number() -> None:
    def two(recorder: EventRecorder, _: Flaky) -> None:
        once(recorder, _)
        recorder.record(OTHER, "Normal", "R", "A", "note")

    names = [what["metadata"]["name"].split(".") for _, what in played(new, 0.000007, two)]
    start = 1767225600 * 10**9
    assert [(name, int(number, 16)) for name, number in names] == [("p", start + 7001), ("q", start + 7002)]


def test_a_core_event_that_repeats_counts_up() -> None:
    writes = played(core, core_once, 2, core_once)
    assert [verb for verb, _ in writes] == ["create", "patch"]
    event, (name, patch) = writes[0][1], writes[1][1]
    assert event["source"] == {"component": "comp", "host": "host"}
    assert (event["reportingComponent"], event["reportingInstance"], event["count"]) == ("comp", "host", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] < patch["lastTimestamp"]
    assert (name, patch["count"], patch["message"], len(patch)) == (event["metadata"]["name"], 2, "m", 3)


def test_an_event_about_what_has_no_namespace_is_in_default_and_its_name_is_no_longer_than_names_are() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n" * 300, "uid": "u"}}
    for which, args in ((new, ("R", "A", "note")), (core, ("R", "m"))):

        def record(recorder: Any, _: Flaky, args: tuple[str, ...] = args) -> None:
            recorder.record(node, "Normal", *args)

        [(_, event)] = played(which, record)
        assert event["metadata"]["namespace"] == "default"
        assert len(event["metadata"]["name"]) == 253


def test_unwritten_events_beyond_a_thousand_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    def many(recorder: EventRecorder, _: Flaky) -> None:
        for number in range(1001):
            recorder.record(POD, "Normal", f"R{number}", "A", "note")

    writes = played(new, many)
    assert (len(writes), writes[-1][1]["reason"]) == (1000, "R999")
    assert caplog.messages == ["too many events wait to be written; dropped one"]
