"""Resource quantities (`500m`, `1.5Gi`, `1e3`): exact, immutable, with the text that Kubernetes emits.

Invariants
- The value is exactly `unscaled * 10**exponent`. It is never held as a float.
- A parsed text in canonical form is emitted verbatim, everything else in canonical form. The rule of the wire format
  is laxer than its prose: `1.`, `+1` and `1E3` are canonical.
- `wide` records the number form of the reference implementation: 64-bit with a decimal exponent, or arbitrary
  precision. Only `as_int64` and the rounding of negative fractions depend on it, but clients can observe both.

Source of facts: the serialisation rules of the quantity type in the Kubernetes API reference and answers recorded from
a real API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import total_ordering
from typing import Final, cast

from apiserver.api.values.bounded_cache import remembered


class Format(StrEnum):
    """The notation of a quantity: `12e6`, `12Mi` or `12M`."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"
    UNSET = ""


WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
WRONG_SUFFIX: Final = "unable to parse quantity's suffix"

MAX_INT64: Final = (1 << 63) - 1
MIN_INT64: Final = -(1 << 63)
_NANO: Final = -9
_NARROW_DIGITS: Final = 18
# Longer numbers are rejected. Python itself converts at most 4300 digits.
_MAX_DIGITS: Final = 4000
# Aligning two exponents with a larger distance would build numbers of megabytes.
_MAX_ALIGNMENT: Final = 100_000

_DECIMAL_EXPONENTS: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _BINARY_EXPONENTS.items()} | {0: ""}
_DIGITS: Final = frozenset("0123456789")
_SUFFIX_LETTERS: Final = frozenset("eEinumkKMGTP")


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount together with its notation."""

    unscaled: int = 0
    exponent: int = 0
    format: Format = Format.UNSET
    wide: bool = False
    verbatim: str = ""

    @staticmethod
    def parse(text: str) -> Quantity:
        """Parse a quantity. Raise ValueError with the text that clients know."""
        if not text:
            raise ValueError(WRONG_FORMAT)
        if text == "0":
            return Quantity(format=Format.DECIMAL_SI, verbatim=text)
        return _parse(text)

    @staticmethod
    def from_json(raw: str) -> Quantity:
        """Parse a JSON scalar as the wire decoder does.

        Quotes are optional, blanks are ignored, escapes are not decoded.
        """
        if raw == "null":
            return Quantity()
        if len(raw) >= 2 and raw[0] == '"' and raw[-1] == '"':
            raw = raw[1:-1]
        return Quantity.parse(raw.strip())

    @staticmethod
    def of(value: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Return a whole number of units."""
        return Quantity(value, 0, format)

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    @property
    def is_zero(self) -> bool:
        """Whether the amount is zero."""
        return self.unscaled == 0

    def __str__(self) -> str:
        return self.verbatim or self.canonical_text()

    def canonical_text(self) -> str:
        """Return the canonical form for number and format, regardless of how the quantity was written."""
        if self.unscaled == 0:
            return "0"
        if self.format is Format.BINARY_SI and self.is_integer() and not -1024 < self._whole() < 1024:
            amount, power = _strip_factors(self._whole(), 1024)
            return f"{amount}{_BINARY_SUFFIXES.get(power * 10, '')}"
        amount, power = _strip_factors(self.unscaled, 10)
        power += self.exponent
        while power % 3:
            amount *= 10
            power -= 1
        if self.format in (Format.DECIMAL_SI, Format.BINARY_SI):
            return f"{amount}{_DECIMAL_SUFFIXES.get(power, '')}"
        return f"{amount}e{power}" if power else str(amount)

    def decimal_text(self) -> str:
        """Return the exact value in plain decimal notation, with the given digits."""
        if self.exponent >= 0:
            return str(self.unscaled) + "0" * (min(self.exponent, _MAX_ALIGNMENT) if self.unscaled else 0)
        digits = str(abs(self.unscaled)).rjust(1 - self.exponent, "0")
        sign = "-" if self.unscaled < 0 else ""
        return f"{sign}{digits[: self.exponent]}.{digits[self.exponent :]}"

    def is_integer(self) -> bool:
        """Return whether the value has no fraction."""
        return self.exponent >= 0 or self.unscaled % 10**-self.exponent == 0

    def as_int64(self) -> int | None:
        """Return the exact 64-bit integer, or None if the wire type cannot provide it without loss."""
        if self.wide or self.exponent < 0 or self.exponent > _NARROW_DIGITS + 1:
            return None if self.unscaled or self.wide or self.exponent < 0 else 0
        value = self.unscaled * 10**self.exponent
        return value if _fits(value) else None

    def value(self, exponent: int = 0) -> int:
        """Return the number of units of 10**exponent, rounded up (`value(-3)` counts thousandths).

        Rounding is away from zero. Negative wide numbers are truncated and incremented (-1.04Ki is -1063), or only
        truncated when very large, as clients have always seen it. Results outside of 64 bits are exact and do not wrap.
        """
        shift = exponent - self.exponent
        if shift <= 0:
            # No caller needs more digits; building them would take minutes.
            return self.unscaled * cast(int, 10 ** min(-shift, _MAX_ALIGNMENT))
        divisor: int = 10**shift
        whole, rest = divmod(abs(self.unscaled), divisor)
        if not self.wide or self.unscaled >= 0:
            whole += rest != 0
            return whole if self.unscaled >= 0 else -whole
        if self.unscaled < MAX_INT64 and shift < 19:
            return -whole + (rest != 0)
        return -whole

    def approximate_float(self) -> float:
        """Return the nearest float as the wire type computes it, infinite outside of the range."""
        base = float(self.unscaled)
        if self.exponent == 0:
            return base
        power = 0.0 if self.exponent < -323 else float("inf") if self.exponent > 308 else float(f"1e{self.exponent}")
        return base * power

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1."""
        if self.exponent == other.exponent:
            left, right = self.unscaled, other.unscaled
        elif self.sign != other.sign or not self.unscaled:
            left, right = self.sign, other.sign
        elif (order := self._magnitude() - other._magnitude()) != 0:
            return self.sign if order > 0 else -self.sign
        else:
            low = min(self.exponent, other.exponent)
            left = self.unscaled * 10 ** (self.exponent - low)
            right = other.unscaled * 10 ** (other.exponent - low)
        return (left > right) - (left < right)

    def __eq__(self, other: object) -> bool:
        return self.compare(other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        amount, power = _strip_factors(self.unscaled, 10)
        return hash((amount, power + self.exponent if amount else 0))

    def add(self, other: Quantity) -> Quantity:
        """Return the sum. A zero takes the notation of the added quantity."""
        notation = other.format if self.unscaled == 0 else self.format
        if not self.wide and not other.wide:
            if other.unscaled == 0:
                return Quantity(self.unscaled, self.exponent, notation)
            if self.unscaled == 0:
                return Quantity(other.unscaled, other.exponent, notation)
        low, left, right = self._aligned(other)
        total = left + right
        wide = self.wide or other.wide or not (_fits(left) and _fits(right) and _fits(total))
        return Quantity(total, low, notation, wide)

    def sub(self, other: Quantity) -> Quantity:
        """Return the difference. A zero takes the notation of the subtracted quantity."""
        return self.add(other.neg())

    def neg(self) -> Quantity:
        """Return the amount with the opposite sign."""
        return Quantity(-self.unscaled, self.exponent, self.format, self.wide)

    def mul(self, factor: int) -> tuple[Quantity, bool]:
        """Return the product, and whether the computation stayed within 64 bits."""
        if not self.wide and (self.unscaled == 0 or factor == 0):
            kept = self.exponent if self.unscaled == 0 else 0
            return Quantity(0, kept, self.format), True
        product = self.unscaled * factor
        narrow = not self.wide and _fits(product)
        if narrow and self.exponent > 0:
            narrow = self.exponent <= _NARROW_DIGITS and _fits(product * 10**self.exponent)
        elif narrow and self.exponent < 0:
            narrow = product % 10**-self.exponent == 0
        return Quantity(product, self.exponent, self.format, not narrow), narrow or _fits(product)

    def round_up(self, exponent: int) -> tuple[Quantity, bool]:
        """Return the amount rounded away from zero to a multiple of 10**exponent, and whether it is exact."""
        if self.exponent >= exponent:
            if not self.wide:
                return self, True
            return self._rescaled(exponent), True
        whole, rest = divmod(abs(self.unscaled), 10 ** (exponent - self.exponent))
        whole += rest != 0
        return Quantity(whole * (self.sign or 1), exponent, self.format, self.wide), rest == 0

    def _rescaled(self, exponent: int) -> Quantity:
        shift = self.exponent - exponent
        if shift > _MAX_ALIGNMENT:
            return self
        return Quantity(self.unscaled * 10**shift, exponent, self.format, self.wide)

    def _whole(self) -> int:
        """Return the integer value. Only for quantities without a fraction."""
        if self.exponent < 0:
            return cast(int, self.unscaled // 10**-self.exponent)
        if self.exponent > _MAX_ALIGNMENT:
            raise ValueError(f"quantity {self.unscaled}e{self.exponent} is out of range")
        return cast(int, self.unscaled * 10**self.exponent)

    def _magnitude(self) -> int:
        """Return the number of decimal digits before the point."""
        return len(str(abs(self.unscaled))) + self.exponent

    def _aligned(self, other: Quantity) -> tuple[int, int, int]:
        low = min(self.exponent, other.exponent)
        if max(self.exponent, other.exponent) - low > _MAX_ALIGNMENT:
            raise ValueError(f"quantities {self} and {other} are too far apart")
        return low, self.unscaled * 10 ** (self.exponent - low), other.unscaled * 10 ** (other.exponent - low)


@remembered(8192)
def canonical(text: str) -> str:
    """Return the emitted text of a quantity parsed from `text`. Raise ValueError as `Quantity.parse` does."""
    return str(Quantity.parse(text))


def _fits(value: int) -> bool:
    return MIN_INT64 <= value <= MAX_INT64


def _strip_factors(value: int, factor: int) -> tuple[int, int]:
    """Divide by `factor` while the result is exact. Return the quotient and the number of divisions."""
    times = 0
    while value:
        quotient, rest = divmod(value, factor)
        if rest:
            break
        value, times = quotient, times + 1
    return value, times


def _split(text: str) -> tuple[str, str, str, str]:
    """Split into the number as written, its digits before and after the point without leading zeros, and the suffix."""
    end = len(text)
    start = pos = 1 if text[0] in "+-" else 0
    while pos < end and text[pos] == "0":
        pos += 1
    if pos == end:
        return "0", "0", "", ""
    first = pos
    while pos < end and text[pos] in _DIGITS:
        pos += 1
    whole, fraction = text[first:pos] or "0", ""
    if pos < end and text[pos] == ".":
        point = pos = pos + 1
        while pos < end and text[pos] in _DIGITS:
            pos += 1
        fraction = text[point:pos]
    number, suffix = text[start:pos], text[pos:]
    while pos < end and text[pos] in _SUFFIX_LETTERS:
        pos += 1
    if pos < end and text[pos] in "+-":
        pos += 1
    if any(character not in _DIGITS for character in text[pos:]):
        raise ValueError(WRONG_FORMAT)
    return number, whole, fraction, suffix


def _interpret_suffix(suffix: str) -> tuple[Format, int]:
    """Return the notation and the exponent of a suffix (of 10 or, for BinarySI, of 2)."""
    exponent = _DECIMAL_EXPONENTS.get(suffix)
    if exponent is not None:
        return Format.DECIMAL_SI, exponent
    exponent = _BINARY_EXPONENTS.get(suffix)
    if exponent is not None:
        return Format.BINARY_SI, exponent
    if len(suffix) > 1 and suffix[0] in "eE":
        digits = suffix[2:] if suffix[1] in "+-" else suffix[1:]
        if digits and all(character in _DIGITS for character in digits):
            value = int(suffix[1:])
            if _fits(value):
                return Format.DECIMAL_EXPONENT, (value + (1 << 31)) % (1 << 32) - (1 << 31)
    raise ValueError(WRONG_SUFFIX)


@remembered(4096)
def _parse(text: str) -> Quantity:
    """Parse a quantity. Cached, because clusters repeat the same few amounts and quantities are immutable."""
    number, whole, fraction, suffix = _split(text)
    notation, exponent = _interpret_suffix(suffix)
    sign = -1 if text[0] == "-" else 1
    digits = whole + fraction
    factor = 1
    scale = exponent - len(fraction)
    room = _NARROW_DIGITS - len(digits)
    if notation is Format.BINARY_SI:
        scale = 0
        room = -1
        if not fraction:
            factor = 1 << exponent
            room = 14 - len(whole) - exponent * 3 // 10
    if room >= 0 and scale >= _NANO:
        amount = int(digits)
        if _fits(amount * factor):
            decimal = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
            keep = amount & 7 != 0 if notation is Format.BINARY_SI else decimal
            return Quantity(sign * amount * factor, scale, notation, verbatim=text if keep else "")
    if len(number) > _MAX_DIGITS or not any(character in _DIGITS for character in number):
        raise ValueError(WRONG_NUMBER)
    return _wide(sign, int(digits), len(fraction), notation, exponent)


def _wide(sign: int, amount: int, places: int, notation: Format, exponent: int) -> Quantity:
    """Build the arbitrary-precision form: nano resolution, rounded away from zero; BinarySI capped at 64 bits."""
    if notation is Format.BINARY_SI:
        amount <<= exponent
        exponent = 0
    exponent -= places
    if amount:
        if exponent < _NANO:
            shift = _NANO - exponent
            if shift > len(str(amount)):
                amount = 1
            else:
                amount, rest = divmod(amount, 10**shift)
                amount += rest != 0
            exponent = _NANO
        elif exponent - _NANO <= _MAX_ALIGNMENT:
            amount *= 10 ** (exponent - _NANO)
            exponent = _NANO
    if notation is Format.BINARY_SI and amount:
        one: int = 10**-exponent
        if amount > MAX_INT64 * one:
            amount, exponent = MAX_INT64, 0
        elif amount < one:
            notation = Format.DECIMAL_SI
    return Quantity(sign * amount, exponent, notation, wide=True)
