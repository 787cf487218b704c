"""Amounts of capacities and counters as numbers."""

from __future__ import annotations

import pytest

from controllers.allocator.amounts import UNIT, binary_text, canonical, nanos, whole_units


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", 10**9),
        ("1n", 1),
        ("1500u", 1_500_000),
        ("0.0000000015", 2),
        ("1e-12", 1),
        ("0", 0),
        ("-1", -(10**9)),
        ("-1.5e-9", -2),
        ("12e2", 1200 * 10**9),
        ("1e9", 10**18),
        ("1Gi", 2**30 * 10**9),
    ],
)
def test_amounts_are_billionths_rounded_up(text: str, amount: int) -> None:
    assert nanos(text) == amount


@pytest.mark.parametrize("text", ["1e70", "1e1000"])
def test_a_huge_amount_is_capped(text: str) -> None:
    assert nanos("8Ei") < nanos(text) == 10**60


@pytest.mark.parametrize(
    ("amount", "units"),
    [(0, 0), (1, 1), (UNIT, 1), (UNIT + 1, 2), (2 * UNIT - 1, 2), (-1, -1), (-UNIT, -1), (-UNIT - 1, -2)],
)
def test_whole_units_are_rounded_away_from_zero(amount: int, units: int) -> None:
    assert whole_units(amount) == units


def test_amounts_are_formatted_as_in_the_api() -> None:
    assert [canonical(text) for text in ("1000m", "1024Mi", "0.5", "1e3")] == ["1", "1Gi", "500m", "1e3"]
    assert [binary_text(units) for units in (0, 1023, 1024, 3 * 2**30)] == ["0", "1023", "1Ki", "3Gi"]
