"""Random values of a server: UIDs, and the suffixes of generated names."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["RandomSource"]

#: Letters of generated names, without vowels and look-alikes. Source: apimachinery, util/rand.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
#: The random bits of a UID, and the bits that mark a UUID of version 4 (RFC 9562, 5.4).
_FREE: Final = ~((0xF << 76) | (0b11 << 62))
_FIXED: Final = (0x4 << 76) | (0b10 << 62)


class RandomSource:
    """A random generator of its own. A seed makes its values reproducible.

    A test that seeds the shared generator would otherwise get the same names twice.
    """

    def __init__(self, seed: str | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - names need no secrecy

    def reseed(self) -> None:
        """Draw other numbers than before, as a fork of a server must."""
        self._random.seed()

    def uid(self) -> str:
        """Return a UID: a UUID of version 4."""
        digits = f"{self._random.getrandbits(128) & _FREE | _FIXED:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def below(self, limit: int) -> int:
        """Return a random number of 0 … limit-1."""
        return self._random.randrange(limit)

    def suffix(self) -> str:
        """Return five letters for a generated name."""
        return "".join(self._random.choices(_ALPHABET, k=5))
