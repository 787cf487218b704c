"""Character classes of regular expressions, as sorted ranges of code points.

Source of facts: the RE2 syntax page (Perl and POSIX classes), Unicode.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from functools import lru_cache
from itertools import groupby
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


def normalize(ranges: list[Range]) -> tuple[Range, ...]:
    """Return the ranges sorted and merged."""
    joined: list[Range] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return tuple(joined)


def negate(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """Return the code points outside of sorted, disjoint ranges."""
    result: list[Range] = []
    following = 0
    for low, high in ranges:
        if low > following:
            result.append((following, low - 1))
        following = high + 1
    if following <= LAST:
        result.append((following, LAST))
    return tuple(result)


#: Letters beyond U+1FFF that are another case of an earlier one: ohm, kelvin, angstrom. Patterns name no others.
_LETTERLIKE: Final = (0x2126, 0x212A, 0x212B)


@lru_cache(maxsize=1)
def _other_cases() -> list[tuple[int, tuple[int, ...]]]:
    """Return every character with other cases, and those cases, in order."""
    groups: dict[str, list[int]] = {}
    for code in (*range(0x2000), *_LETTERLIKE):
        groups.setdefault(_case_key(chr(code)), []).append(code)
    return sorted(
        (code, tuple(other for other in group if other != code))
        for group in groups.values()
        if len(group) > 1
        for code in group
    )


def _case_key(char: str) -> str:
    """Return the letter that represents all cases of a character."""
    lower = char.lower()
    if len(lower) > 1 or char == "\u0131":  # dotted capital I and dotless small i have no other case
        return char
    upper = lower.upper()
    return upper.lower() if len(upper) == 1 else lower


@lru_cache(maxsize=256)
def fold_case(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """Return the ranges with the other cases of every letter."""
    extended, cased = list(ranges), _other_cases()
    for low, high in ranges:
        for code, others in cased[bisect_left(cased, (low,)) : bisect_left(cased, (high + 1,))]:
            assert low <= code <= high
            extended.extend((other, other) for other in others)
    return normalize(extended)


def unicode_class(name: str) -> tuple[Range, ...] | None:
    """Return the characters of a general category or of a script, or None for an unknown name."""
    if len(name) <= 2:
        return _category(name)
    return _scripts().get(name.upper())


#: Beyond this only tags and private use are assigned, in fixed ranges.
_PLANES: Final = 0x40000
_FAR: Final = (("Cn", _PLANES, 0xDFFFF), ("Cn", 0xE1000, 0xEFFFF), ("Co", 0xF0000, 0xFFFFD), ("Cn", 0xFFFFE, 0xFFFFF))
_LAST_PLANE: Final = (("Co", 0x100000, 0x10FFFD), ("Cn", 0x10FFFE, LAST))
#: Ranges in which all names have the script of the first character.
_UNIFORM: Final = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x17000, 0x18CFF), (0x20000, _PLANES))


@lru_cache(maxsize=1)
def _categories() -> dict[str, list[Range]]:
    """Return the ranges of every general category. One pass takes some 10 ms."""
    found: dict[str, list[Range]] = {}
    for start, stop in ((0, _PLANES), (0xE0000, 0xE1000)):
        at = start
        for category, run in groupby(map(unicodedata.category, map(chr, range(start, stop)))):
            size = len(list(run))
            found.setdefault(category, []).append((at, at + size - 1))
            at += size
    for category, low, high in (*_FAR, *_LAST_PLANE):
        found.setdefault(category, []).append((low, high))
    return found


@lru_cache(maxsize=64)
def _category(name: str) -> tuple[Range, ...] | None:
    found = [each for category, ranges in _categories().items() if category.startswith(name) for each in ranges]
    return normalize(found) or None


@lru_cache(maxsize=1)
def _scripts() -> dict[str, tuple[Range, ...]]:
    """Return the ranges of every script that begins below U+2000: the characters whose names begin with it."""
    found: dict[str, list[Range]] = {}
    at = 0
    for low, high in (*_UNIFORM, (_PLANES, LAST)):
        for code in range(at, low):
            script, blank, _ = unicodedata.name(chr(code), "").partition(" ")
            if not blank:
                continue
            if script in found or code < 0x2000:
                found.setdefault(script, []).append((code, code))
        if low < 0x17000:
            script = unicodedata.name(chr(low), "").partition(" ")[0]
            if script in found:
                found[script].append((low, high))
        at = high + 1
    return {script: normalize(ranges) for script, ranges in found.items()}
