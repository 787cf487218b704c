"""The policies, the back-off and the index lists of Jobs: rules without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.workloads.jobs.backoff import Record, finished_at, remaining
from controllers.workloads.jobs.indexes import format_indexes, index_of, parse_indexes
from controllers.workloads.jobs.policies import Match, fail_message, match, match_success
from controllers.workloads.jobs.verdict import is_over, with_status

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: int) -> str:
    """Format the time so many seconds after noon."""
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def ended(name: str, code: int = 0, finished: int | None = None) -> Json:
    """Build the status of a terminated container."""
    terminated = {"exitCode": code, **({} if finished is None else {"finishedAt": at(finished)})}
    return {"name": name, "state": {"terminated": terminated}}


def pod(*containers: Json, init: tuple[Json, ...] = (), conditions: tuple[Json, ...] = (), **metadata: Any) -> Json:
    status = {"containerStatuses": [*containers], "initContainerStatuses": [*init], "conditions": [*conditions]}
    named = {"name": "p", "namespace": "ns", "creationTimestamp": at(0), **metadata}
    return {"metadata": named, "spec": {}, "status": status}


def codes(operator: str, *values: int, container: str | None = None) -> Json:
    return {"onExitCodes": {"operator": operator, "values": [*values], "containerName": container}}


DISRUPTED: Json = {"onPodConditions": [{"type": "DisruptionTarget"}]}


def condition(type: str, status: str = "True") -> Json:
    return {"type": type, "status": status}


@pytest.mark.parametrize(
    ("rule", "of_pod", "why"),
    [
        (codes("In", 3, 4), pod(ended("c", 4)), "Container c for pod ns/p failed with exit code 4"),
        (codes("In", 3), pod(ended("c", 4)), ""),
        (codes("NotIn", 3), pod(ended("c", 4)), "Container c for pod ns/p failed with exit code 4"),
        (codes("NotIn", 4), pod(ended("c", 4)), ""),
        (codes("NotIn", 3), pod(ended("c", 0)), ""),
        (codes("Near", 4), pod(ended("c", 4)), ""),
        (codes("In", 4, container="d"), pod(ended("c", 4)), ""),
        (codes("In", 4, container="d"), pod(ended("c", 4), ended("d", 4)), "Container d for pod ns/p failed with exit code 4"),
        (codes("In", 4), pod(ended("c", 1), init=(ended("i", 4),)), "Container i for pod ns/p failed with exit code 4"),
        (codes("In", 4), pod({"name": "c", "state": {"running": {}}}), ""),
        (DISRUPTED, pod(conditions=(condition("DisruptionTarget"),)), "Pod ns/p has condition DisruptionTarget"),
        (DISRUPTED, pod(conditions=(condition("DisruptionTarget", "False"),)), ""),
        (DISRUPTED, pod(conditions=(condition("Ready"),)), ""),
        ({"onPodConditions": [{"type": "Ready", "status": "False"}]}, pod(conditions=(condition("Ready", "False"),)),
         "Pod ns/p has condition Ready"),
        (DISRUPTED, pod(ended("c", 4)), ""),
    ],
)  # fmt: skip
def test_a_failed_pod_meets_a_rule_by_an_exit_code_or_a_condition(rule: Json, of_pod: Json, why: str) -> None:
    expected = f"{why} matching FailJob rule at index 0" if why else ""
    assert match({"rules": [{"action": "FailJob", **rule}]}, of_pod).message == expected


def test_the_first_rule_that_is_met_decides() -> None:
    failed = pod(ended("c", 4))
    first, second = codes("In", 3), codes("In", 4)
    for action, counts in (("Ignore", False), ("FailIndex", True), ("Count", True)):
        policy = {
            "rules": [{"action": "FailJob", **first}, {"action": action, **second}, {"action": "FailJob", **second}]
        }
        assert match(policy, failed) == Match(action)
        assert match(policy, failed).counts is counts
        assert fail_message(policy, [failed]) == ""
    last = {"rules": [{"action": "Unknown", **second}, {"action": "FailJob", **second}]}
    assert fail_message(last, [pod(ended("c", 1)), failed]).endswith("matching FailJob rule at index 1")
    assert match(None, failed) == Match("", "")
    assert match(None, failed).counts
    assert fail_message(None, [failed]) == ""


@pytest.mark.parametrize(
    ("rule", "succeeded", "is_met"),
    [
        ({"succeededCount": 2}, {0, 3}, True),
        ({"succeededCount": 2}, {3}, False),
        ({"succeededIndexes": "0-1"}, {0, 1, 4}, True),
        ({"succeededIndexes": "0-1"}, {0, 4}, False),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, {0, 3}, True),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, {0, 4}, False),
        ({"succeededIndexes": "8-9"}, {0, 1}, False),
        ({"succeededCount": 0}, set(), False),
        ({}, {0, 1}, False),
    ],
)
def test_a_success_policy_is_met_by_indexes_by_a_number_or_by_both(
    rule: Json, succeeded: set[int], is_met: bool
) -> None:
    never = {"succeededCount": 9}
    assert match_success({"rules": [never, rule]}, 5, succeeded) == ("Matched rules at index 1" if is_met else "")
    assert match_success(None, 5, succeeded) == ""


@pytest.mark.parametrize(
    ("failures", "last", "seconds"),
    [(0, 0, 0), (1, 0, 10), (2, 0, 20), (3, -30, 10), (3, -41, 0), (7, 0, 600), (6, 0, 320), (99, 0, 600), (1, -10, 0)],
)
def test_the_back_off_doubles_up_to_ten_minutes(failures: int, last: int, seconds: int) -> None:
    assert remaining(failures, NOW + timedelta(seconds=last), NOW) == timedelta(seconds=seconds)
    assert remaining(failures, None, NOW) == timedelta()


def test_failures_since_the_last_success_count() -> None:
    def done(second: int) -> Json:
        return pod(ended("c", 0, second))

    before = Record(2, NOW)
    assert before.after([], []) == before
    assert before.after([], [done(9), done(5)]) == Record(4, NOW + timedelta(seconds=9))
    assert before.after([done(5)], [done(4), done(9), done(7)]) == Record(2, NOW + timedelta(seconds=9))
    assert before.after([done(3), done(9)], [done(4), done(9)]) == Record()
    assert Record(1, NOW).remaining(NOW + timedelta(seconds=4)) == timedelta(seconds=6)


NOT_READY = {"type": "Ready", "status": "False", "lastTransitionTime": at(7)}
GOING: Json = {"deletionTimestamp": at(30), "deletionGracePeriodSeconds": 20}


@pytest.mark.parametrize(
    ("of_pod", "seconds"),
    [
        (pod(ended("c", 0, 5), ended("d", 0, 3)), 5),
        (pod(ended("c", 0, 5), init=(ended("i", 0, 9),)), 5),
        ({**pod(ended("c", 0, 5), init=(ended("i", 0, 9),)), "spec": {"initContainers": [{"name": "i", "restartPolicy": "Always"}]}}, 9),
        (pod(ended("c", 0, 5), ended("d"), conditions=(NOT_READY,)), 7),
        (pod(conditions=(NOT_READY,), **GOING), 7),
        (pod(conditions=({**NOT_READY, "status": "True"},), **GOING), 10),
        (pod(deletionTimestamp=at(30)), 30),
        (pod(), 0),
    ],
)  # fmt: skip
def test_the_end_of_a_pod_is_read_from_its_most_precise_field(of_pod: Json, seconds: int) -> None:
    assert finished_at(of_pod) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("", set()), ("0", {0}), ("0-2,5", {0, 1, 2, 5}), ("3-9", {3, 4, 5}), ("6", set()), ("1,x,2", {1, 2}),
        ("1-x,2", {2}), ("-1,2", {2}), ("2-1,4", {4}), ("7,1", set()), ("1,٣,4", {1, 4}),
    ],
)  # fmt: skip
def test_a_list_of_indexes_is_read_as_far_as_it_makes_sense(text: str, indexes: set[int]) -> None:
    assert parse_indexes(text, 6) == indexes


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([4], "4"), ([1, 0], "0,1"), ([0, 1, 2], "0-2"), ([0, 1, 3, 5, 6, 7], "0,1,3,5-7"), ([9, 0], "0,9")],
)
def test_a_list_of_indexes_is_as_short_as_it_can_be(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 10) == set(indexes)


@pytest.mark.parametrize(("text", "index"), [("3", 3), ("", None), ("x", None), ("-1", None), ("٣", None)])
def test_the_index_of_a_pod_is_a_plain_number(text: str, index: int | None) -> None:
    assert index_of(pod(annotations={"batch.kubernetes.io/job-completion-index": text})) == index


def test_a_job_is_over_once_it_is_complete_or_failed() -> None:
    for kind, status, over in (
        ("Complete", "True", True), ("Failed", "True", True), ("Failed", "False", False), ("Suspended", "True", False),
    ):  # fmt: skip
        assert is_over({"status": {"conditions": [condition("Other"), condition(kind, status)]}}) is over
    assert not is_over({})


def test_a_condition_takes_the_place_of_the_one_of_its_type() -> None:
    a, b = {**condition("A"), "reason": "x", "lastProbeTime": at(0)}, condition("B")
    assert with_status([a, b], {**a, "lastProbeTime": at(9)}) is None
    changed = {**a, "reason": "y"}
    assert with_status([b, a, b], changed) == [b, changed, b]
    assert with_status([b], {**a, "status": "False"}) is None
    assert with_status([b], a) == [b, a]
