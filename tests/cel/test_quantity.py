"""Quantities: parsing, formatting and arithmetic, compared with exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.values.quantity import Format, Quantity, canonical

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "e3": Fraction(10**3),
    "E-2": Fraction(1, 100),
    "e+1": Fraction(10),
}
# So few digits that every suffix stays above a nano-unit and within 64 bits.
TEXTS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 999),
    st.sampled_from(["", ".5", ".25", ".000", ".125"]),
    st.sampled_from(sorted(set(SUFFIXES) - {"n", "u"})),
)


def exact(text: str) -> Fraction:
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    for suffix in ("e3", "e+1", "E-2"):
        number = number.removesuffix(suffix) if text.endswith(suffix) else number
    return Fraction(number) * SUFFIXES[text[len(number) :]]


def exact_of(quantity: Quantity) -> Fraction:
    return Fraction(quantity.value(-9), 10**9)


@given(TEXTS)
def test_reading_is_exact(text: str) -> None:
    assert exact_of(Quantity.parse(text)) == exact(text)


@given(TEXTS)
def test_the_canonical_form_says_the_same_and_stays(text: str) -> None:
    # A binary amount that no binary suffix divides (406.25Ki) is written plainly and read as a decimal one: one step
    # more.
    once = canonical(text)
    twice = canonical(once)
    assert exact_of(Quantity.parse(once)) == exact_of(Quantity.parse(twice)) == exact(text)
    assert canonical(twice) == twice
    assert twice == once or once.lstrip("-").isdigit()


def test_a_binary_amount_without_a_binary_suffix_is_written_plainly() -> None:
    assert canonical("406.25Ki") == "416000"
    assert canonical("416000") == "416k"


@given(TEXTS, TEXTS)
def test_arithmetic_and_order_are_exact(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert exact_of(a.add(b)) == exact(left) + exact(right)
    assert exact_of(a.sub(b)) == exact(left) - exact(right)
    assert a.compare(b) == (exact(left) > exact(right)) - (exact(left) < exact(right))
    assert (a == b) == (exact(left) == exact(right))
    assert a != b or hash(a) == hash(b)


@given(TEXTS.filter(lambda text: not text.startswith("-")), st.sampled_from([0, 3]))
def test_fractions_of_a_unit_are_rounded_up_in_value(text: str, exponent: int) -> None:
    assert Quantity.parse(text).value(exponent) == -(-exact(text) / 10**exponent // 1)


def test_negative_fractions_are_rounded_as_clients_have_always_seen_it() -> None:
    assert Quantity.parse("-1.5").value() == -2
    assert Quantity.parse("-1.04Ki").value() == -1063


@given(st.text(alphabet="0123456789.+-eEKMGkmnui ", max_size=12))
def test_any_text_is_an_amount_or_a_value_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except ValueError:
        return
    assert Quantity.parse(str(quantity)) == quantity


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1500m", "1500m"), ("1.5", "1500m"), ("0.5Gi", "512Mi"), ("1024Ki", "1Mi"), ("1000Ki", "1000Ki"), ("1000k", "1M"), ("0.001", "1m"),
        ("100e3", "100e3"), ("1e4", "10e3"), ("0Gi", "0"), ("-0", "0"), ("0.1n", "1n"), ("-0.1n", "-1n"), ("1.0", "1"),
        ("9223372036854775808", "9223372036854775808"),
        ("1.5Ki", "1536"),
    ],
)  # fmt: skip
def test_amounts_are_written_as_the_api_writes_them(text: str, written: str) -> None:
    assert Quantity.parse(text).canonical_text() == written


def test_the_format_is_that_of_the_left_unless_the_left_is_zero() -> None:
    assert str(Quantity.parse("1Gi").add(Quantity.parse("1G"))) == "2073741824"
    assert str(Quantity.parse("1Gi").add(Quantity.parse("1Mi"))) == "1025Mi"
    assert str(Quantity.parse("0").add(Quantity.parse("1Mi"))) == "1Mi"
    assert str(Quantity.of(2048, Format.BINARY_SI)) == "2Ki"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("1.2.3", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("1kk", "unable to parse quantity's suffix"),
        (" 1", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    ],
)
def test_what_is_no_amount_is_refused_in_the_words_of_the_api(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        Quantity.parse(text)
    assert str(caught.value) == why
