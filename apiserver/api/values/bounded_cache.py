"""A cache of results by the text they were computed from, bounded in memory.

`lru_cache` bounds the number of results, not their size: a few thousand rejected labels of 3 MiB each would fill the
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, ParamSpec, TypeVar

__all__ = ["remembered"]

P = ParamSpec("P")
T = TypeVar("T")

#: Most characters of all cached texts of one function.
CHARACTERS: Final = 1 << 20


def remembered(most: int, characters: int = CHARACTERS) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function whose first argument is a text or bytes with a bounded cache.

    The cache keeps at most `most` results, from at most `characters` characters in total. Beyond that it drops all
    results. A hit costs no more than with lru_cache.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        held = 0

        def made(*args: P.args, **kwargs: P.kwargs) -> T:
            nonlocal held
            held += len(args[0])  # type: ignore[arg-type]
            if held > characters:
                held = len(args[0])  # type: ignore[arg-type]
                kept.cache_clear()
            return function(*args, **kwargs)

        kept = lru_cache(maxsize=most)(made)
        return kept  # type: ignore[return-value]

    return decorate
