"""Quantities as whole numbers of nano-units: exact, and cheap to add and compare.

A quantity has no finer resolution than nano, so nothing is lost.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from apiserver.api.values.quantity import Format, Quantity

UNIT: Final = 10**9
_NANO: Final = -9
# Beyond 2**63 units everything is "more than any device has"; this keeps absurd exponents from building huge numbers.
_MAX_EXPONENT: Final = 60


@lru_cache(maxsize=8192)
def nanos(text: str) -> int:
    """The amount in nano-units, to which reading it has rounded already."""
    quantity = Quantity.parse(text)
    return int(quantity.unscaled * 10 ** min(quantity.exponent - _NANO, _MAX_EXPONENT))


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """The text that the API emits for this quantity."""
    return str(Quantity.parse(text))


def whole_units(amount: int) -> int:
    """Whole units, rounded up (away from zero)."""
    return -(-amount // UNIT) if amount >= 0 else amount // UNIT


def binary_text(units: int) -> str:
    """A whole number of units as the API writes it with binary suffixes."""
    return str(Quantity.of(units, Format.BINARY_SI))
