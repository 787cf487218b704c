"""Versions: both grammars, precedence."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.values.semver import Semver, is_attribute_version

# In the order that semver.org gives as example.
ORDERED = [
    "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
    "1.0.0", "1.0.1", "1.10.0", "2.0.0",
]  # fmt: skip
PARTS = st.integers(0, 12)
IDENTIFIERS = st.one_of(st.integers(0, 20).map(str), st.sampled_from(["a", "rc", "-", "1a", "B"]))
VERSIONS = st.builds(
    lambda numbers, prerelease, build: (
        ".".join(map(str, numbers))
        + "".join(mark + ".".join(part) for mark, part in (("-", prerelease), ("+", build)) if part)
    ),
    st.tuples(PARTS, PARTS, PARTS),
    st.lists(IDENTIFIERS, max_size=3),
    st.lists(IDENTIFIERS, max_size=2),
)


def test_precedence_is_that_of_the_specification() -> None:
    versions = [Semver.parse(text) for text in ORDERED]
    assert sorted(versions[3:] + versions[:3]) == versions
    assert [left.compare(right) for left, right in pairwise(versions)] == [-1] * (len(versions) - 1)


def test_build_metadata_is_kept_but_never_compared() -> None:
    left, right = Semver.parse("1.2.3+a"), Semver.parse("1.2.3+b")
    assert left == right
    assert hash(left) == hash(right)
    assert str(left) == "1.2.3+a"


@given(VERSIONS)
def test_versions_are_written_as_they_were_read(text: str) -> None:
    assert str(Semver.parse(text)) == str(Semver.parse_tolerant(text)) == text
    assert is_attribute_version(text)


@given(VERSIONS, VERSIONS, VERSIONS)
def test_order_is_total(one: str, two: str, three: str) -> None:
    a, b, c = sorted(map(Semver.parse, (one, two, three)))
    assert max(a.compare(b), b.compare(c), a.compare(c)) <= 0
    assert a.compare(c) == -c.compare(a)


@given(st.text(alphabet="0123456789.v-+aé", max_size=12))
def test_any_text_is_a_version_or_a_value_error(text: str) -> None:
    try:
        version = Semver.parse(text)
    except ValueError:
        assert not is_attribute_version(text)
        return
    assert is_attribute_version(str(version))
    assert Semver.parse(str(version)) == version


@pytest.mark.parametrize(
    ("text", "read"),
    [("v1.2.3", "1.2.3"), ("1", "1.0.0"), ("01.02", "1.2.0"), ("v1.0-rc", "1.0-rc"), ("1.2.3-rc.1", "1.2.3-rc.1")],
)
def test_the_tolerant_form_adds_what_is_missing(text: str, read: str) -> None:
    if read.count(".") < 2:
        with pytest.raises(ValueError):
            Semver.parse_tolerant(text)
    else:
        assert str(Semver.parse_tolerant(text)) == read


def test_numbers_have_64_bits_in_expressions_and_no_limit_in_attributes() -> None:
    Semver.parse("18446744073709551615.0.0")
    with pytest.raises(ValueError, match="value out of range"):
        Semver.parse("18446744073709551616.0.0")
    assert is_attribute_version("18446744073709551616.0.0")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("01.2.3", 'Major number must not contain leading zeroes "01"'),
        ("1.x.3", 'Invalid character(s) found in minor number "x"'),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
    ],
)
def test_what_is_no_version_is_refused_in_known_words(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        Semver.parse(text)
    assert str(caught.value) == why
