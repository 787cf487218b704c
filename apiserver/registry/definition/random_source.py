"""What a server leaves to chance: uids, and the ends of generated names."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["Chance"]

#: Letters of generated names: no vowels, nothing that looks like another. Source: apimachinery, util/rand.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
#: The bits of a uid that are chance, and those that say that it is a UUID of version 4 (RFC 9562, 5.4).
_FREE: Final = ~((0xF << 76) | (0b11 << 62))
_FIXED: Final = (0x4 << 76) | (0b10 << 62)


class Chance:
    """Its own generator: whoever seeds the shared one (a test that repeats itself) would have names come twice. With a
    seed the same ones come in the same order."""

    def __init__(self, seed: str | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - names need no secrecy

    def uid(self) -> str:
        """A uid, as a UUID of version 4."""
        digits = f"{self._random.getrandbits(128) & _FREE | _FIXED:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def below(self, limit: int) -> int:
        """A number of 0 … limit-1, for a free choice."""
        return self._random.randrange(limit)

    def suffix(self) -> str:
        """Five letters for a generated name."""
        return "".join(self._random.choices(_ALPHABET, k=5))
