"""Regular expressions with the syntax, the errors and the guarantees of RE2.

`compile_pattern` parses the RE2 dialect: it rejects the patterns that a real server rejects, with the same texts.
Matching never backtracks without bound. Patterns with few, flat repetitions run on Python's `re` while the text is
short enough to make the worst case harmless. Everything else runs on a simulation in linear time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from apiserver.cel.regex.machine import Machine, build
from apiserver.cel.regex.syntax import Assert, Chars, Join, Node, Repeat, parse

# Steps that Python's `re` may need in the worst case before the simulation is used instead.
_HARMLESS_STEPS: Final = 10_000_000
#: Most character ranges of a pattern that `re` compiles in a few ms; `\\p{L}` alone has 600.
_FEW_RANGES: Final = 400
#: Most steps of the simulation per pattern. RE2's limit is 3 million, far beyond real patterns.
_MOST_STEPS: Final = 20_000


class Pattern:
    """A compiled regular expression."""

    __slots__ = ("_longest", "_machine", "_regex", "_tree")

    def __init__(self, tree: Node) -> None:
        self._tree = tree
        self._machine: Machine | None = None
        self._regex: re.Pattern[str] | None = None
        self._longest = -1
        loops = _loops(tree)
        if loops is not None and _count_ranges(tree) <= _FEW_RANGES:
            self._longest = int(_HARMLESS_STEPS ** (1 / (loops + 1)))

    def contains_match(self, text: str) -> bool:
        """Return whether the pattern matches anywhere."""
        regex = self._quick(text)
        return self._simulation().contains_match(text) if regex is None else regex.search(text) is not None

    def _quick(self, text: str) -> re.Pattern[str] | None:
        """Return the pattern for Python's `re`, compiled on first use, or None for a text that is too long for it."""
        if len(text) > self._longest:
            return None
        if self._regex is None:
            self._regex = re.compile(_translate(self._tree), re.ASCII)
        return self._regex

    def find(self, text: str) -> str:
        """Return the leftmost match, "" if there is none."""
        found = self.find_all(text, 1)
        return found[0] if found else ""

    def find_all(self, text: str, limit: int) -> list[str]:
        """Return successive matches that do not overlap. A negative limit means all."""
        found: list[str] = []
        at, last_end = 0, -1
        while at <= len(text) and (limit < 0 or len(found) < limit):
            span = self._search(text, at)
            if span is None:
                break
            start, end = span
            if end > start or start != last_end:
                found.append(text[start:end])
            last_end = end
            at = end if end > start else end + 1
        return found

    def _search(self, text: str, at: int) -> tuple[int, int] | None:
        regex = self._quick(text)
        if regex is not None:
            match = regex.search(text, at)
            return match.span() if match else None
        return self._simulation().search(text, at)

    def _simulation(self) -> Machine:
        if self._machine is None:
            self._machine = build(self._tree)
        return self._machine


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern. Raise ValueError with the text `error parsing regexp: …`."""
    tree = parse(pattern)
    if _size(tree) > _MOST_STEPS:
        raise ValueError(f"error parsing regexp: expression too large: `{pattern}`")
    return Pattern(tree)


def _size(node: Node) -> int:
    """Return the length of a pattern with its repetitions written out."""
    match node:
        case Repeat(body, low, high):
            return max(1, max(low, high or 1) * (_size(body) + 1))
        case Join(parts):
            return sum(map(_size, parts)) + len(parts)
        case _:
            return 1


def _count_ranges(node: Node) -> int:
    match node:
        case Chars(ranges):
            return len(ranges)
        case Repeat(body):
            return _count_ranges(body)
        case Join(parts):
            return sum(map(_count_ranges, parts))
        case _:
            return 0


def _loops(node: Node) -> int | None:
    """Return the number of repetitions of single characters, or None if a repetition covers anything larger."""
    match node:
        case Repeat(body, low, high):
            if high == low == 1:
                return _loops(body)
            if isinstance(body, Chars):
                return 1 if high is None or high > low else 0
            if low == 0 and high == 1:
                inner = _loops(body)
                return None if inner is None else inner + 1
            return None
        case Join(parts):
            total = 0
            for part in parts:
                inner = _loops(part)
                if inner is None:
                    return None
                total += inner
            return total + (len(parts) - 1 if node.alternative else 0)
        case _:
            return 0


_ASSERTIONS: Final = {
    "begin_text": r"\A", "end_text": r"\Z", "begin_line": "(?m:^)", "end_line": r"(?=\n|\Z)", "word": r"\b",
    "not_word": r"(?!\b)",  # matches an empty text, too; Python's own \B does not before 3.14
}  # fmt: skip


def _translate(node: Node) -> str:
    match node:
        case Chars(ranges):
            return _char_class(ranges)
        case Assert(kind):
            return _ASSERTIONS[kind]
        case Repeat(body, low, high, greedy):
            inner = _translate(body)
            count = f"{{{low},{'' if high is None else high}}}"
            return f"(?:{inner}){count}{'' if greedy else '?'}"
        case Join(parts):
            inner = ("|" if node.alternative else "").join(map(_translate, parts))
            return f"(?:{inner})"
    raise AssertionError(node)


def _char_class(ranges: tuple[tuple[int, int], ...]) -> str:
    if not ranges:
        return "(?!)"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"
