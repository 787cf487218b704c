"""Expressions about requests: the authorizer, values of message types, lists of several types."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.cel.engine import CompileFailure
from apiserver.cel.environments.admission import (
    ANY_RESULT,
    APPLY_RESULT,
    BOOL_RESULT,
    PATCH_RESULT,
    Declared,
    Result,
    admission_language,
    compile_admission,
    with_variable,
)
from apiserver.cel.errors import EvaluationError
from apiserver.cel.language.types import INT
from apiserver.cel.library.authorization import Authorizer, ResourceCheck

ALL = Declared(params=True, patches=True, variables=True)


class Recorder:
    """An authorizer that allows names with a leading "a" and records the questions."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def check(self, user: Any, verb: str, asked: ResourceCheck) -> tuple[bool, str]:
        self.asked.append((user, verb, asked.group, asked.resource, asked.subresource, asked.namespace, asked.name))
        return verb.startswith("a"), "because"

    def check_path(self, user: Any, verb: str, path: str) -> tuple[bool, str]:
        self.asked.append((user, verb, path))
        return verb.startswith("a"), ""

    @staticmethod
    def service_account(namespace: str, name: str) -> str:
        return f"{namespace}/{name}"


def refusal(source: str, result: Result = ANY_RESULT) -> str:
    with pytest.raises(CompileFailure) as refused:
        compile_admission(source, admission_language((1, 36), ALL, stored=True), result)
    return str(refused.value).removeprefix("compilation failed: ").splitlines()[0]


def value(source: str, recorder: Recorder | None = None) -> Any:
    """Evaluate an expression with `object` {"a": 1} and the user u."""
    compiled = compile_admission(source, admission_language((1, 36), Declared(), stored=True), ANY_RESULT)
    authorizer = Authorizer(recorder or Recorder(), "u")
    check = ResourceCheck(authorizer, "apps", "deployments", name="d")
    return compiled.evaluate([{"a": 1}, None, None, {}, authorizer, check], 1_000_000)


@pytest.mark.parametrize(
    ("source", "allowed", "asked"),
    [
        ("authorizer.requestResource.check('add').allowed()", True, ("u", "add", "apps", "deployments", "", "", "d")),
        (
            "authorizer.group('').resource('pods').subresource('log').namespace('n').name('p').check('get').allowed()",
            False,
            ("u", "get", "", "pods", "log", "n", "p"),
        ),
        ("authorizer.serviceAccount('n', 's').path('/x').check('add').allowed()", True, ("n/s", "add", "/x")),
    ],
)
def test_the_authorizer_is_asked_what_the_expression_says(source: str, allowed: bool, asked: tuple[Any, ...]) -> None:
    recorder = Recorder()
    assert value(source, recorder)[0] is allowed
    assert recorder.asked == [asked]


def test_an_expression_may_ask_the_authorizer_twice_and_no_more() -> None:
    ask = "authorizer.requestResource.check('get').reason() == 'because'"
    assert value(f"{ask} && {ask}")[1] > 700_000
    with pytest.raises(EvaluationError, match="cost limit"):
        value(f"{ask} && {ask} && {ask}")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('n', '_').path('/').check('get').allowed()", "Invalid service account name"),
        ("google.protobuf.Int32Value{value: 3000000000}", "integer overflow"),
    ],
)
def test_what_cannot_be_asked_is_an_error(source: str, text: str) -> None:
    with pytest.raises(EvaluationError, match=text):
        value(source)


@pytest.mark.parametrize(
    ("source", "given"),
    [
        ("google.protobuf.Duration{seconds: 90} == duration('1m30s')", True),
        ("google.protobuf.Timestamp{seconds: 1, nanos: 1} > timestamp(1)", True),
        ("google.protobuf.Struct{fields: {'a': google.protobuf.Value{string_value: 'x'}}}.a", "x"),
        ("google.protobuf.ListValue{values: [1, 2]}.size()", 2),
        ("google.protobuf.StringValue{?value: optional.none()}", ""),
        ("'%s is %d'.format(['a', object.a])", "a is 1"),
        ("'%s'.format([[1, 'a']])", '[1, "a"]'),
    ],
)
def test_messages_of_protobuf_and_texts_of_several_types_can_be_made(source: str, given: Any) -> None:
    assert value(source)[0] == given


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("[1, 'a', true]", "ERROR: <input>:1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': true}", "ERROR: <input>:1:15: expected type 'int' but found 'bool'"),
        ("google.protobuf.Duration{minutes: 1}", "ERROR: <input>:1:33: undefined field 'minutes'"),
        (
            "google.protobuf.StringValue{value: 1}",
            "ERROR: <input>:1:34: expected type of field 'value' is 'string' but provided type is 'int'",
        ),
        ("Wrong{a: 1}", "ERROR: <input>:1:6: undeclared reference to 'Wrong' (in container '')"),
        (
            "[JSONPatch{op: 1}]",
            "ERROR: <input>:1:14: expected type of field 'op' is 'string' but provided type is 'int'",
        ),
        ("variables.a", "ERROR: <input>:1:10: undefined field 'a'"),
        ("request.nope", "ERROR: <input>:1:8: undefined field 'nope'"),
    ],
)
def test_what_does_not_fit_is_told_where_it_stands(source: str, text: str) -> None:
    assert refusal(source) == text


def test_an_expression_gives_what_its_place_needs() -> None:
    assert refusal("object.a", BOOL_RESULT) == "must evaluate to bool but got dyn"
    assert refusal("object", APPLY_RESULT) == "must evaluate to Object but got dyn"
    assert refusal("[]", PATCH_RESULT) == "must evaluate to list(JSONPatch) but got list(dyn)"


def test_a_variable_has_the_type_of_its_expression() -> None:
    language = with_variable(admission_language((1, 36), ALL, stored=True), "n", INT)
    compile_admission("variables.n > 1", language, BOOL_RESULT)
    with pytest.raises(CompileFailure, match="found no matching overload for '_>_' applied to '\\(int, string\\)'"):
        compile_admission("variables.n > 'a'", language, BOOL_RESULT)
