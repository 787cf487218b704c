"""Quantities as integers in nano-units, their finest resolution: exact, and cheap to add and compare."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from apiserver.api.values.quantity import Format, Quantity

UNIT: Final = 10**9
_NANO: Final = -9
# Limits the size of integers for absurd exponents; no device has more than 2**63 units.
_MAX_EXPONENT: Final = 60


@lru_cache(maxsize=8192)
def nanos(text: str) -> int:
    """Return the amount in nano-units; parsing has already rounded to them."""
    quantity = Quantity.parse(text)
    return int(quantity.unscaled * 10 ** min(quantity.exponent - _NANO, _MAX_EXPONENT))


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """Return the API's canonical form of a quantity."""
    return str(Quantity.parse(text))


def whole_units(amount: int) -> int:
    """Return the amount in whole units; positive amounts are rounded up, negative ones down."""
    return -(-amount // UNIT) if amount >= 0 else amount // UNIT


def binary_text(units: int) -> str:
    """Format whole units with binary suffixes, as the API does."""
    return str(Quantity.of(units, Format.BINARY_SI))
