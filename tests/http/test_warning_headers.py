"""Warnings become headers: one each, quoted, within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.http.formats.warning import warning_headers
from tests.support.server import serve

pytestmark = pytest.mark.integration


def texts(*said: str) -> list[str]:
    return [value for _, value in warning_headers(said)]


def test_a_warning_is_a_299_without_an_agent() -> None:
    assert warning_headers(["old"]) == (("Warning", '299 - "old"'),)


def test_quotes_and_backslashes_are_escaped() -> None:
    assert texts('unknown field "a\\b"') == ['299 - "unknown field \\"a\\\\b\\""']


def test_warnings_are_unique_and_in_order() -> None:
    assert texts("b", "a", "b", "") == ['299 - "b"', '299 - "a"']


def test_a_warning_with_control_characters_is_dropped() -> None:
    assert texts("a\nb", "fine") == ['299 - "fine"']


def test_beyond_four_kilobytes_every_warning_is_cut_and_the_last_are_dropped() -> None:
    said = texts(*(f"{number:04}" + "x" * 400 for number in range(100)))
    assert len(said) == 16
    assert all(len(text) == len('299 - ""') + 256 for text in said)


@given(st.lists(st.text(max_size=600), max_size=40))
def test_headers_never_hold_more_than_a_client_takes(said: list[str]) -> None:
    headers = texts(*said)
    assert sum(map(len, headers)) <= 2 * (4096 + 256) + 40 * 10
    assert not any("\r" in text or "\n" in text for text in headers)


def test_a_status_write_has_warnings_too() -> None:
    odd = {"podIP": "2001:DB8::1", "podIPs": [{"ip": "2001:DB8::1"}]}
    with serve() as running:
        wire = running.wire()
        pods = "/api/v1/namespaces/default/pods"
        wire.post(pods, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        answer = wire.patch(f"{pods}/a/status", {"status": odd})
    assert answer.headers["warning"].startswith('299 - "status.podIPs[0].ip: IPv6 address')
