"""Character classes of regular expressions, as sorted ranges of code points.

Source of facts: the RE2 syntax page (Perl and POSIX classes), Unicode.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

LAST: Final = 0x10FFFF

Range = tuple[int, int]

PERL: Final[dict[str, tuple[Range, ...]]] = {
    "d": ((0x30, 0x39),),
    "s": ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
}
POSIX: Final[dict[str, tuple[Range, ...]]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": ((0x30, 0x39),),
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": PERL["w"],
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}


def normalized(ranges: list[Range]) -> tuple[Range, ...]:
    """Sorted, joined ranges."""
    joined: list[Range] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return tuple(joined)


def negated(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    result: list[Range] = []
    following = 0
    for low, high in ranges:
        if low > following:
            result.append((following, low - 1))
        following = high + 1
    if following <= LAST:
        result.append((following, LAST))
    return tuple(result)


def folded(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """The ranges with the other case of every letter."""
    extended = list(ranges)
    for low, high in ranges:
        for code in range(low, min(high, 0x1FFF) + 1):
            char = chr(code)
            others = {char.lower(), char.upper()} - {char}
            extended.extend((ord(other), ord(other)) for other in others if len(other) == 1)
            if char in "kKsS":
                extended.append((0x212A, 0x212A) if char in "kK" else (0x17F, 0x17F))
    return normalized(extended)


@lru_cache(maxsize=64)
def unicode_class(name: str) -> tuple[Range, ...] | None:
    """The characters of a general category or of a script that Unicode names spell out."""
    found: list[Range] = []
    prefix = name.upper() + " "
    if len(name) > 2 and not any(unicodedata.name(chr(code), "").startswith(prefix) for code in range(0x2000)):
        return None
    for code in range(LAST + 1):
        char = chr(code)
        inside = (
            unicodedata.category(char).startswith(name)
            if len(name) <= 2
            else unicodedata.name(char, "").startswith(prefix)
        )
        if inside:
            found.append((code, code))
    return normalized(found) or None
