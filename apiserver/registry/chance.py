"""What a server leaves to chance: uids, and the ends of generated names."""

from __future__ import annotations

import random
import uuid
from typing import Final

__all__ = ["Chance"]

#: Letters of generated names: no vowels, nothing that looks like another. Source: apimachinery, util/rand.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


class Chance:
    """Its own generator: whoever seeds the shared one (a test that repeats itself) would have names come twice. With a
    seed the same ones come in the same order."""

    def __init__(self, seed: str | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - names need no secrecy

    def uid(self) -> str:
        """A uid, as a UUID of version 4."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def below(self, limit: int) -> int:
        """A number of 0 … limit-1, for a free choice."""
        return self._random.randrange(limit)

    def suffix(self) -> str:
        """Five letters for a generated name."""
        return "".join(self._random.choices(_ALPHABET, k=5))
