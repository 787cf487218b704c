"""Go's %v and %s of decoded JSON, for messages that quote it: `map[data:map[a:1 b:<nil>]]`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from apiserver.api.nesting import Folded

__all__ = ["go_format", "go_text", "go_type"]


def go_format(value: Any) -> str:
    """A JSON value as Go prints it with %v: maps sorted by key, strings without quotes."""
    return _written(value, _leaf)


def _written(value: Any, leaf: Callable[[Any], str]) -> str:
    parts: list[str] = []
    #: What is still to be written, the last first: text, and values in lists of one, which may be nested deep.
    todo: list[Any] = [[value]]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        (found,) = item
        if isinstance(found, Folded):
            found = found.unfold()
        if isinstance(found, dict):
            inside = [part for key in sorted(found) for part in (" ", f"{key}:", [found[key]])]
            todo += ("]", *reversed(inside[1:]), "map[")
        elif isinstance(found, list):
            inside = [part for each in found for part in (" ", [each])]
            todo += ("]", *reversed(inside[1:]), "[")
        else:
            parts.append(leaf(found))
    return "".join(parts)


def _leaf(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _float(value) if isinstance(value, float) else str(value)


def go_text(value: Any) -> str:
    """%s, which is meant for text: numbers and booleans are marked as what they are, wherever they stand."""
    return "%!s(<nil>)" if value is None else _written(value, _text)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return _leaf(value)
    return f"%!s({go_type(value)}={_leaf(value)})"


def _float(value: float) -> str:
    """The shortest digits that read back equal; with an exponent of two digits from 1e6 on and below 1e-4."""
    number = Decimal(repr(value))
    exponent = number.adjusted() if value else 0
    if -4 <= exponent < 6:
        return f"{number:f}".removesuffix(".0")
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    mantissa = digits[0] + ("." + digits[1:] if digits[1:] else "")
    return f"{'-' if value < 0 else ''}{mantissa}e{exponent:+03d}"


def go_type(value: Any) -> str:
    """What Go's reflect calls the type of decoded JSON."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return {bool: "bool", int: "int64", float: "float64", str: "string"}[type(value)]
