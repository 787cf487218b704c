"""FlowSchemas and PriorityLevelConfigurations: valid specs, and those that every server has."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.resources.flowcontrol.bootstrap import LEVELS, MANDATORY_LEVELS, MANDATORY_SCHEMAS, SCHEMAS
from tests.resources.conftest import Judge

GROUP: Json = {"kind": "Group", "group": {"name": "g"}}
EVERYTHING: Json = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}

ENTROPY = "required entropy bits of deckSize 512 and handSize 8 should not be greater than 60"


def schema(name: str = "a", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"priorityLevelConfiguration": {"name": "l"}, **spec}}


def ruled(**rule: Any) -> Json:
    return schema(rules=[{"subjects": [GROUP], "resourceRules": [EVERYTHING], **rule}])


def limited(name: str = "a", **parts: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}, **parts}}}  # fmt: skip


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        (schema(), []),
        (schema(matchingPrecedence=1), ["matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"]),
        (schema(matchingPrecedence=10001), ["matchingPrecedence: Invalid value: 10001: must not be greater than 10000"]),
        (schema(priorityLevelConfiguration={}), ["priorityLevelConfiguration.name: Required value: must reference a priority level"]),
        (ruled(subjects=[]), ["rules[0].subjects: Required value: subjects must contain at least one value"]),
        (ruled(resourceRules=[]), ["rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"]),
        (ruled(subjects=[{**GROUP, "kind": "User"}]),
            ["rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
             "rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'"]),
        (ruled(resourceRules=[{**EVERYTHING, "verbs": ["*", "get"]}]),
            ["rules[0].resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs"]),
        (ruled(resourceRules=[{**EVERYTHING, "namespaces": []}]),
            ["rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace"]),
        (ruled(resourceRules=[{**EVERYTHING, "namespaces": [], "clusterScope": True}]), []),
        (ruled(nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": ["/a*", "b"]}]),
            ['rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/a*": wildcard can only do suffix matching',
             'rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "b": must start with slash']),
    ],
)  # fmt: skip
def test_a_schema_matches_requests_by_who_asks_and_what_for(judge: Judge, obj: Json, wrong: list[str]) -> None:
    assert judge.create("flowschemas", obj)[1] == ["spec." + text for text in wrong]


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        (limited(), []),
        (limited(limitResponse={"type": "Reject", "queuing": {}}),
            ["limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited"]),
        (limited(limitResponse={"type": "Queue", "queuing": {"queues": 4}}),
            ["limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (4)"]),
        (limited(limitResponse={"type": "Queue", "queuing": {"queues": 512}}),
            ["limited.limitResponse.queuing.handSize: Invalid value: 8: " + ENTROPY]),
        (limited(lendablePercent=101), ["limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"]),
        ({"metadata": {"name": "a"}, "spec": {"type": "Exempt"}},
            ["type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"]),
    ],
)  # fmt: skip
def test_a_level_queues_or_rejects(judge: Judge, obj: Json, wrong: list[str]) -> None:
    stored, found = judge.create("prioritylevelconfigurations", obj)
    assert found == ["spec." + text for text in wrong]
    if not wrong:
        assert stored["spec"]["limited"]["nominalConcurrencyShares"] == 30
        assert stored["spec"]["limited"]["limitResponse"]["queuing"] == {
            "queues": 64, "handSize": 8, "queueLengthLimit": 50,
        }  # fmt: skip


def test_what_every_server_has_is_valid_and_the_mandatory_ones_stay_as_they_are(judge: Judge) -> None:
    for plural, objects, mandatory in (
        ("flowschemas", SCHEMAS, MANDATORY_SCHEMAS),
        ("prioritylevelconfigurations", LEVELS, MANDATORY_LEVELS),
    ):
        for name, spec in objects.items():
            stored, wrong = judge.create(plural, {"metadata": {"name": name}, "spec": spec})
            assert (wrong, stored["spec"]) == ([], spec), name
        assert set(mandatory) == {"exempt", "catch-all"}
    assert {spec["priorityLevelConfiguration"]["name"] for spec in SCHEMAS.values()} == set(LEVELS)
    (error,) = judge.create("flowschemas", schema("catch-all", matchingPrecedence=9999))[1]
    assert error.endswith("spec of 'catch-all' must equal the fixed value")
    more = {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 5}}
    assert judge.create("prioritylevelconfigurations", {"metadata": {"name": "exempt"}, "spec": more})[1] == []


def test_a_status_changes_nothing_else(judge: Judge) -> None:
    stored, _ = judge.create("flowschemas", schema())
    condition = {"type": "Dangling", "status": "True"}
    sent = {**schema(matchingPrecedence=5), "status": {"conditions": [condition, condition]}}
    changed, wrong = judge.update("flowschemas", stored, sent, status=True)
    assert wrong == ['status.conditions[1].type: Duplicate value: "Dangling"']
    assert changed["spec"] == stored["spec"]
    cell = {column.name: column.cell for column in judge.find("flowschemas").columns}["MissingPL"]
    assert (cell(stored), cell(changed)) == ("?", "True")
