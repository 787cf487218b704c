"""Core events are counted, combined and limited as client-go does it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controllers.runtime.correlation import Correlator

pytestmark = pytest.mark.integration

START = datetime(2026, 1, 1, tzinfo=UTC)
_made = iter(range(10**9))


def an_event(message: str = "m", reason: str = "r") -> dict[str, Any]:
    return {
        "metadata": {"name": f"e{next(_made)}", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u", "apiVersion": "v1"},
        "source": {"component": "c"},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


def test_the_same_event_again_counts_up_the_first() -> None:
    correlator = Correlator()
    first = correlator.observe(an_event(), START)
    second = correlator.observe(an_event(), START + timedelta(seconds=1))
    assert first is not None
    assert second is not None
    assert (first[1], second[1]) == (False, True)
    assert second[0]["count"] == 2
    assert second[0]["metadata"]["name"] == first[0]["metadata"]["name"]


def test_the_tenth_different_message_becomes_a_combined_event() -> None:
    correlator = Correlator()
    seen = [correlator.observe(an_event(f"message {n}"), START) for n in range(12)]
    texts = [observed[0]["message"] for observed in seen if observed]
    assert texts[:9] == [f"message {n}" for n in range(9)]
    assert texts[9:] == [f"(combined from similar events): message {n}" for n in (9, 10, 11)]
    assert [observed[1] for observed in seen if observed] == [False] * 10 + [True, True]


def test_similar_events_ten_minutes_apart_are_not_combined() -> None:
    correlator = Correlator()
    for n in range(9):
        correlator.observe(an_event(f"message {n}"), START)
    late = correlator.observe(an_event("late"), START + timedelta(minutes=11))
    assert late is not None
    assert late[0]["message"] == "late"


def test_a_source_may_send_twenty_five_events_about_an_object_and_then_one_every_five_minutes() -> None:
    correlator = Correlator()
    sent = [correlator.observe(an_event(reason=f"r{n}"), START) for n in range(30)]
    assert [n for n, observed in enumerate(sent) if observed is None] == [25, 26, 27, 28, 29]
    assert correlator.observe(an_event(reason="x"), START + timedelta(minutes=4)) is None
    assert correlator.observe(an_event(reason="y"), START + timedelta(minutes=5)) is not None
    assert correlator.observe(an_event(reason="z"), START + timedelta(minutes=5)) is None
