"""The runner of conversations: what it counts as the same, what it shows as different, how long it waits."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from apiserver.runtime.clock import Timer, outside, timers
from tests.conformance.commonform import CommonForm, dig, in_any_order, leave_out
from tests.conformance.compare import differences
from tests.conformance.conversation import Conversation, Profile
from tests.conformance.player import Outcome, Player, play
from tests.conformance.servers import Servers
from tests.support.virtual import OneClock

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
UID, OTHER_UID = "0b9a5a8e-4a1c-4e0e-9c9e-2f0d3c5c5b11", "5b11c5a8-4a1c-4e0e-9c9e-2f0d3c5c0b9a"


def held(servers: Servers, *steps: dict[str, Any]) -> Outcome:
    """Hold a conversation of these steps, in memory."""
    return play(servers.get(Profile(), "memory"), Conversation("file", "name", Profile(), steps))


def test_what_differs_from_run_to_run_gets_a_name_and_equal_values_the_same_one() -> None:
    common = CommonForm("t012345678")
    seen = common(
        {
            "metadata": {"name": "a-x1y2z", "generateName": "a-", "uid": UID, "resourceVersion": "17"},
            "at": "2026-01-02T03:04:05Z",
            "in": "namespace t012345678 of a-x1y2z",
        }
    )
    assert seen["metadata"] == {
        "name": "a-<rand#1>", "generateName": "a-", "uid": "<uid#1>", "resourceVersion": "<rv#1>"
    }  # fmt: skip
    assert (seen["at"], seen["in"]) == ("<time>", "namespace <ns> of a-<rand#1>")
    later = common([{"uid": OTHER_UID, "resourceVersion": "18"}, {"uid": UID, "resourceVersion": "17"}])
    assert later == [
        {"uid": "<uid#2>", "resourceVersion": "<rv#2>"}, {"uid": "<uid#1>", "resourceVersion": "<rv#1>"}
    ]  # fmt: skip


def test_no_resource_version_and_version_zero_stay_as_they_are() -> None:
    assert CommonForm("t0")({"resourceVersion": "0", "other": {"resourceVersion": ""}}) == {
        "resourceVersion": "0",
        "other": {"resourceVersion": ""},
    }


def test_ages_of_tables_and_the_versions_of_lists_are_of_their_moment() -> None:
    table = {
        "kind": "Table",
        "metadata": {"resourceVersion": "5"},
        "columnDefinitions": [{"name": "Name", "description": "d"}, {"name": "Age", "description": "d"}],
        "rows": [{"cells": ["5m", "5m"]}],
    }
    assert CommonForm("t0")(table) == {
        "kind": "Table",
        "metadata": {"resourceVersion": "<now>"},
        "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
        "rows": [{"cells": ["5m", "<age>"]}],
    }
    assert CommonForm("t0")({"kind": "Table", "rows": [{"cells": ["5m", 7]}]})["rows"] == [{"cells": ["<age>", 7]}]


def test_a_path_leads_through_objects_lists_and_keys_with_dots() -> None:
    value = {"a": [{"b": 1}, {"b": 2}], "c.d": 3}
    assert (dig(value, "a.1.b"), dig(value, "c~d"), dig(value, "a.2.b"), dig(value, "a.b")) == (2, 3, None, None)
    leave_out(value, "a.*.b")
    leave_out(value, "c~d")
    assert value == {"a": [{}, {}]}


def test_errors_in_no_order_are_compared_as_a_set() -> None:
    def answer(*errors: str) -> dict[str, Any]:
        body = {
            "message": f"x is invalid: [{', '.join(errors)}]",
            "details": {"causes": [{"field": e} for e in errors]},
        }
        return {"headers": {"warning": ", ".join(errors)}, "body": body}

    assert in_any_order(answer("a", "b")) == in_any_order(answer("b", "a"))
    assert in_any_order(answer("a", "b")) != in_any_order(answer("a", "c"))


def test_every_difference_is_a_line_that_names_its_place() -> None:
    want = {"a": {"b": [1, "x"]}, "gone": None, "same": True}
    got = {"a": {"b": [1, "y", 2]}, "same": True, "new": 0}
    assert list(differences(want, got)) == [
        '.a.b[1]: want "x", got "y"',
        ".a.b[2]: not expected, got 2",
        ".gone: missing, want null",
        ".new: not expected, got 0",
    ]


def test_a_conversation_counts_its_steps_and_shows_every_one_that_differs(servers: Servers) -> None:
    create = {"do": f"POST {MAPS}?dryRun=All", "body": {"metadata": {"name": "a"}}, "only": ["metadata.name"]}
    headers = {"content-type": "application/json"}
    outcome = held(
        servers,
        {**create, "expect": {"status": 201, "headers": headers, "body": {"metadata.name": "a"}}},
        {**create, "expect": {"status": 200, "headers": headers, "body": {"metadata.name": "a"}}},
        {**create, "expect": {"status": 201, "headers": headers, "body": {"metadata.name": "b"}}},
        {**create, "expect": {"status": 201, "headers": {}, "body": {"metadata.name": "a"}}},
        {"do": "DELETE /api/v1/namespaces/default/configmaps/none"},
    )
    assert (outcome.steps, outcome.equal, outcome.passed) == (4, 1, False)
    assert outcome.differences == [
        f"step 1 POST {MAPS}?dryRun=All.status: want 200, got 201",
        f'step 2 POST {MAPS}?dryRun=All.body.metadata.name: want "b", got "a"',
        f'step 3 POST {MAPS}?dryRun=All.headers.content-type: not expected, got "application/json"',
    ]


def test_an_answer_may_be_saved_and_sent_again(servers: Servers) -> None:
    at = "/api/v1/namespaces/$ns"
    outcome = held(
        servers,
        {"do": "POST /api/v1/namespaces", "body": {"metadata": {"name": "$ns"}}, "save": {"uid": "metadata.uid"}},
        {
            "do": f"DELETE {at}",
            "body": {"preconditions": {"uid": "$uid"}},
            "only": ["metadata.uid", "metadata.name"],
            "ignore": ["headers.content-type"],
            "expect": {"status": 200, "headers": {}, "body": {"metadata.uid": "<uid#1>", "metadata.name": "<ns>"}},
        },
    )
    assert outcome.passed, outcome.differences


def test_a_watch_is_read_as_far_as_it_goes(servers: Servers) -> None:
    watch = {"watch": "w", "path": f"{MAPS}?watch=true&fieldSelector=metadata.name%3Dseen&resourceVersion=0"}
    event = {"type": "ADDED", "object.metadata.name": "seen"}
    read = {"read": "w", "events": 1, "written": True, "event_paths": [list(event)]}
    create = {"do": f"POST {MAPS}", "body": {"metadata": {"name": "seen"}}}
    delete = {"do": f"DELETE {MAPS}/seen"}
    assert held(servers, watch, create, {**read, "expect": {"events": [event]}}, delete).passed
    other = {**event, "type": "MODIFIED"}
    outcome = held(servers, create, watch, {**read, "expect": {"events": [other]}}, delete)
    assert outcome.differences == ['step 2 w.events[0].type: want "MODIFIED", got "ADDED"']
    ends = {"watch": "w", "path": f"{MAPS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone"}
    outcome = held(servers, ends, {**read, "expect": {"events": [event]}})
    assert outcome.differences == [
        'step 1 w.events[0]: missing, want {"type": "ADDED", "object.metadata.name": "seen"}'
    ]


def test_a_condition_is_waited_for_as_long_as_patience_lasts(servers: Servers) -> None:
    until = {"until": f"GET {MAPS}/kube-root-ca.crt-none", "absent": True, "expect": {"reached": True}}
    never = {"until": f"GET {MAPS}", "field": "kind", "equals": "x", "timeout": 0.1, "expect": {"reached": True}}
    assert held(servers, until).passed
    assert held(servers, never).differences == [f"step 0 GET {MAPS}.reached: want true, got false"]


def test_an_answer_that_breaks_the_runner_is_a_difference(servers: Servers) -> None:
    outcome = held(servers, {"read": "never opened", "events": 1, "expect": {"events": []}})
    assert outcome.differences[0].startswith("step 0 never opened.events: missing")


@pytest.mark.parametrize("storage", ["memory", "sqlite", "postgres"])
def test_time_stands_still_but_for_what_a_conversation_lets_pass(servers: Servers, storage: str) -> None:
    steps: list[dict[str, Any]] = [
        {"do": f"POST {MAPS}", "body": {"metadata": {"name": "a"}}, "save": {"first": "metadata.creationTimestamp"}},
        {"sleep": 3600, "virtual": True},
        {"do": f"POST {MAPS}", "body": {"metadata": {"name": "b"}}, "save": {"last": "metadata.creationTimestamp"}},
        {"do": f"DELETE {MAPS}"},
    ]
    server = servers.get(Profile(), storage)
    with Player(server.url, "time", server.time) as player:
        for step in steps:
            player.attempt(step)
        first, last = player.variables["first"], player.variables["last"]
    moments = [datetime.fromisoformat(moment) for moment in (first, last)]
    assert (moments[1] - moments[0]).total_seconds() == 3600


def test_what_waits_for_the_servers_time_moves_it_and_nobody_waits(servers: Servers) -> None:
    """A read of a revision that does not come is refused after three seconds; a watch ends after the minutes it has."""
    server = servers.get(Profile(), "memory")
    with Player(server.url, "waiting", server.time) as player:
        server.time.advance(0)
        outcome = player.attempt({"do": f"GET {MAPS}?resourceVersion=999999999", "only": []})
        assert outcome is not None
        assert outcome["status"] == 504
        player.attempt({"watch": "w", "path": f"{MAPS}?watch=true&timeoutSeconds=120"})
        assert player.attempt({"read": "w", "events": 1, "timeout": 60}) == {"events": []}
        assert player.attempt({"read": "w", "events": 1, "timeout": 119}) == {"events": []}
        refused = player.attempt({"until": f"GET {MAPS}", "field": "kind", "equals": "x", "timeout": 3600})
        assert refused == {"reached": False}


def test_a_call_to_somebody_outside_who_does_not_answer_ends_in_the_systems_time() -> None:
    async def call() -> None:
        with outside(), timers(Timer.MACHINE), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=lambda: OneClock(standing=True)) as runner:
        runner.run(call())
