"""Field selectors: terms, escapes, matching."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.selectors.selectors import FieldRequirement, FieldSelector, SelectorError, parse_fields


def test_a_term_selects_equal_or_unequal() -> None:
    selector = parse_fields("spec.nodeName=n1,status.phase!=Failed")
    values = {"spec.nodeName": "n1", "status.phase": "Running"}
    assert selector.matches(lambda field: values.get(field, ""))
    assert not selector.matches(lambda field: {**values, "status.phase": "Failed"}.get(field, ""))
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("status.phase") is None


def test_a_missing_field_counts_as_empty() -> None:
    assert parse_fields("spec.nodeName=").matches(lambda _: "")


def test_nothing_compared_with_nothing_is_no_requirement() -> None:
    assert parse_fields("=,!=,==").empty
    assert not parse_fields("=x").empty


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("x=a=b", "invalid field selector: unescaped character in value: 61"),
        ("x=a\\b", "invalid field selector: invalid escape sequence: \\b"),
        ("x=a\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_a_field_selector_that_cannot_be_parsed_says_why(selector: str, text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_fields(selector)
    assert str(caught.value) == text


@given(st.text(alphabet="ab,=\\!. ", max_size=8))
def test_a_value_survives_its_canonical_text(value: str) -> None:
    selector = FieldSelector((FieldRequirement("x", value),))
    assert parse_fields(str(selector)).requirements[0].value == value
