"""Numbers in texts, as Go's strconv reads and writes them.

Integers are ASCII digits to base 10, in 64 bits, with any number of leading zeros.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

__all__ = ["go_float", "int64", "parse_int64", "parse_uint64"]

_BOUND: Final = 1 << 63
#: Digits of the largest number. Python reads at most 4300, in quadratic time.
_DIGITS: Final = 20


def parse_int64(text: str) -> int:
    """Parse an integer with an optional sign. Raise ValueError with strconv's text."""
    sign = text[:1] if text[:1] in ("+", "-") else ""
    value = _value("ParseInt", text, text[len(sign) :]) * (-1 if sign == "-" else 1)
    if not -_BOUND <= value < _BOUND:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def parse_uint64(text: str) -> int:
    """Parse an integer without a sign, such as a resource version. Raise ValueError with strconv's text."""
    value = _value("ParseUint", text, text)
    if value >= 2 * _BOUND:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return value


def int64(text: str) -> int | None:
    """Parse as `parse_int64` does. Return None for an invalid text."""
    try:
        return parse_int64(text)
    except ValueError:
        return None


def go_float(value: float) -> str:
    """Return the shortest text that reads back as the same float.

    From 1e6 on and below 1e-4 it has an exponent of at least two digits. Non-finite values are `+Inf`, `-Inf`, `NaN`.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    number = Decimal(repr(value))
    exponent = number.adjusted() if value else 0
    if -4 <= exponent < 6:
        return f"{number:f}".removesuffix(".0")
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    mantissa = digits[0] + ("." + digits[1:] if digits[1:] else "")
    return f"{'-' if value < 0 else ''}{mantissa}e{exponent:+03d}"


def _value(function: str, text: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f'strconv.{function}: parsing "{text}": invalid syntax')
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _DIGITS else 10**_DIGITS
