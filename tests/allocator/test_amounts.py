"""Amounts of capacities and counters as numbers."""

from __future__ import annotations

import pytest

from controllers.allocator.amounts import nanos


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", 10**9),
        ("1n", 1),
        ("1500u", 1_500_000),
        ("0.0000000015", 2),
        ("1e-12", 1),
        ("0", 0),
        ("1Gi", 2**30 * 10**9),
    ],
)
def test_amounts_are_compared_in_whole_billionths_rounded_up(text: str, amount: int) -> None:
    assert nanos(text) == amount
