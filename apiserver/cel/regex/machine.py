"""Linear-time simulation of regular expressions: a program whose alternatives are all followed in parallel.

`contains_match` caches the transitions of sets of program positions, so most characters cost one lookup. `search`
follows prioritised threads and finds the leftmost match that a backtracking search would prefer.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from apiserver.cel.language.time_limit import check_time
from apiserver.cel.regex.classes import LAST
from apiserver.cel.regex.syntax import Assert, Chars, Join, Node, Repeat

_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
#: The cache limit of one program's states, in positions; the share of a state and of a transition.
_ROOM: Final = 100_000
_STATE: Final = 30
_TRANSITION: Final = 10
#: Characters of a search between two deadline checks.
_OFTEN: Final = 256

# An instruction: character ranges with the next position, an assertion, a fork, or the end of a match.
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


class _State(dict[str, "_State | None"]):
    """The active positions before a character, and the kind of the preceding character.

    As a dict it maps seen characters to the next state. None means a match before that character.
    """

    __slots__ = ("before", "positions")

    def __init__(self, positions: tuple[int, ...], before: str) -> None:
        super().__init__()
        self.positions, self.before = positions, before


class Machine:
    """A program and its cached states: an automaton built lazily."""

    __slots__ = ("_has_assertions", "_program", "_room", "_states")

    def __init__(self, program: list[_Instruction]) -> None:
        self._program = program
        self._has_assertions = any(kind == "assert" for kind, _, _ in program)
        self._states: dict[tuple[tuple[int, ...], str], _State] = {}
        self._room = _ROOM

    def contains_match(self, text: str, at: int = 0) -> bool:
        """Return whether the program matches anywhere in the text, at or after an offset."""
        state = self._state((0,), self._before(text, at))
        missing = object()
        for char in text[at:] if at else text:
            following = state.get(char, missing)
            if following is missing:
                following = self._follow(state, char)
            if following is None:
                return True
            state = following  # type: ignore[assignment]
        return self._matches(self._closure(state.positions, state.before, len(state.before)))

    def _before(self, text: str, at: int) -> str:
        return _kind(text[at - 1]) if at and self._has_assertions else ""

    def _state(self, positions: tuple[int, ...], before: str) -> _State:
        """Return the unique state for a set of positions."""
        known = self._states.get((positions, before))
        if known is None:
            self._room -= len(positions) + _STATE
            known = self._states[positions, before] = _State(positions, before)
        return known

    def _follow(self, state: _State, char: str) -> _State | None:
        """Return the next state for a character that is new in a state."""
        check_time()
        if self._room < 0:
            # Drop the whole cache, including this state, which may be the largest.
            self._states.clear()
            state.clear()
            self._room = _ROOM
        current = self._closure(state.positions, state.before + char, len(state.before))
        following = None
        if not self._matches(current):
            moved = tuple(dict.fromkeys((*self._step(current, char), 0)))
            following = self._state(moved, _kind(char) if self._has_assertions else "")
        self._room -= _TRANSITION
        state[char] = following
        return following

    def _matches(self, positions: tuple[int, ...]) -> bool:
        return len(self._program) - 1 in positions

    def search(self, text: str, at: int) -> tuple[int, int] | None:
        """Return start and end of the preferred leftmost match at or after an offset."""
        if not self.contains_match(text, at):
            return None
        match_at = len(self._program) - 1
        threads: list[tuple[int, int]] = []
        best: tuple[int, int] | None = None
        for index in range(at, len(text) + 1):
            if not index % _OFTEN:
                check_time()
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
        """Return the consuming positions reachable without reading a character, in order of preference."""
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
    # The ranges are sorted: the last range that begins at or before the character.
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


def _kind(char: str) -> str:
    """Return a representative of all characters that assertions do not distinguish."""
    return char if char == "\n" else "a" if char in _WORD else " "
