"""Go's %v and %s of decoded JSON, for messages that quote it: `map[data:map[a:1 b:<nil>]]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver.api.values.numbers import go_float

__all__ = ["go_format", "go_text", "go_type"]


def go_format(value: Any) -> str:
    """Format a JSON value as Go's %v: maps sorted by key, strings without quotes."""
    return _format_nested(value, _leaf)


def _format_nested(value: Any, leaf: Callable[[Any], str]) -> str:
    if isinstance(value, dict):
        return f"map[{' '.join([f'{key}:{_format_nested(value[key], leaf)}' for key in sorted(value)])}]"
    if isinstance(value, list):
        return f"[{' '.join([_format_nested(item, leaf) for item in value])}]"
    return leaf(value)


def _leaf(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return go_float(value) if isinstance(value, float) else str(value)


def go_text(value: Any) -> str:
    """Format a JSON value as Go's %s. Go marks numbers and booleans with their type, also inside lists and maps."""
    return "%!s(<nil>)" if value is None else _format_nested(value, _text)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return _leaf(value)
    return f"%!s({go_type(value)}={_leaf(value)})"


def go_type(value: Any) -> str:
    """Return the type that Go's reflect names for decoded JSON."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return {bool: "bool", int: "int64", float: "float64", str: "string"}[type(value)]
