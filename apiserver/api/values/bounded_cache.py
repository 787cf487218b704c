"""Results that are remembered by the text that they were made of, in memory that has a bound.

`lru_cache` bounds how many results are kept and not how large they are: a few thousand labels of three megabytes, each
refused, would fill a machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, ParamSpec, TypeVar

__all__ = ["remembered"]

P = ParamSpec("P")
T = TypeVar("T")

#: Characters of all texts that one function remembers.
CHARACTERS: Final = 1 << 20


def remembered(most: int, characters: int = CHARACTERS) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a function whose first argument is a text or bytes: at most so many results are kept, made of so many
    characters in all; beyond that all are dropped. What is remembered costs no more than with lru_cache.
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
