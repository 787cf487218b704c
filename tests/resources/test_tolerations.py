"""Tolerations that compare numbers, behind their gate: TaintTolerationComparisonOperators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver.api.helpers.tolerations import COMPARISON_GATE, tolerates
from apiserver.api.objects import Json
from tests.resources.pods import errors, pod

SUPPORTED = 'supported values: "Equal", "Exists", "Lt", "Gt"'
FORM, RANGE = "must be a valid decimal integer in canonical form", "value out of range"


def comparing(operator: str, value: str) -> Json:
    return {"key": "k", "operator": operator, "value": value}


def templates(toleration: Json) -> dict[str, Json]:
    """Return an object of every kind with a pod spec, by resource."""
    spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": [toleration]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**spec, "restartPolicy": "Always"}}
    once = {"template": {**template, "spec": {**spec, "restartPolicy": "Never"}}}
    replicated = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    return {
        "pods": {"spec": spec},
        "podtemplates": {"template": template},
        "replicationcontrollers": {"spec": {"selector": {"a": "b"}, "template": template}},
        **dict.fromkeys(("deployments", "replicasets", "daemonsets"), replicated),
        "statefulsets": {"spec": {**replicated["spec"], "serviceName": "s"}},
        "jobs": {"spec": once},
        "cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": once}}},
    }


KINDS = tuple(templates({}))


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("5", []), ("-5", []), ("0", []), ("9223372036854775807", []),
        ("", ["must be non-empty", 'strconv.ParseInt: parsing "": invalid syntax']),
        ("five", [FORM, 'strconv.ParseInt: parsing "five": invalid syntax']), ("05", [FORM]), ("+5", [FORM]),
        ("9223372036854775808", [f'strconv.ParseInt: parsing "9223372036854775808": {RANGE}']),
        ("0" * 5000 + "1", [FORM]), ("-" + "0" * 5000, [FORM]),
        ("1" * 5000, [f'strconv.ParseInt: parsing "{"1" * 5000}": {RANGE}']),
    ],
)  # fmt: skip
def test_what_is_compared_is_a_number_of_64_bits(judge_with: Callable[..., Any], value: str, wrong: list[str]) -> None:
    path = "spec.tolerations[0].value: Invalid value"
    found = errors(judge_with(**{COMPARISON_GATE: True}), pod(tolerations=[comparing("Lt", value)]))
    assert found == [f'{path}: "{value}": {text}' for text in wrong]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_compared_behind_the_gate_and_where_that_is_stored_already(
    judge_with: Callable[..., Any], kind: str
) -> None:
    on, off = judge_with(**{COMPARISON_GATE: True}), judge_with()
    wanted = templates(comparing("Gt", "5"))[kind]
    stored = on.create_valid(kind, wanted)
    (refused,) = off.create(kind, wanted)[1]
    assert refused.endswith(f'spec.tolerations[0].operator: Unsupported value: "Gt": {SUPPORTED}')
    assert off.update(kind, stored, stored)[1] == []
    plain, _ = off.create(kind, templates({"key": "k", "operator": "Exists"})[kind])
    assert any(SUPPORTED in text for text in off.update(kind, plain, {**wanted, "metadata": plain["metadata"]})[1]) or (
        kind == "pods"  # whose tolerations are never changed
    )


def test_a_runtime_class_never_compares(judge_with: Callable[..., Any]) -> None:
    wanted = {"handler": "h", "scheduling": {"tolerations": [comparing("Gt", "5")]}}
    (wrong,) = judge_with(**{COMPARISON_GATE: True}).create("runtimeclasses", wanted)[1]
    assert wrong.endswith(SUPPORTED)


@pytest.mark.parametrize(
    ("operator", "bound", "value", "accepted"),
    [
        ("Lt", "5", "4", True), ("Lt", "5", "5", False), ("Gt", "5", "6", True), ("Gt", "5", "5", False),
        ("Gt", "-5", "-4", True), ("Gt", "9", "10", True), ("Lt", "5", "04", False), ("Lt", "5", "", False),
        ("Lt", "05", "4", False), ("Gt", "5", "9223372036854775808", False), ("Ge", "5", "6", False),
    ],
)  # fmt: skip
def test_a_taint_below_or_above_the_number_is_tolerated(operator: str, bound: str, value: str, accepted: bool) -> None:
    toleration = comparing(operator, bound)
    assert tolerates(toleration, "k", value, "NoSchedule", comparing=True) is accepted
    assert not tolerates(toleration, "k", value, "NoSchedule")
    assert not tolerates(toleration, "other", value, "NoSchedule", comparing=True)
