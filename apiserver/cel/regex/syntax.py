"""Parser of the RE2 dialect of regular expressions.

The tree has four kinds of nodes. Groups have no node, because nothing here needs submatches. Letter case (`(?i)`) is
resolved into character ranges.

Source of facts: the RE2 syntax page; error texts as Go's regexp package words them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apiserver.cel.regex.classes import LAST, PERL, POSIX, Range, fold_case, negate, normalize, unicode_class

_MAX_REPEAT: Final = 1000
_MAX_DEPTH: Final = 1000


class Node:
    """Any part of a pattern."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Chars(Node):
    """One character out of ranges."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Assert(Node):
    """A condition on the position."""

    kind: str


@dataclass(frozen=True, slots=True)
class Join(Node):
    """Parts in sequence, or alternatives."""

    parts: tuple[Node, ...]
    alternative: bool = False


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """A part repeated `low` to `high` times (None: without end)."""

    body: Node
    low: int
    high: int | None
    greedy: bool = True


_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def parse(pattern: str) -> Node:
    """Parse a pattern. Raise ValueError with the text `error parsing regexp: …`."""
    return _Parser(pattern).parse()


@dataclass(slots=True)
class _Flags:
    fold: bool = False
    multi: bool = False
    dot_all: bool = False
    ungreedy: bool = False

    def copy(self) -> _Flags:
        return _Flags(self.fold, self.multi, self.dot_all, self.ungreedy)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.flags = _Flags()

    def _error(self, code: str, part: str) -> ValueError:
        return ValueError(f"error parsing regexp: {code}: `{part}`")

    def parse(self) -> Node:
        node = self._alternatives(0)
        if self.at < len(self.text):
            raise self._error("unexpected )", self.text)
        return node

    def _alternatives(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self._error("expression nests too deeply", self.text)
        options = [self._sequence(depth)]
        while self.at < len(self.text) and self.text[self.at] == "|":
            self.at += 1
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Join(tuple(options), alternative=True)

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        last_repeat = -1
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            start = self.at
            char = self.text[start]
            bounds = self._repeat_bounds(char)
            if bounds is not None:
                last_repeat = self._repeat(parts, start, last_repeat, bounds)
                continue
            last_repeat = -1
            if self.text.startswith("\\Q", start):
                # Each of its characters is a part of its own, because a following repetition applies to the last one.
                parts.extend(self._quoted())
                continue
            node = self._atom(char, depth)
            if node is not None:
                parts.append(node)
        return parts[0] if len(parts) == 1 else Join(tuple(parts))

    def _repeat_bounds(self, char: str) -> tuple[int, int | None] | None:
        """Read a repetition operator at the current position. Return its counts, or None if there is none."""
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if char in simple:
            self.at += 1
            return simple[char]
        if char != "{":
            return None
        close = self.text.find("}", self.at)
        inside = self.text[self.at + 1 : close] if close > 0 else ""
        low_text, comma, high_text = inside.partition(",")
        if not _is_count(low_text) or (high_text and not _is_count(high_text)):
            return None
        low = min(int(low_text[:6]), _MAX_REPEAT + 1)
        high = low if not comma else (min(int(high_text[:6]), _MAX_REPEAT + 1) if high_text else None)
        part = self.text[self.at : close + 1]
        if low > _MAX_REPEAT or (high is not None and (high > _MAX_REPEAT or high < low)):
            raise self._error("invalid repeat count", part)
        self.at = close + 1
        return low, high

    def _repeat(self, parts: list[Node], start: int, last: int, bounds: tuple[int, int | None]) -> int:
        """Apply a repetition to the last part. Return the start of its operator."""
        greedy = not self.flags.ungreedy
        if self.text[self.at : self.at + 1] == "?":
            self.at += 1
            greedy = not greedy
        if not parts:
            raise self._error("missing argument to repetition operator", self.text[start : self.at])
        if last >= 0:
            raise self._error("invalid nested repetition operator", self.text[last : self.at])
        body = parts.pop()
        low, high = bounds
        if (
            self.text[start] == "{"
            and (low >= 2 or (high or 0) >= 2)
            and not _repeat_fits(body, _MAX_REPEAT // (high or low))
        ):
            raise self._error("invalid repeat count", self.text[start : self.at])
        parts.append(Repeat(body, low, high, greedy))
        return start

    def _atom(self, char: str, depth: int) -> Node | None:
        if char == "(":
            return self._group(depth)
        if char == "[":
            return Chars(self._class())
        if char == "\\":
            return self._escape()
        self.at += 1
        match char:
            case ".":
                return Chars(((0, LAST),) if self.flags.dot_all else ((0, 9), (11, LAST)))
            case "^":
                return Assert("begin_line" if self.flags.multi else "begin_text")
            case "$":
                return Assert("end_line" if self.flags.multi else "end_text")
        return self._char(ord(char))

    def _quoted(self) -> list[Node]:
        quoted, end, _ = self.text[self.at + 2 :].partition("\\E")
        self.at += 2 + len(quoted) + len(end)
        return [self._char(ord(char)) for char in quoted]

    def _char(self, code: int) -> Node:
        ranges = ((code, code),)
        return Chars(fold_case(ranges) if self.flags.fold else ranges)

    def _group(self, depth: int) -> Node | None:
        saved = self.flags.copy()
        if self.text.startswith("(?", self.at):
            if self._flags_or_name():
                return None
        else:
            self.at += 1
        node = self._alternatives(depth + 1)
        if self.at >= len(self.text):
            raise self._error("missing closing )", self.text)
        self.at += 1
        self.flags = saved
        return node

    def _flags_or_name(self) -> bool:
        """Read `(?…`. Return True if it is a setting without a group."""
        rest = self.text[self.at :]
        for opening in ("(?P<", "(?<"):
            if rest.startswith(opening):
                self._name(rest, opening)
                return False
        flags = self.flags.copy()
        value = True
        used = False
        for index, char in enumerate(rest[2:], start=2):
            if char in "imsU":
                setattr(flags, {"i": "fold", "m": "multi", "s": "dot_all", "U": "ungreedy"}[char], value)
                used = True
            elif char == "-" and value:
                value, used = False, False
            elif char in ":)" and (used or value):
                self.at += index + 1
                self.flags = flags
                return char == ")"
            else:
                raise self._error("invalid or unsupported Perl syntax", rest[: index + 1])
        raise self._error("invalid or unsupported Perl syntax", rest)

    def _name(self, rest: str, opening: str) -> None:
        end = rest.find(">")
        if end < 0:
            raise self._error("invalid named capture", rest)
        name = rest[len(opening) : end]
        if not name or not all(char == "_" or (char.isascii() and char.isalnum()) for char in name):
            raise self._error("invalid named capture", rest[: end + 1])
        self.at += end + 1

    def _escape(self) -> Node:
        rest = self.text[self.at + 1 :]
        if not rest:
            raise ValueError("error parsing regexp: trailing backslash at end of expression: ``")
        kinds = {"A": "begin_text", "z": "end_text", "b": "word", "B": "not_word"}
        if rest[0] in kinds:
            self.at += 2
            return Assert(kinds[rest[0]])
        ranges = self._class_escape()
        if ranges is not None:
            return Chars(ranges)
        return self._char(self._escaped_char())

    def _class_escape(self) -> tuple[Range, ...] | None:
        r"""Read `\d`, `\W`, `\pL`, `\P{Greek}`."""
        char = self.text[self.at + 1]
        if char.lower() in PERL:
            self.at += 2
            ranges = PERL[char.lower()]
            ranges = fold_case(ranges) if self.flags.fold else ranges
            return negate(ranges) if char.isupper() else ranges
        if char not in "pP":
            return None
        start = self.at
        end = start + 3
        name = self.text[start + 2 : end]
        if name == "{":
            close = self.text.find("}", start)
            if close < 0:
                raise self._error("invalid character class range", self.text[start:])
            name, end = self.text[start + 3 : close], close + 1
        negative = char == "P"
        if name.startswith("^"):
            name, negative = name[1:], not negative
        ranges_found = ((0, LAST),) if name == "Any" else unicode_class(name) if name else None
        if ranges_found is None:
            raise self._error("invalid character class range", self.text[start:end])
        self.at = end
        ranges = fold_case(ranges_found) if self.flags.fold else ranges_found
        return negate(ranges) if negative else ranges

    def _escaped_char(self) -> int:
        start = self.at
        text = self.text
        if start + 1 >= len(text):
            raise ValueError("error parsing regexp: trailing backslash at end of expression: ``")
        char = text[start + 1]
        self.at += 2
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in _PUNCTUATION:
            return ord(char)
        if char in "01234567":
            if char == "0" or text[self.at : self.at + 1] in tuple("01234567"):
                digits = char
                while len(digits) < 3 and text[self.at : self.at + 1] in tuple("01234567"):
                    digits += text[self.at]
                    self.at += 1
                return int(digits, 8)
        elif char == "x":
            return self._hexadecimal(start)
        raise self._error("invalid escape sequence", text[start : self.at])

    def _hexadecimal(self, start: int) -> int:
        text = self.text
        braced = text[self.at : self.at + 1] == "{"
        end = text.find("}", self.at) if braced else self.at + 2
        digits = text[self.at + 1 : end] if braced else text[self.at : end]
        valid = bool(digits) and len(digits) <= 8 and all(digit in "0123456789abcdefABCDEF" for digit in digits)
        if not valid or (not braced and len(digits) != 2) or int(digits, 16) > LAST:
            raise self._error("invalid escape sequence", text[start : max(self.at, min(end, len(text)))])
        self.at = end + 1 if braced else end
        return int(digits, 16)

    def _class(self) -> tuple[Range, ...]:
        start = self.at
        text = self.text
        self.at += 1
        negative = text[self.at : self.at + 1] == "^"
        self.at += negative
        parts: dict[int, tuple[Range, ...]] = {}  # classes are shared, so a repeated one counts once
        plain: list[Range] = []
        first = True
        while first or text[self.at : self.at + 1] != "]":
            if self.at >= len(text):
                raise self._error("missing closing ]", text[start:])
            first = False
            part = self._class_item(start, plain)
            parts[id(part)] = part
        self.at += 1
        if plain:
            simple = normalize(plain)
            parts[id(simple)] = fold_case(simple) if self.flags.fold else simple
        result = normalize([each for part in parts.values() for each in part])
        return negate(result) if negative else result

    def _class_item(self, start: int, plain: list[Range]) -> tuple[Range, ...]:
        """Read a class inside a class. Add a character range to `plain`, whose ranges are folded together."""
        text = self.text
        if text.startswith("[:", self.at):
            close = text.find(":]", self.at + 2)
            if close > 0:
                name = text[self.at + 2 : close]
                part = text[self.at : close + 2]
                found = POSIX.get(name.removeprefix("^"))
                if found is None:
                    raise self._error("invalid character class range", part)
                self.at = close + 2
                found = fold_case(found) if self.flags.fold else found
                return negate(found) if name.startswith("^") else found
        if text[self.at] == "\\" and self.at + 1 < len(text):
            escaped = self._class_escape()
            if escaped is not None:
                return escaped
        begin = self.at
        low = high = self._class_char(start)
        if text[self.at : self.at + 1] == "-" and text[self.at + 1 : self.at + 2] not in ("]", ""):
            self.at += 1
            high = self._class_char(start)
            if high < low:
                raise self._error("invalid character class range", text[begin : self.at])
        plain.append((low, high))
        return ()

    def _class_char(self, start: int) -> int:
        if self.at >= len(self.text):
            raise self._error("missing closing ]", self.text[start:])
        if self.text[self.at] == "\\":
            return self._escaped_char()
        self.at += 1
        return ord(self.text[self.at - 1])


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _repeat_fits(node: Node, room: int) -> bool:
    """Return whether the product of nested repetitions is within the limit."""
    if isinstance(node, Repeat):
        times = node.high if node.high is not None else node.low
        if times == 0:
            return True
        if times > room:
            return False
        return _repeat_fits(node.body, room // times)
    if isinstance(node, Join):
        return all(_repeat_fits(part, room) for part in node.parts)
    return True
