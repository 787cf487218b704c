"""Durations in human-readable form."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apiserver.api.values.durations import age, go_seconds, human_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119.9, "119s"), (120, "2m"), (187, "3m7s"), (600, "10m"), (10799, "179m"), (10800, "3h"),
        (11000, "3h3m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (176400, "2d1h"), (691200, "8d"), (63071999, "729d"), (63072000, "2y"),
        (63158400, "2y1d"), (252288000, "8y"),
    ],
)  # fmt: skip
def test_a_duration_shows_at_most_two_units_and_the_second_only_while_it_matters(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_an_age_is_unknown_without_a_time() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert age(None, now) == "<unknown>"
    assert age("2026-01-01T00:00:00Z", now) == "60s"


@pytest.mark.parametrize(
    ("count", "days"),
    [
        (86400, 1), (-86400, -1), (9223372036, 106751), (9223372037, -106752), (18446744074, 0),
        ((1 << 63) - 1, -1), (1 << 62, 0), (-(1 << 63), 0),
    ],
)  # fmt: skip
def test_seconds_that_go_cannot_count_begin_anew(count: int, days: int) -> None:
    """kube-apiserver's deletion timestamps show the overflow."""
    assert go_seconds(count).days == days
