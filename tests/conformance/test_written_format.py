"""The format of written conversations: what it becomes, and mistakes that are named; the list of recorded ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance import conversations
from tests.conformance.conversation import Conversation
from tests.conformance.ledger import Ledger
from tests.conformance.player import Outcome
from tests.conformance.written import load, put

HEAD = """
objects: {map: {metadata: {name: a}, data: {k: v}}}
variables: {maps: /api/v1/configmaps}
conversations:
- name: one
  rule: A rule.
  steps:
"""


def read(tmp_path: Path, steps: str, head: str = HEAD) -> list[Conversation]:
    (tmp_path / "file.yaml").write_text(head + steps)
    return load(tmp_path)


def steps(tmp_path: Path, text: str) -> list[dict[str, Any]]:
    (conversation,) = read(tmp_path, text)
    return list(conversation.steps)


def test_a_request_has_its_body_from_an_object_with_changes(tmp_path: Path) -> None:
    (step,) = steps(
        tmp_path, "  - {do: POST $maps, body: map, with: {data.k: null, data.n: m}, status: 201, has: {kind: X}}\n"
    )
    assert step["do"] == "POST /api/v1/configmaps"
    assert step["body"] == {"metadata": {"name": "a"}, "data": {"n": "m"}}
    assert (step["only"], step["expect"]) == (["kind"], {"status": 201, "headers": {}, "body": {"kind": "X"}})


def test_cases_are_requests_that_are_refused_with_just_these_causes(tmp_path: Path) -> None:
    text = (
        "  - {each: POST $maps, body: map, refused: [{with: {data.k: w}, causes: ['data[k]: Required value: why']}]}\n"
    )
    (step,) = steps(tmp_path, text)
    cause = {"reason": "FieldValueRequired", "message": "Required value: why", "field": "data[k]"}
    assert step["expect"]["status"] == 422
    assert step["expect"]["body"] == {"reason": "Invalid", "details.causes": [cause]}


def test_a_namespace_is_made_where_one_is_mentioned(tmp_path: Path) -> None:
    made, _ = steps(tmp_path, "  - {do: GET /api/v1/namespaces/$ns/pods, status: 200}\n")
    assert (made["do"], made["body"]) == ("POST /api/v1/namespaces", {"metadata": {"name": "$ns"}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  - {do: GET /a, statu: 200}\n", "unknown statu"),
        ("  - {do: GET /a}\n", "status missing"),
        ("  - {does: GET /a}\n", "a step is one of do, each, watch"),
        ("  - {do: GET /a, fails: nothing}\n", "`fails` is 'CODE REASON: MESSAGE'"),
        ("  - {do: POST /a, body: cat, status: 201}\n", "no object 'cat'; there are map"),
        ("  - {do: POST /a, body: map, with: {data.z.1.b: 1}, status: 201}\n", "nothing can be put at data.z.1.b"),
        ("  - {each: POST /a, body: map, refused: [{causes: ['a: Wrong']}]}\n", "a cause is 'FIELD: KIND: TEXT'"),
        ("  - {do: GET /a, status: 200, status: 201}\n", "status given twice"),
        ("  - {do: [GET /a, status: 200}\n", "file: while parsing"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"file|<") as raised:
        read(tmp_path, text)
    assert said in str(raised.value)


def test_plain_words_are_what_they_are_in_json(tmp_path: Path) -> None:
    (step,) = steps(
        tmp_path,
        "  - {do: POST /a, body: {a: yes, b: 2026-01-01, c: 010, d: 1, e: true, f: null, g: 1.5}, status: 201}\n",
    )
    assert step["body"] == {"a": "yes", "b": "2026-01-01", "c": "010", "d": 1, "e": True, "f": None, "g": 1.5}


def test_a_path_sets_removes_and_appends() -> None:
    value: dict[str, Any] = {"a": [{"b": 1}]}
    for path, item in (("a.1.b", 2), ("a.0.b", None), ("c.d", 3), ("e.f~g", 4)):
        put(value, path, item)
    assert value == {"a": [{}, {"b": 2}], "c": {"d": 3}, "e": {"f.g": 4}}


def test_the_list_keeps_what_is_equal_and_wants_a_reason_for_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    Ledger().write(file)
    good, bad = Outcome(1, 1), Outcome(1, 0, ["it differs"])
    with pytest.raises(SystemExit, match=r"say why with --reason .*: b: two"):
        conversations.record({"a: one": good, "b: two": bad}, {}, file)
    assert Ledger.read(file).equal == {}
    conversations.record({"a: one": good, "b: two": bad, "b: three": good}, {"b": "not built"}, file)
    kept = Ledger.read(file)
    assert kept.equal == {"a: one": True, "b: three": True, "b: two": False}
    assert kept.counts() == {"a": (1, 1), "b": (1, 2)}
    assert kept.different() == {"not built": ["two"]}
    conversations.record({"b: two": good}, {}, file)
    assert Ledger.read(file).reasons == {}, "a reason that nothing needs is dropped"
