"""Format strings, `"…".format([…])`: clauses, evaluation, and the check of literals at compile time.

`_walk` reads a format string once for both uses, so that their errors have the same texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.values.numbers import go_float
from apiserver.cel.language.ast import Call, ListNode, Literal, MapNode, Node
from apiserver.cel.language.source import Issues
from apiserver.cel.language.values import CelError, CelType, Duration, Timestamp, Uint, type_name
from apiserver.cel.library.conversions import duration_text, text_of, timestamp_text

_STRING: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given {}"
)
_DECIMAL: Final = "decimal clause can only be used on integers, was given {}"
_FIXED: Final = "fixed-point clause can only be used on doubles, was given {}"
_SCIENTIFIC: Final = "scientific clause can only be used on doubles, was given {}"
_BINARY: Final = "only integers and bools can be formatted as binary, was given {}"
_HEX: Final = "only integers, byte buffers, and strings can be formatted as hex, was given {}"
_OCTAL: Final = "octal clause can only be used on integers, was given {}"
_NOT_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
_DEFAULT_PRECISION: Final = 6

# Letter of the clause, accepted kinds of types, error text.
_CLAUSES: Final[dict[str, tuple[frozenset[str], str]]] = {
    "s": (
        frozenset(
            {"list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"}
        ),
        _STRING,
    ),
    "d": (frozenset({"int", "uint"}), _DECIMAL),
    "f": (frozenset({"double", "string"}), _FIXED),
    "e": (frozenset({"double", "string"}), _SCIENTIFIC),
    "b": (frozenset({"int", "uint", "bool"}), _BINARY),
    "x": (frozenset({"int", "uint", "string", "bytes"}), _HEX),
    "X": (frozenset({"int", "uint", "string", "bytes"}), _HEX),
    "o": (frozenset({"int", "uint"}), _OCTAL),
}


class _ClauseError(Exception):
    """A clause that does not match its argument; `at` is the argument or a part of it."""

    def __init__(self, message: str, at: Node | None = None) -> None:
        super().__init__(message)
        self.at = at


def _walk(
    text: str, count: int, clause: Callable[[str, int | None, int], str], *, literal: bool = False
) -> tuple[str, int]:
    """Return the formatted text and the number of arguments used.

    In a literal, the error of a truncated clause takes precedence over a missing argument.
    """
    parts: list[str] = []
    at = index = 0
    while at < len(text):
        percent = text.find("%", at)
        if percent < 0:
            parts.append(text[at:])
            break
        parts.append(text[at:percent])
        if text.startswith("%%", percent):
            parts.append("%")
            at = percent + 2
            continue
        ends = percent + 1 >= len(text)
        if index >= count and not (literal and ends):
            raise _ClauseError(f"index {index} out of range")
        if ends:
            raise _ClauseError("unexpected end of string")
        letter, precision, at = _parse_clause(text, percent + 1)
        try:
            parts.append(clause(letter, precision, index))
        except _ClauseError as problem:
            raise _ClauseError(f"error during formatting: {problem}", problem.at) from None
        index += 1
    return "".join(parts), index


def _parse_clause(text: str, at: int) -> tuple[str, int | None, int]:
    precision: int | None = None
    broken = "could not parse formatting clause: "
    if text[at] == ".":
        end = at + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        if end >= len(text):
            raise _ClauseError(broken + "error while parsing precision: could not find end of precision specifier")
        if end == at + 1:
            raise _ClauseError(
                broken + "error while parsing precision: error while converting precision to integer: "
                'strconv.Atoi: parsing "": invalid syntax'
            )
        precision, at = min(int(text[at + 1 : end][:6]), 10_000), end
    letter = text[at]
    if letter not in _CLAUSES:
        raise _ClauseError(f'{broken}unrecognized formatting clause "{letter}"')
    return letter, precision, at + 1


def format_string(text: str, args: list[Any]) -> str:
    """Format a string at run time."""

    def clause(letter: str, precision: int | None, index: int) -> str:
        return _format(letter, precision, args[index])

    try:
        return _walk(text, len(args), clause)[0]
    except _ClauseError as problem:
        raise CelError(str(problem)) from None


def _format(letter: str, precision: int | None, value: Any) -> str:
    kind = value.__class__
    integer = kind is int or kind is Uint
    if letter == "s":
        return _as_string(value)
    if letter == "d" and integer:
        return str(int(value))
    if letter in "fe" and (kind is float or (kind is str and value in _NOT_NUMBERS)):
        return _as_number(letter, _DEFAULT_PRECISION if precision is None else precision, float(value))
    if letter == "b" and (integer or kind is bool):
        return f"{int(value):b}"
    if letter in "xX" and (integer or kind is str or kind is bytes):
        digits = f"{int(value):x}" if integer else (value.encode() if kind is str else value).hex()
        return digits.upper() if letter == "X" else digits
    if letter == "o" and integer:
        return f"{int(value):o}"
    raise _ClauseError(_CLAUSES[letter][1].format(type_name(value)))


def _as_number(letter: str, precision: int, value: float) -> str:
    """Format a number in English style: grouped thousands, typographic exponent.

    In the scientific form the precision is only the width of NaN and infinities.
    """
    width = precision if letter == "e" else 0
    if math.isnan(value):
        return "NaN".rjust(width)
    if math.isinf(value):
        return ("∞" if value > 0 else "-∞").rjust(width)
    if letter == "f":
        return f"{value:,.{precision}f}"
    mantissa, _, exponent = f"{value:.{_DEFAULT_PRECISION}e}".partition("e")
    return f"{mantissa}×10{exponent.removeprefix('+').translate(_SUPERSCRIPT)}"


_SUPERSCRIPT: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _as_string(value: Any) -> str:
    match value:
        case list() | tuple():
            return "[" + ", ".join(_element(item) for item in value) + "]"
        case dict():
            return _as_map(value)
        case None:
            return "null"
        case CelType():
            return value.name
        case bool() | int() | float() | str() | bytes() | Timestamp() | Duration():
            try:
                return text_of(value)
            except CelError as error:
                raise _ClauseError(f"could not convert argument {go_quote(str(error))} to string") from None
    raise _ClauseError(_STRING.format(type_name(value)))


def _as_map(value: dict[Any, Any]) -> str:
    entries = []
    for key, item in value.items():
        if key.__class__ not in (str, bool, int, Uint):
            raise _ClauseError(f"no formatting function for map key of type {type_name(key)}")
        entries.append((_element(key), _element(item)))
    return "{" + ", ".join(f"{key}:{item}" for key, item in sorted(entries)) + "}"


def _element(value: Any) -> str:
    """Format an element of a list or map: strings quoted, numbers with six digits."""
    match value:
        case str():
            return go_quote(value)
        case bytes():
            return "b" + go_quote(_as_string(value))
        case bool() | int():
            return _as_string(value)
        case float():
            return f"{value:.{_DEFAULT_PRECISION}f}" if math.isfinite(value) else go_quote(go_float(value))
        case Timestamp():
            return f"timestamp({go_quote(timestamp_text(value))})"
        case Duration():
            return f"duration({go_quote(duration_text(value))})"
        case None | CelType() | list() | tuple() | dict():
            return _as_string(value)
    raise _ClauseError(f"no formatting function for {type_name(value)}")


def check_literal(call: Call, issues: Issues) -> None:
    """Report the errors of a call with a literal format string and literal arguments."""
    text, args = call.target, call.args[0] if call.args else None
    if not isinstance(text, Literal) or not isinstance(text.value, str) or not isinstance(args, ListNode):
        return
    elements = args.elements

    def clause(letter: str, _precision: int | None, index: int) -> str:
        _check_argument(letter, elements[index])
        return ""

    try:
        _, used = _walk(text.value, len(elements), clause, literal=True)
    except _ClauseError as problem:
        issues.report((problem.at or call).pos, str(problem))
        return
    if len(elements) > used:
        issues.report(
            call.pos,
            f"too many arguments supplied to string.format (expected {used}, got {len(elements)})",
        )


def _check_argument(letter: str, node: Node) -> None:
    kinds, message = _CLAUSES[letter]
    if node.type.kind != "dyn" and node.type.kind not in kinds:
        raise _ClauseError(message.format(node.type.name), node)
    if letter != "s":
        return
    if isinstance(node, ListNode):
        for element in node.elements:
            _check_argument(letter, element)
    elif isinstance(node, MapNode):
        for entry in node.entries:
            _check_argument(letter, entry.key)
            _check_argument(letter, entry.value)
