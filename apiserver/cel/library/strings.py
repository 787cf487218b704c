"""String extensions: charAt, indexOf, join, replace, split, substring, trim, quoting, case."""

from __future__ import annotations

from typing import Any, Final

from apiserver.cel.language.declarations import Function, function, method, overload
from apiserver.cel.language.types import DYN, INT, STRING, list_of
from apiserver.cel.language.values import CelError
from apiserver.cel.library.formatting import format_string

_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
# Go's white space; Python's also includes the information separators.
_BLANKS: Final = (
    "\t\n\v\f\r"
    " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    """Return the character at an index; the end is allowed and empty."""
    if 0 <= index <= len(text):
        return text[index : index + 1]
    raise _out_of_range(index)


def index_of(text: str, part: str, offset: int = 0) -> int:
    """Return the first occurrence at or after an offset, or -1."""
    if part == "":
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    """Return the last occurrence that starts at or before an offset, or -1."""
    if offset is None:
        return len(text) if part == "" else text.rfind(part)
    if part == "":
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """Replace all occurrences or the first `count`."""
    return text.replace(old, new, count)


def split(text: str, separator: str, count: int = -1) -> list[str]:
    """Split at a separator into at most `count` parts; an empty separator splits into characters."""
    if count == 0:
        return []
    if separator == "":
        if count < 0 or count >= len(text):
            return list(text)
        return [*text[: count - 1], text[count - 1 :]]
    return text.split(separator, count - 1 if count > 0 else -1)


def substring(text: str, start: int, end: int | None = None) -> str:
    """Return the characters from start to end."""
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def join(items: list[Any], separator: str = "") -> str:
    """Join the strings of a list."""
    for item in items:
        if item.__class__ is not str:
            raise CelError(f"join: invalid input: {item}")
    return separator.join(items)


def quote(text: str) -> str:
    """Return the text in quotes, with control characters escaped."""
    return f'"{text.translate(_QUOTED)}"'


def library() -> list[Function]:
    """Return the declarations of version 2 of the extension."""
    strings = list_of(STRING)
    return [
        function("charAt", method("string_char_at_int", (STRING, INT), STRING, char_at)),
        function(
            "indexOf",
            method("string_index_of_string", (STRING, STRING), INT, index_of),
            method("string_index_of_string_int", (STRING, STRING, INT), INT, index_of),
        ),
        function(
            "lastIndexOf",
            method("string_last_index_of_string", (STRING, STRING), INT, last_index_of),
            method("string_last_index_of_string_int", (STRING, STRING, INT), INT, last_index_of),
        ),
        function("lowerAscii", method("string_lower_ascii", (STRING,), STRING, lambda text: text.translate(_LOWER))),
        function("upperAscii", method("string_upper_ascii", (STRING,), STRING, lambda text: text.translate(_UPPER))),
        function(
            "replace",
            method("string_replace_string_string", (STRING, STRING, STRING), STRING, replace),
            method("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, replace),
        ),
        function(
            "split",
            method("string_split_string", (STRING, STRING), strings, split),
            method("string_split_string_int", (STRING, STRING, INT), strings, split),
        ),
        function(
            "substring",
            method("string_substring_int", (STRING, INT), STRING, substring),
            method("string_substring_int_int", (STRING, INT, INT), STRING, substring),
        ),
        function("trim", method("string_trim", (STRING,), STRING, lambda text: text.strip(_BLANKS))),
        function("format", method("string_format", (STRING, list_of(DYN)), STRING, format_string)),
        function("strings.quote", overload("strings_quote", (STRING,), STRING, quote)),
        function(
            "join",
            method("list_join", (strings,), STRING, join),
            method("list_join_string", (strings, STRING), STRING, join),
        ),
    ]
