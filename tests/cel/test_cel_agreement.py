"""Agreement with an independent implementation of CEL (cel-python) on what both have, and no crash on anything.

Left out on purpose: literals of mixed types, which Kubernetes refuses, membership in the empty list, which is false
there before anything is evaluated, errors inside of a presence test, and the texts of errors, which are not part of the
language.
"""

from __future__ import annotations

import celpy
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from apiserver import cel
from apiserver.cel import CompileError, Device, EvaluationError, device_environment

ENVIRONMENT = device_environment((1, 36), {"DRAListTypeAttributes": True}, stored=True)
DEVICE = Device("driver.example.com")
# The other one sets the interpreter's recursion limit when it is first used, which must not happen within an example.
OTHER = celpy.Environment()
assert not isinstance(cel.compile("true", ENVIRONMENT), CompileError)

INTEGERS = st.sampled_from(["0", "1", "2", "-1", "7", "40", "x"])
STRINGS = st.sampled_from(['""', '"a"', '"abc"', '"é日"', '"b c"', "'a'"])
BOOLEANS = st.sampled_from(["true", "false"])


def integers(depth: int) -> st.SearchStrategy[str]:
    """Generate expressions with an integer value; `x` is the variable of the enclosing macro, or 5."""
    if depth == 0:
        return INTEGERS
    inner = integers(depth - 1)
    return st.one_of(
        INTEGERS,
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner),
        st.builds("size({})".format, st.one_of(STRINGS, lists(depth - 1))),
        st.builds("({} ? {} : {})".format, booleans(depth - 1), inner, inner),
        st.builds("{}[{}]".format, lists(depth - 1), st.sampled_from(["0", "1", "5"])),
    )


def lists(depth: int) -> st.SearchStrategy[str]:
    """Generate expressions with a list of integers as value."""
    literal = st.lists(integers(max(depth - 1, 0)), max_size=3).map(lambda items: f"[{', '.join(items)}]")
    if depth == 0:
        return literal
    return st.one_of(
        literal,
        st.builds("({} + {})".format, lists(depth - 1), lists(depth - 1)),
        st.builds("{}.map(x, {})".format, lists(depth - 1), integers(depth - 1)),
        st.builds("{}.filter(x, {})".format, lists(depth - 1), booleans(depth - 1)),
    )


def booleans(depth: int) -> st.SearchStrategy[str]:
    """Generate expressions with a boolean value."""
    if depth == 0:
        return BOOLEANS
    inner = booleans(depth - 1)
    relation = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        BOOLEANS,
        st.builds("({} {} {})".format, inner, st.sampled_from(["&&", "||"]), inner),
        st.builds("!({})".format, inner),
        st.builds("({} {} {})".format, integers(depth - 1), relation, integers(depth - 1)),
        st.builds("({} {} {})".format, STRINGS, relation, STRINGS),
        st.builds("{}.{}({})".format, STRINGS, st.sampled_from(["contains", "startsWith", "endsWith"]), STRINGS),
        st.builds("({} in [{}, {}])".format, integers(depth - 1), integers(depth - 1), INTEGERS),
        st.builds("{}.{}(x, {})".format, lists(depth - 1), st.sampled_from(["all", "exists", "exists_one"]), inner),
        st.builds("({} == {})".format, lists(depth - 1), lists(depth - 1)),
        st.builds("has({{'a': {}}}.{})".format, INTEGERS, st.sampled_from("ab")),
    )


def other_outcome(expression: str) -> bool | str:
    try:
        program = OTHER.program(OTHER.compile(expression))
        result = program.evaluate({"x": celpy.celtypes.IntType(5)})
    except celpy.evaluation.CELEvalError:
        return "error"
    return bool(result)


def our_outcome(expression: str) -> bool | str:
    program = cel.compile(f"cel.bind(x, dyn(5) == 5 ? 5 : 0, {expression})", ENVIRONMENT)
    if isinstance(program, CompileError):
        assume(False)
        raise AssertionError
    try:
        return program.evaluate(DEVICE)
    except EvaluationError:
        return "error"


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(booleans(3))
def test_expressions_of_the_common_subset_have_the_same_outcome(expression: str) -> None:
    assert our_outcome(expression) == other_outcome(expression)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("ab1.?[](){}:,+-*/%!<>=&|\"'\\ \n`rx0u")), max_size=40))
def test_any_text_compiles_or_is_refused_with_a_reason(text: str) -> None:
    result = cel.compile(text, ENVIRONMENT)
    if isinstance(result, CompileError):
        assert result.text.startswith(
            ("compilation failed: ERROR: <input>:", "must evaluate to", "program instantiation failed: ")
        )


@settings(max_examples=200, deadline=None)
@given(booleans(3))
def test_no_evaluation_costs_more_than_was_estimated(expression: str) -> None:
    program = cel.compile(f"cel.bind(x, 5, {expression})", ENVIRONMENT)
    assume(not isinstance(program, CompileError))
    assert not isinstance(program, CompileError)
    try:
        _, cost = program.evaluate_with_cost(DEVICE)
    except EvaluationError as error:
        cost = error.cost
    assert cost <= program.max_cost


@pytest.mark.parametrize("expression", ["true", "[1, 2].exists(x, x == 2)", "size('abc') == 3"])
def test_the_comparison_itself_works(expression: str) -> None:
    assert our_outcome(expression) is True
    assert other_outcome(expression) is True
