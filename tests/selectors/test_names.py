"""Name syntax: each check accepts valid names and explains the error of invalid ones."""

from __future__ import annotations

import pytest

from apiserver.api.values import names


@pytest.mark.parametrize("value", ["a", "a-b", "0", "a" * 63])
def test_a_dns_label_is_lower_case_letters_digits_and_inner_hyphens(value: str) -> None:
    assert names.dns_label(value) == []


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("", "a lowercase RFC 1123 label"),
        ("A", "a lowercase RFC 1123 label"),
        ("a.b", "must not contain dots"),
        ("a" * 64, "must be no more than 63 characters"),
    ],
)
def test_a_dns_label_says_what_is_wrong(value: str, start: str) -> None:
    assert names.dns_label(value)[0].startswith(start)


def test_lengths_count_bytes() -> None:
    assert names.dns_subdomain("é" * 127)[0] == "must be no more than 253 characters"


def test_a_line_end_belongs_to_no_name() -> None:
    assert names.dns_label("a\n")
    assert names.label_value("a\n")


@pytest.mark.parametrize("value", ["a", "example.com/a_b.C", "A" * 63])
def test_a_label_key_is_a_name_with_an_optional_domain(value: str) -> None:
    assert names.label_key(value) == []


def test_a_label_key_with_two_slashes_has_one_error() -> None:
    (text,) = names.label_key("a/b/c")
    assert text.endswith("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")


def test_an_empty_name_part_is_empty_and_malformed() -> None:
    assert names.label_key("example.com/")[0] == "name part must be non-empty"
    assert len(names.label_key("example.com/")) == 2


def test_a_prefix_for_a_generated_name_may_end_in_a_dash() -> None:
    assert names.object_name("subdomain", "pod-", prefix=True) == []
    assert names.object_name("subdomain", "pod-")
    assert names.object_name("subdomain", "pod.", prefix=True)


def test_a_path_segment_is_anything_that_can_stand_in_a_url() -> None:
    assert names.path_segment("system:node") == []
    assert names.path_segment("..") == ["may not be '..'"]
    assert names.path_segment("a/b%") == ["may not contain '/'", "may not contain '%'"]
