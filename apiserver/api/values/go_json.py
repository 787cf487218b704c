"""The slow JSON reader: reports the facts of a body that Go's encoding/json sees and Python's parsers hide.

They are syntax errors in Go's words, repeated keys, numbers as they were written, the text of raw values, base64
errors. It is used only for unusual bodies.
"""

from __future__ import annotations

import json
import re
from functools import cache
from json import decoder as json_decoder
from json import scanner as json_scanner
from typing import Any, Final

import orjson

from apiserver.api.values.depth import MAX_DEPTH, TOO_DEEP

__all__ = [
    "Literal",
    "Pairs",
    "RawObject",
    "base64_error",
    "escape_html",
    "go_kind",
    "parse_with_spans",
    "syntax_error",
    "unmarshal_error",
]

_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_DIGITS: Final = frozenset(b"0123456789")
_SPACE: Final = frozenset(b" \t\r\n")
_BLANKS: Final = re.compile(rb"[ \t\r\n]*")
_NUMBER: Final = re.compile(rb"[0-9]*")
#: A valid string.
_STRING: Final = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')


def escape_html(text: bytes) -> bytes:
    """Escape `<`, `>`, `&`, U+2028 and U+2029 as Go's encoder does. Only strings of JSON contain them."""
    text = text.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    if text.find(b"\xe2\x80") >= 0:
        text = text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return text


class Literal(str):
    """A number as it was written."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object with all its keys in order, including repeated ones. Its JSON is `text[start:end]`."""

    __slots__ = ("end", "start", "text")
    text: str
    start: int
    end: int

    @property
    def marked(self) -> bool:
        """Whether a blank precedes it."""
        return self.text[self.start - 1 : self.start] == " "

    @property
    def written(self) -> bytes:
        """Its JSON as it was written, on one line."""
        return self.text[self.start : self.end].translate(_ONE_LINE).encode("utf-8", "replace")


#: JSON white space between values. Strings contain it only in escaped form.
_ONE_LINE: Final = {ord(char): " " for char in "\t\r\n"}


class RawObject(dict[str, Any]):
    """A raw extension. Two are equal only if their bytes are: key order and white space count.

    `text` is the JSON as it was written, on one line, or None if that is the compact form. Line breaks and tabs are
    replaced by spaces, so that an object fits on one line of a watch.
    """

    __slots__ = ("text",)
    __hash__ = None

    def __init__(self, value: dict[str, Any], text: bytes | None = None) -> None:
        super().__init__(value)
        self.text = text

    @property
    def written(self) -> bytes:
        return orjson.dumps(self) if self.text is None else self.text

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RawObject):
            return self.written == other.written
        return isinstance(other, dict) and self.written == orjson.dumps(other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def _no_constant(name: str) -> Any:
    raise ValueError(name)


class _SpanDecoder(json.JSONDecoder):
    """The pure Python scanner of the standard library, extended to record spans."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=Pairs, parse_float=Literal, parse_int=Literal, parse_constant=_no_constant)
        self.parse_object = self._object
        self.scan_once = json_scanner.py_make_scanner(self)  # type: ignore[attr-defined]

    @staticmethod
    def _object(state: tuple[str, int], strict: bool, *rest: Any) -> tuple[Pairs, int]:
        pairs, end = json_decoder.JSONObject(state, strict, *rest)  # type: ignore[attr-defined]
        pairs.text, pairs.start, pairs.end = state[0], state[1] - 1, end
        return pairs, end


@cache
def _span_decoder() -> _SpanDecoder:
    """Return the shared decoder. A decoder is a reference cycle, so one per call would burden the garbage collector."""
    return _SpanDecoder()


def parse_with_spans(body: bytes) -> Any:
    """Parse a body to nested Pairs, lists, strings, Literals, bools and None. Raise ValueError for invalid JSON.

    Invalid UTF-8 and lone surrogates become U+FFFD, as in Go.
    """
    return _repair(_span_decoder().decode(body.decode("utf-8", "replace")))


def _repair(value: Any) -> Any:
    if type(value) is str:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _has_surrogate(value) else value
    if isinstance(value, Pairs):
        value[:] = [(_repair(key), _repair(item)) for key, item in value]
    elif isinstance(value, list):
        value[:] = [_repair(item) for item in value]
    return value


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


class _Scanner:
    """Finds the first invalid byte and Go's error for it."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def fail(self, context: str) -> ValueError:
        if self.at >= len(self.body):
            return ValueError("unexpected end of JSON input")
        return ValueError(f"invalid character {_quote(self.body[self.at])} {context}")

    def peek(self) -> int:
        return self.body[self.at] if self.at < len(self.body) else -1

    def space(self) -> None:
        if self.peek() in _SPACE:
            self.at = _BLANKS.match(self.body, self.at).end()  # type: ignore[union-attr]

    def document(self) -> None:
        brackets: list[int] = []
        while True:
            if self.value(brackets):
                continue
            while self.ends(brackets):
                pass
            if not brackets:
                return

    def value(self, brackets: list[int]) -> bool:
        """Read a scalar, an empty list or object, or an opening bracket. Return whether a nested value follows."""
        self.space()
        first = self.peek()
        if first == ord("{") or first == ord("["):
            if len(brackets) == MAX_DEPTH:
                raise ValueError(TOO_DEEP)
            self.at += 1
            self.space()
            if self.peek() != first + 2:
                brackets.append(first)
                if first == ord("{"):
                    self.key()
                return True
            self.at += 1
        elif first == ord('"'):
            self.string()
        elif first == ord("-") or first in _DIGITS:
            self.number()
        elif first in (ord("t"), ord("f"), ord("n")):
            self.word({ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}[first])
        else:
            raise self.fail("looking for beginning of value")
        return False

    def key(self) -> None:
        if self.peek() != ord('"'):
            raise self.fail("looking for beginning of object key string")
        self.string()
        self.space()
        if self.peek() != ord(":"):
            raise self.fail("after object key")
        self.at += 1

    def ends(self, brackets: list[int]) -> bool:
        """Read the token after a value. Return whether it closes the enclosing list or object."""
        self.space()
        if not brackets:
            if self.at < len(self.body):
                raise self.fail("after top-level value")
            return False
        in_object = brackets[-1] == ord("{")
        found = self.peek()
        if found == ord(","):
            self.at += 1
            if in_object:
                self.space()
                self.key()
            return False
        if found != brackets[-1] + 2:
            raise self.fail("after object key:value pair" if in_object else "after array element")
        self.at += 1
        brackets.pop()
        return True

    def string(self) -> None:
        whole = _STRING.match(self.body, self.at)
        if whole is not None:
            self.at = whole.end()
            return
        self.at += 1
        while (char := self.peek()) != ord('"'):
            if char < 0x20:
                raise self.fail("in string literal")
            self.at += 1
            if char == ord("\\"):
                self.escape()
        self.at += 1

    def escape(self) -> None:
        char = self.peek()
        if char == ord("u"):
            for _ in range(4):
                self.at += 1
                if self.peek() not in _HEX:
                    raise self.fail("in \\u hexadecimal character escape")
        elif char not in b'bfnrt\\/"' or char < 0:
            raise self.fail("in string escape code")
        self.at += 1

    def number(self) -> None:
        if self.peek() == ord("-"):
            self.at += 1
            if self.peek() not in _DIGITS:
                raise self.fail("in numeric literal")
        if self.peek() == ord("0"):
            self.at += 1
        else:
            self.digits()
        if self.peek() == ord("."):
            self.at += 1
            if self.peek() not in _DIGITS:
                raise self.fail("after decimal point in numeric literal")
            self.digits()
        if self.peek() in (ord("e"), ord("E")):
            self.at += 1
            if self.peek() in (ord("+"), ord("-")):
                self.at += 1
            if self.peek() not in _DIGITS:
                raise self.fail("in exponent of numeric literal")
            self.digits()

    def digits(self) -> None:
        self.at = _NUMBER.match(self.body, self.at).end()  # type: ignore[union-attr]

    def word(self, word: bytes) -> None:
        self.at += 1
        for expected in word[1:]:
            if self.peek() != expected:
                raise self.fail(f"in literal {word.decode()} (expecting '{chr(expected)}')")
            self.at += 1


def _quote(char: int) -> str:
    special = {ord("'"): r"'\''", ord('"'): "'\"'", ord("\\"): r"'\\'"}
    if char in special:
        return special[char]
    escapes = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r"}
    if char in escapes:
        return f"'\\{escapes[char]}'"
    text = chr(char)
    return f"'{text}'" if text.isprintable() else f"'\\x{char:02x}'" if char < 0x80 else f"'\\u{char:04x}'"


def go_kind(value: Any) -> str:
    """Return Go's name for a JSON value in type errors."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


def unmarshal_error(value: Any, go_type: str, field: str = "") -> str:
    """Return Go's error for a JSON value that a type cannot hold. `field` is STRUCT.NAME, if it is one."""
    place = f"Go struct field {field}" if field else "Go value"
    return f"json: cannot unmarshal {go_kind(value)} into {place} of type {go_type}"


def syntax_error(body: bytes) -> str:
    """Return Go's syntax error for a body, "" for valid JSON."""
    try:
        _Scanner(body).document()
    except ValueError as error:
        return str(error)
    return ""


_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def base64_error(text: str) -> str:
    """Return Go's error for invalid standard base64, "" for valid text. Line breaks are skipped."""
    source = text.encode()
    at = _bad_byte(source)
    return "" if at is None else f"illegal base64 data at input byte {at}"


def _bad_byte(source: bytes) -> int | None:
    at, filled, start = 0, 0, 0
    while at < len(source):
        char = source[at]
        at += 1
        if char in b"\r\n":
            continue
        if char in _ALPHABET:
            filled = (filled + 1) % 4
            continue
        if char != ord("=") or filled < 2:
            return at - 1
        at = _skip_breaks(source, at)
        if filled == 2:
            if at == len(source):
                return at
            if source[at] != ord("="):
                return at - 1
            at += 1
        at = _skip_breaks(source, at)
        return at if at < len(source) else None
    start = at - filled
    return start if filled else None


def _skip_breaks(source: bytes, at: int) -> int:
    while at < len(source) and source[at] in b"\r\n":
        at += 1
    return at
