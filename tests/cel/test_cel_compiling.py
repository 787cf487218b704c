"""Valid and invalid expressions, their errors, and environments of releases and gates."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from apiserver import cel
from apiserver.cel import CompileError, Device, Environment, Program, device_environment

NEW = device_environment((1, 36), {"DRAConsumableCapacity": True}, stored=False)
LISTS = device_environment((1, 36), {"DRAConsumableCapacity": True, "DRAListTypeAttributes": True}, stored=False)


def refusal(expression: str, environment: Environment = NEW) -> str:
    result = cel.compile(expression, environment)
    assert isinstance(result, CompileError), f"{expression} compiles"
    return result.text.removeprefix("compilation failed: ")


def compiled(expression: str, environment: Environment = NEW) -> Program:
    result = cel.compile(expression, environment)
    assert isinstance(result, Program), result
    return result


def messages(text: str) -> list[str]:
    return [line.removeprefix("ERROR: <input>:") for line in text.splitlines() if line.startswith("ERROR")]


STARTERS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("", [f"1:0: Syntax error: mismatched input '<EOF>' expecting {STARTERS}"]),
        ("1 +", [f"1:4: Syntax error: mismatched input '<EOF>' expecting {STARTERS}"]),
        ("(true", ["1:6: Syntax error: missing ')' at '<EOF>'"]),
        ("true)", ["1:5: Syntax error: extraneous input ')' expecting <EOF>"]),
        ("device.", ["1:8: Syntax error: no viable alternative at input '.'"]),
        ("device.true", ["1:8: Syntax error: mismatched input 'true' expecting IDENTIFIER"]),
        ("[1, 2", ["1:6: Syntax error: mismatched input '<EOF>' expecting {']', ','}"]),
        ("(-3", ["1:4: Syntax error: missing ')' at '<EOF>'"]),
        (
            "1 == @",
            [
                "1:6: Syntax error: token recognition error at: '@'",
                f"1:7: Syntax error: mismatched input '<EOF>' expecting {STARTERS}",
            ],
        ),
        (
            "true & true",
            [
                "1:6: Syntax error: token recognition error at: '& '",
                "1:8: Syntax error: extraneous input 'true' expecting <EOF>",
            ],
        ),
        ("for == 1", ["1:1: reserved identifier: for"]),
        ("for x == 1", ["1:1: reserved identifier: for", "1:5: Syntax error: mismatched input 'x' expecting <EOF>"]),
        ("9223372036854775808 > 0", ["1:1: invalid int literal"]),
    ],
)
def test_what_is_not_an_expression_is_refused_in_the_words_of_the_grammar(expression: str, expected: list[str]) -> None:
    assert messages(refusal(expression)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("nope", ["1:1: undeclared reference to 'nope' (in container '')"]),
        ("device.nope", ["1:7: undefined field 'nope'"]),
        ("device.driver.x", ["1:14: type 'string' does not support field selection"]),
        ("1 + 'a' == 2", ["1:3: found no matching overload for '_+_' applied to '(int, string)'"]),
        (
            "device.attributes[1].a",
            ["1:18: found no matching overload for '_[_]' applied to '(map(string, map(string, any)), int)'"],
        ),
        ("'a'.reverse() == ''", ["1:12: found no matching overload for 'reverse' applied to 'string.()'"]),
        ("[1, 'a'].size() == 2", ["1:5: expected type 'int' but found 'string'"]),
        (
            "1.exists(x, x)",
            ["1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)"],
        ),
        (
            "device.driver.all(x, true)",
            ["1:7: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)"],
        ),
        ("[1].all(x.y, true)", ["1:10: argument must be a simple name"]),
        ("has(device)", ["1:5: invalid argument to has() macro"]),
        ("cel.bind(1, 2, true)", ["1:10: cel.bind() variable names must be simple identifiers"]),
        ("[1].map(1, 2) == []", ["1:9: argument is not an identifier"]),
        (
            "'%d'.format(['a']) == ''",
            ["1:14: error during formatting: decimal clause can only be used on integers, was given string"],
        ),
        ("'%s %s'.format(['a']) == ''", ["1:15: index 1 out of range"]),
        ("duration('x') == duration('1s')", ["1:10: invalid duration argument"]),
        ("device.driver.matches('[')", ["1:23: invalid matches argument"]),
        (
            "a && b",
            [
                "1:1: undeclared reference to 'a' (in container '')",
                "1:6: undeclared reference to 'b' (in container '')",
            ],
        ),
    ],
)
def test_wrong_types_are_named_with_their_place(expression: str, expected: list[str]) -> None:
    assert messages(refusal(expression)) == expected


def test_a_message_shows_the_line_and_points_at_the_place() -> None:
    assert refusal("true &&\n\t日 == 1").splitlines()[1:] == [
        " |  日 == 1",
        " | .＾",
        "ERROR: <input>:2:4: Syntax error: extraneous input '==' expecting " + STARTERS,
        " |  日 == 1",
        " | .．.^",
    ]


def test_a_result_that_can_never_be_true_or_false_is_refused() -> None:
    message = refusal("device.attributes")
    assert message == "must evaluate to bool or the unknown type, not map(string, map(string, google.protobuf.Any))"
    assert refusal("null") == "must evaluate to bool or the unknown type, not null_type"


def test_an_attribute_alone_may_be_a_selector() -> None:
    assert compiled('device.attributes["d"].healthy').output_type == "google.protobuf.Any"
    assert compiled('device.attributes["d"].healthy', LISTS).output_type == "dyn"


def test_what_fails_on_literals_is_an_internal_error() -> None:
    result = cel.compile("int('x') == 1", NEW)
    assert result == CompileError(
        "program instantiation failed: type conversion error from 'string' to 'int'", internal=True
    )
    result = cel.compile("device.driver.find('(') == ''", NEW)
    assert result == CompileError(
        "program instantiation failed: error parsing regexp: missing closing ): `(`", internal=True
    )


def test_gates_decide_what_new_objects_may_use_and_stored_objects_may_use_everything() -> None:
    for expression in ("device.allowMultipleAllocations", 'device.attributes["d"].a.includes(1)'):
        compiled(expression, device_environment((1, 36), {}, stored=True))
    without = device_environment((1, 36), {}, stored=False)
    assert messages(refusal("device.allowMultipleAllocations", without)) == [
        "1:7: undefined field 'allowMultipleAllocations'"
    ]
    assert messages(refusal('device.attributes["d"].a.includes(1)')) == [
        "1:34: undeclared reference to 'includes' (in container '')"
    ]
    compiled('device.attributes["d"].a.includes(1)', LISTS)


def test_libraries_come_with_the_release_before_the_one_that_introduced_them() -> None:
    compiled("[2, 1].sort() == [1, 2]", device_environment((1, 35), {}, stored=False))
    assert "undeclared reference to 'sort'" in refusal(
        "[2, 1].sort() == [1, 2]", device_environment((1, 34), {}, stored=False)
    )
    compiled("semver('1.0.0').major() == 1", device_environment((1, 34), {}, stored=False))
    assert "undeclared reference to 'semver'" in refusal(
        "semver('1.0.0').major() == 1", device_environment((1, 33), {}, stored=False)
    )


@pytest.mark.parametrize(
    "nested", ["(" * 251 + "true" + ")" * 251, "(" * 400, "1" + "+1" * 251 + " == 1", "device" + ".a" * 251]
)
def test_what_nests_too_deeply_is_refused_at_once(nested: str) -> None:
    assert "recursion" in refusal(nested)


def test_the_deepest_allowed_nesting_works() -> None:
    compiled("(" * 249 + "true" + ")" * 249)
    compiled("1" + "+1" * 249 + " > 1")


DEEP = {
    "parentheses": "(" * 249 + "true" + ")" * 249,
    "sums": "1" + "+1" * 249 + " > 1",
    "lists": "[" * 248 + "1" + "]" * 248 + " == " + "[" * 248 + "1" + "]" * 248,
    "maps": "{1:" * 248 + "1" + "}" * 248 + " == " + "{1:" * 248 + "1" + "}" * 248,
    "indexes": "[0][" * 248 + "0" + "]" * 248 + " == 0",
    "negations": "!(" * 248 + "true" + ")" * 248,
    "macros": "".join(f"[1].all(x{number}, " for number in range(248)) + "true" + ")" * 248,
    "sizes of lists": "size([1 + " * 80 + "1" + "])" * 80 + " == 1",
}


def at_depth(frames: int, call: Callable[[], Any]) -> Any:
    """Return the result of a call so many frames deep."""
    return call() if frames == 0 else at_depth(frames - 1, call)


@pytest.mark.parametrize("used", [0, 400, 800])
@pytest.mark.parametrize("name", DEEP)
def test_what_is_allowed_runs_wherever_it_is_called_from_within_the_limit_of_everybody(name: str, used: int) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # what the interpreter begins with; other engines here raise it
    try:
        program = at_depth(used, lambda: compiled(f"{DEEP[name]} || {used} == 1"))
        assert at_depth(used, lambda: program.evaluate(Device("d"))) is True
    finally:
        sys.setrecursionlimit(limit)


def test_what_is_broken_far_down_is_told_in_the_words_of_the_grammar() -> None:
    for broken in ("(" * 240, "[" * 200 + "}", "f(" * 240 + "1"):
        assert "Syntax error" in refusal(broken), broken[:3]


def test_the_interpreters_limits_stay_as_they_are() -> None:
    script = (
        "import sys, threading; before = sys.getrecursionlimit(), threading.stack_size();"
        "from apiserver import cel; environment = cel.device_environment((1, 36), {}, stored=True);"
        f"cel.compile({DEEP['negations']!r}, environment).evaluate(cel.Device('d'));"
        "assert before == (sys.getrecursionlimit(), threading.stack_size());"
        "assert threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_same_expression_is_compiled_once() -> None:
    assert compiled("device.driver == 'once'") is compiled("device.driver == 'once'")


def test_importing_the_package_does_not_load_the_engine() -> None:
    script = (
        "import sys, apiserver.cel; print(*sorted(name for name in sys.modules if name.startswith('apiserver.cel.')))"
    )
    assert set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    ) <= {"apiserver.cel.errors"}
