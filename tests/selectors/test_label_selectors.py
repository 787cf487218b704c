"""Label selectors: their matches, their text form and their errors."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.selectors.label_requirements import Operator
from apiserver.api.selectors.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Requirement,
    SelectorError,
    format_object,
    from_object,
    parse_labels,
)


def test_an_empty_selector_selects_everything() -> None:
    assert parse_labels("") is EVERYTHING
    assert EVERYTHING.matches(None)
    assert EVERYTHING.matches({"a": "b"})


def test_no_object_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert from_object(None) is NOTHING
    assert not NOTHING.matches({})
    assert from_object({}).matches({"any": "thing"})


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ("a", {"a": ""}, True), ("a", {}, False),
        ("!a", {}, True), ("!a", {"a": ""}, False),
        ("a=b", {"a": "b"}, True), ("a=b", {"a": "c"}, False), ("a=b", {}, False),
        ("a!=b", {}, True), ("a!=b", {"a": "b"}, False),
        ("a in (b,c)", {"a": "c"}, True), ("a in (b,c)", {"a": "d"}, False), ("a in (b,c)", {}, False),
        ("a notin (b)", {}, True), ("a notin (b,c)", {"a": "c"}, False),
        ("n>5", {"n": "6"}, True), ("n>5", {"n": "5"}, False), ("n>5", {"n": "x"}, False), ("n<5", {"n": "-1"}, True),
        ("a=b,!c", {"a": "b"}, True), ("a=b,!c", {"a": "b", "c": ""}, False),
    ],
)  # fmt: skip
def test_a_requirement_selects_by_its_operator(selector: str, labels: dict[str, str], selected: bool) -> None:
    assert parse_labels(selector).matches(labels) is selected


def test_the_canonical_text_is_sorted_by_key_and_by_value() -> None:
    assert str(parse_labels(" b = 2 , a in (z,y) ")) == "a in (y,z),b=2"


def test_words_of_the_grammar_can_be_keys_and_values() -> None:
    assert str(parse_labels("in in (notin)")) == "in in (notin)"


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ("a,", "found '', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("a ~ b", "unable to parse requirement: found '~', expected: in, notin, =, ==, !=, gt, lt"),
    ],
)
def test_a_selector_that_cannot_be_parsed_says_what_stands_where(selector: str, text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_labels(selector)
    assert str(caught.value) == text


def test_keys_and_values_of_a_selector_are_checked() -> None:
    with pytest.raises(SelectorError, match='unable to parse requirement: <nil>: Invalid value: "-x"'):
        parse_labels("-x=1")
    with pytest.raises(SelectorError, match=r"values\[0\]\[x\]: Invalid value: \"-\""):
        parse_labels("x=-")


def test_an_object_selector_joins_labels_and_expressions() -> None:
    selector = from_object({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]})
    assert str(selector) == "a=b,c"
    assert selector.matches({"a": "b", "c": ""})
    assert not selector.matches({"a": "b"})


def test_an_object_selector_shows_as_error_when_it_is_wrong() -> None:
    assert format_object({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}) == "<error>"
    assert format_object({}) == "<none>"


def test_a_selector_knows_the_one_value_that_it_fixes() -> None:
    assert parse_labels("a=b,c in (d)").exact("c") == "d"
    assert parse_labels("a in (b,c)").exact("a") is None
    assert parse_labels("a!=b").exact("a") is None


_KEYS = st.from_regex(r"[a-z]([a-z0-9.]{0,5}[a-z0-9])?", fullmatch=True)
_VALUES = st.from_regex(r"([a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?)?", fullmatch=True)


@given(labels=st.dictionaries(_KEYS, _VALUES, max_size=4), others=st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_a_selector_made_of_labels_selects_exactly_their_supersets(
    labels: dict[str, str], others: dict[str, str]
) -> None:
    selector = parse_labels(",".join(f"{key}={value}" for key, value in labels.items()))
    merged = {**others, **labels}
    assert selector.matches(merged)
    assert selector.matches(others) == all(others.get(key) == value for key, value in labels.items())
    assert str(parse_labels(str(selector))) == str(selector)


OPERATORS = st.sampled_from(get_args(Operator))
VALUES = st.sampled_from(["1", "2", "3", "x", "9" * 20])


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(OPERATORS)
    several = draw(st.lists(VALUES, min_size=1, max_size=3, unique=True))
    values = () if operator in ("exists", "!") else several if operator in ("in", "notin") else several[:1]
    return Requirement(draw(st.sampled_from("abc")), operator, tuple(values))


@given(st.lists(requirements(), min_size=1, max_size=14), st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4))
def test_many_requirements_select_what_each_of_them_selects(many: list[Requirement], labels: dict[str, str]) -> None:
    assert LabelSelector(tuple(many)).matches(labels) == all(each.compile()(labels) for each in many)
