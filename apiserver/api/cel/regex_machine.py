"""Linear-time simulation of regular expressions: a program of alternatives that are followed all at once.

`found_in` caches sets of program positions per character, so most characters cost one look-up. `search` follows
prioritised threads and finds the leftmost match that a backtracking search would prefer.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from apiserver.api.cel.regex_classes import LAST
from apiserver.api.cel.regex_syntax import Assert, Chars, Join, Node, Repeat

_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CACHE_LIMIT: Final = 20_000

# An instruction: ranges of characters and where to go on, an assertion, two ways, or the end of a match.
_Ranges = tuple[tuple[int, int], ...]
_Instruction = tuple[str, "_Ranges | str | int", int]


def build(tree: Node) -> Machine:
    """Compile a tree to a machine."""
    program: list[_Instruction] = []
    _emit(tree, program)
    program.append(("match", 0, 0))
    return Machine(program)


def _emit(node: Node, program: list[_Instruction]) -> None:
    match node:
        case Chars(ranges):
            program.append(("chars", ranges, len(program) + 1))
        case Assert(kind):
            program.append(("assert", kind, len(program) + 1))
        case Join(parts):
            if node.alternative:
                _emit_alternatives(parts, program)
            else:
                for part in parts:
                    _emit(part, program)
        case Repeat(body, low, high, greedy):
            for _ in range(low):
                _emit(body, program)
            if high is None:
                _emit_loop(body, greedy, program)
            else:
                _emit_optional(body, high - low, greedy, program)


def _split(at: int, body: int, after: int, greedy: bool, program: list[_Instruction]) -> None:
    first, second = (body, after) if greedy else (after, body)
    program[at] = ("split", first, second)


def _emit_alternatives(parts: tuple[Node, ...], program: list[_Instruction]) -> None:
    jumps = []
    for part in parts[:-1]:
        at = len(program)
        program.append(("split", 0, 0))
        _emit(part, program)
        jumps.append(len(program))
        program.append(("split", 0, 0))
        program[at] = ("split", at + 1, len(program))
    _emit(parts[-1], program)
    for jump in jumps:
        program[jump] = ("split", len(program), len(program))


def _emit_loop(body: Node, greedy: bool, program: list[_Instruction]) -> None:
    at = len(program)
    program.append(("split", 0, 0))
    _emit(body, program)
    program.append(("split", at, at))
    _split(at, at + 1, len(program), greedy, program)


def _emit_optional(body: Node, times: int, greedy: bool, program: list[_Instruction]) -> None:
    splits = []
    for _ in range(times):
        splits.append(len(program))
        program.append(("split", 0, 0))
        _emit(body, program)
    for at in splits:
        _split(at, at + 1, len(program), greedy, program)


class Machine:
    """A program and the cache of where its sets of positions lead."""

    __slots__ = ("_cache", "_has_assertions", "_program")

    def __init__(self, program: list[_Instruction]) -> None:
        self._program = program
        self._has_assertions = any(kind == "assert" for kind, _, _ in program)
        self._cache: dict[tuple[tuple[int, ...], str], tuple[int, ...]] = {}

    def found_in(self, text: str) -> bool:
        """Whether the program matches anywhere in the text."""
        if self._has_assertions:
            return self.search(text, 0) is not None
        match_at = len(self._program) - 1
        start = self._closure((0,), text, 0)
        current = start
        cache = self._cache
        for char in text:
            if match_at in current:
                return True
            following = cache.get((current, char))
            if following is None:
                moved = tuple(dict.fromkeys((*self._step(current, char), 0)))
                following = self._closure(moved, text, 0)
                if len(cache) < _CACHE_LIMIT:
                    cache[current, char] = following
            current = following
        return match_at in current

    def search(self, text: str, at: int) -> tuple[int, int] | None:
        """Start and end of the preferred leftmost match at or after an offset."""
        match_at = len(self._program) - 1
        threads: list[tuple[int, int]] = []
        best: tuple[int, int] | None = None
        for index in range(at, len(text) + 1):
            if best is None:
                threads.append((0, index))
            expanded = self._expand(threads, text, index)
            threads = []
            for position, start in expanded:
                if position == match_at:
                    best = (start, index)
                    break
                kind, ranges, target = self._program[position]
                if index < len(text) and kind == "chars" and _within(ranges, text[index]):
                    threads.append((target, start))
            if not threads and best is not None:
                break
        return best

    def _expand(self, threads: list[tuple[int, int]], text: str, index: int) -> list[tuple[int, int]]:
        seen: set[int] = set()
        expanded: list[tuple[int, int]] = []
        for position, start in threads:
            expanded.extend((reached, start) for reached in self._closure((position,), text, index, seen))
        return expanded

    def _closure(
        self, positions: tuple[int, ...], text: str, index: int, seen: set[int] | None = None
    ) -> tuple[int, ...]:
        """The consuming positions reachable without reading, in order of preference."""
        seen = set() if seen is None else seen
        reached: list[int] = []
        pending = list(reversed(positions))
        while pending:
            position = pending.pop()
            if position in seen:
                continue
            seen.add(position)
            kind, first, second = self._program[position]
            if kind == "split":
                pending.append(second)
                pending.append(first)  # type: ignore[arg-type]
            elif kind == "assert":
                if _holds(str(first), text, index):
                    pending.append(second)
            else:
                reached.append(position)
        return tuple(reached)

    def _step(self, positions: tuple[int, ...], char: str) -> list[int]:
        moved = []
        for position in positions:
            kind, ranges, target = self._program[position]
            if kind == "chars" and _within(ranges, char):
                moved.append(target)
        return moved


def _within(ranges: object, char: str) -> bool:
    assert isinstance(ranges, tuple)
    code = ord(char)
    # The ranges are sorted: the last one that begins at or before the character.
    at = bisect_right(ranges, (code, LAST)) - 1
    return at >= 0 and bool(code <= ranges[at][1])


def _holds(kind: str, text: str, index: int) -> bool:
    match kind:
        case "begin_text":
            return index == 0
        case "end_text":
            return index == len(text)
        case "begin_line":
            return index == 0 or text[index - 1] == "\n"
        case "end_line":
            return index == len(text) or text[index] == "\n"
    before = index > 0 and text[index - 1] in _WORD
    after = index < len(text) and text[index] in _WORD
    return (before != after) == (kind == "word")
