"""Values that are nested deep: accepted as deep as upstream accepts them, and never a danger to whoever walks them.

Upstream's decoder reads 10 000 levels. Python's own recursion, orjson (254 levels written, 1024 read) and libraries end
long before. So no value in memory is nested deeper than what orjson writes: of a deeper one, what lies below
`LEVELS` is *folded*, kept as the JSON that it was written in, which nobody needs to look into but a patch. Only
parts without a schema can be that deep, above all the parameters of drivers.

    loads, dumps        JSON that may be deep, from and to bytes
    Cut                 a deep text as a shallow one with names in place of its deep parts, for parsers of their own
    fold, unfold        a value of any depth as one with folded parts, and back
    rebuilt             a changed copy of a value of any depth, made without recursion

A stored object with folded parts ends with a tab (`MARK`), which no other does: readers find out without looking.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from secrets import token_hex
from typing import Any, Final

import orjson

__all__ = [
    "LEVELS",
    "MARK",
    "MAX_DEPTH",
    "Cut",
    "Folded",
    "TooDeep",
    "bounded",
    "copied",
    "dumps",
    "dumps_folded",
    "fold",
    "folded",
    "loads",
    "loads_stored",
    "may_be_deep",
    "rebuilt",
]

#: Levels that upstream's decoders read: encoding/json, sigs.k8s.io/json (maxNestingDepth).
MAX_DEPTH: Final = 10_000
#: Levels that stay dicts and lists in a value that has folded parts.
LEVELS: Final = 200
#: What a stored object with folded parts ends with.
MARK: Final = b"\t"
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)
_BLANKS: Final = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', re.DOTALL)
_QUOTE: Final = ord('"')
_OPENING: Final = frozenset(b"{[")
#: Escaped halves of a pair: whole pairs and escaped backslashes are passed over, a half alone is replaced, as in Go.
_HALVES: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class TooDeep(ValueError):
    """Nested deeper than upstream reads. `bracket` is the one that is too many."""

    def __init__(self, bracket: str) -> None:
        super().__init__(f"invalid character '{bracket}' exceeded max depth")


class Folded:
    """A dict or list as compact JSON. Two are equal that are written alike."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text

    def unfold(self) -> Any:
        """The value itself, which may be nested deeper than anything but `fold`, `dumps` and `rebuilt` can take."""
        return unfold(self.text)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Folded):
            return self.text == other.text
        return isinstance(other, dict | list) and self.text == dumps(other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __deepcopy__(self, _memo: object) -> Folded:
        return self

    def __repr__(self) -> str:
        return f"Folded({self.text[:40]!r}…)"


def may_be_deep(text: bytes) -> bool:
    """Whether a text has brackets enough for folded parts."""
    return len(text) > LEVELS and text.count(b"{") + text.count(b"[") > LEVELS


class Cut:
    """A deep text in which names, strings that occur nowhere else in it, stand for what lies below `LEVELS`. `text` can
    be parsed by whatever parses JSON; `restored` puts the deep parts into what came of it.

    Each deep part is cut in turn wherever it gets too deep for a parser, so that all of it can be parsed (`check`,
    `value`). Raises TooDeep where there are more than `most` levels, and ValueError where brackets do not match.
    """

    __slots__ = ("_chunks", "_parts", "_prefix", "text")

    def __init__(self, source: bytes, most: float = math.inf) -> None:
        prefix = token_hex(8)
        while prefix.encode() in source:
            prefix = token_hex(8)
        self._prefix = prefix
        #: What stands for names: the texts of all chunks, inner ones first, and the whole of those in `text`.
        self._chunks: list[bytes] = []
        self._parts: dict[int, bytes] = {}
        self.text = self._cut(source, most)

    def _cut(self, source: bytes, most: float) -> bytes:
        chunks = self._chunks
        pieces: list[list[bytes]] = [[]]
        starts: list[int] = []
        depth = last = 0
        for token in _TOKEN.finditer(source):
            at = token.start()
            char = source[at]
            if char == _QUOTE:
                continue
            if char in _OPENING:
                depth += 1
                if depth > most:
                    raise TooDeep(chr(char))
                if depth % LEVELS == 1 and depth > 1:
                    pieces[-1].append(source[last:at])
                    pieces.append([])
                    starts.append(at)
                    last = at
                continue
            if depth % LEVELS == 1 and depth > 1:
                pieces[-1].append(source[last : at + 1])
                start, last = starts.pop(), at + 1
                if not starts:
                    self._parts[len(chunks)] = source[start:last]
                chunk = b"".join(pieces.pop())
                pieces[-1].append(b'"%b%d"' % (self._prefix.encode(), len(chunks)))
                chunks.append(chunk)
            depth -= 1
            if depth < 0:
                break
        if depth:
            raise ValueError("brackets that do not match")
        pieces[-1].append(source[last:])
        return b"".join(pieces[-1])

    @property
    def is_deep(self) -> bool:
        """Whether anything was cut off."""
        return bool(self._parts)

    def check(self) -> None:
        """Raises orjson.JSONDecodeError where a deep part is no JSON."""
        for chunk in self._chunks:
            orjson.loads(chunk)

    def restored(self, value: Any) -> Any:
        """A value that was made of `text`, with its deep parts folded. In place."""
        return self._named(value, {number: Folded(_compact(part)) for number, part in self._parts.items()})

    def written(self, text: bytes) -> bytes:
        """A piece of `text` as it stands in the source."""
        return re.sub(b'"%b([0-9]+)"' % self._prefix.encode(), lambda found: self._parts[int(found[1])], text)

    def value(self) -> Any:
        """The whole value, nested as deep as it is."""
        made: dict[int, Any] = {}
        for number, chunk in enumerate(self._chunks):
            made[number] = self._named(orjson.loads(chunk), made)
        return self._named(orjson.loads(self.text), made)

    def _named(self, value: Any, parts: Mapping[int, Any]) -> Any:
        """A value with parts in place of their names."""
        prefix, size = self._prefix, len(self._prefix)
        holder = [value]
        todo: list[Any] = [holder]
        while todo:
            node = todo.pop()
            for key, item in node.items() if isinstance(node, dict) else enumerate(node):
                if type(item) is str:
                    if item.startswith(prefix):
                        node[key] = parts[int(item[size:])]
                elif isinstance(item, dict | list):
                    todo.append(item)
        return holder[0]


def _compact(part: bytes) -> bytes:
    """A part as it is kept: without blanks, and readable for orjson as well."""
    if b" " in part or b"\n" in part or b"\t" in part or b"\r" in part:
        part = _BLANKS.sub(lambda found: found[1] or b"", part)
    if not part.isascii():
        part = part.decode("utf-8", "replace").encode()
    if b"\\u" in part:
        part = _HALVES.sub(lambda found: b"\\ufffd" if found[1] else found[0], part)
    return part


def loads(text: bytes) -> Any:
    """The value of JSON, for clients: with folded parts if it is deeper than the parser goes. Raises
    orjson.JSONDecodeError.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if not may_be_deep(text):
            raise
    return folded(text)


def folded(text: bytes) -> Any:
    """As `loads`, of a text that is known to be deep, and JSON."""
    try:
        cut = Cut(text)
    except ValueError:  # brackets that do not match
        return orjson.loads(text)
    return cut.restored(orjson.loads(cut.text))


def loads_stored(text: bytes) -> Any:
    """The value of a stored object."""
    return folded(text) if text[-1:] == MARK else orjson.loads(text)


def unfold(text: bytes) -> Any:
    """The value of JSON, nested as deep as it is."""
    return Cut(text).value() if may_be_deep(text) else orjson.loads(text)


def dumps(value: Any, option: int = 0) -> bytes:
    """A value of any depth as JSON; what is folded is written as it was, not indented. Raises TypeError."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        return dumps_folded(fold(value), option)


def _no_default(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not JSON")


def dumps_folded(value: Any, option: int = 0, default: Callable[[Any], Any] = _no_default) -> bytes:
    """A value with folded parts as JSON. `default` makes something of what else is no JSON.

    While orjson writes, names stand for the parts: a Fragment below some sixty brackets makes it write the brackets
    after it beyond the end of its memory.
    """
    prefix, parts = token_hex(8), []

    def name(item: Any) -> Any:
        if not isinstance(item, Folded):
            return default(item)
        parts.append(item.text)
        return f"{prefix}{len(parts) - 1}"

    text = orjson.dumps(value, default=name, option=option)
    return re.sub(b'"%b([0-9]+)"' % prefix.encode(), lambda found: parts[int(found[1])], text)


def copied(value: Any) -> Any:
    """A copy of JSON, whose folded parts stay as they are."""
    try:
        return orjson.loads(orjson.dumps(value))
    except TypeError:
        pass
    try:
        return folded(dumps(value))
    except TypeError:
        return deepcopy(value)  # it has an integer of more than 64 bits, see `bounded`


def bounded(value: Any) -> Any:
    """A value that may have become deep, with folded parts if it has. Raises TooDeep."""
    try:
        orjson.dumps(value)
    except TypeError:
        if not _is_nested(value, LEVELS):
            return value  # it has an integer of more than 64 bits, as YAML may; whoever decodes it judges that
        cut = Cut(_encoded(value), MAX_DEPTH)
        return cut.restored(orjson.loads(cut.text))
    return value


def _is_nested(value: Any, levels: int) -> bool:
    """Whether a value has more levels of dicts and lists than so many."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [item for node in level for _, item in _children(node)]
    return bool(level)


def fold(value: Any) -> Any:
    """A value of any depth as one in which everything below `LEVELS` is folded."""
    holder = [value]
    level: list[Any] = [holder]
    for _ in range(LEVELS):
        level = [made for node in level for made in _copied_children(node)]
    for node in level:
        for key, item in _children(node):
            node[key] = Folded(_encoded(item))
    return holder[0]


def _children(node: Any) -> list[tuple[Any, Any]]:
    """The dicts and lists in a dict or list, with their places."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    return [(key, item) for key, item in items if type(item) is dict or type(item) is list]


def _copied_children(node: Any) -> list[Any]:
    made = []
    for key, item in _children(node):
        node[key] = copy = dict(item) if isinstance(item, dict) else list(item)
        made.append(copy)
    return made


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a value of any depth without folded parts: `change` makes each dict and list anew, before what it
    holds, and each leaf.
    """
    value = change(value.unfold() if isinstance(value, Folded) else value)
    todo = [value] if isinstance(value, dict | list) else []
    while todo:
        node = todo.pop()
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            made = node[key] = change(item.unfold() if isinstance(item, Folded) else item)
            if isinstance(made, dict | list):
                todo.append(made)
    return value


def _encoded(value: Any) -> bytes:
    """The JSON of a value of any depth."""
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    parts: list[bytes] = []
    #: What is still to be written, the last first: text, and values.
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, bytes):
            parts.append(item)
        elif isinstance(item, Folded):
            parts.append(item.text)
        elif isinstance(item, dict):
            inside = [each for key, below in item.items() for each in (b",", orjson.dumps(key) + b":", below)]
            todo += (b"}", *reversed(inside[1:]), b"{")
        elif isinstance(item, list):
            inside = [each for below in item for each in (b",", below)]
            todo += (b"]", *reversed(inside[1:]), b"[")
        else:
            # orjson has no integers of more than 64 bits.
            parts.append(b"%d" % item if type(item) is int else orjson.dumps(item))
    return b"".join(parts)
