"""Go's %v of decoded JSON, for messages that quote it: `map[data:map[a:1 b:<nil>]]`."""

from __future__ import annotations

from typing import Any

__all__ = ["go_format", "go_type"]


def go_format(value: Any) -> str:
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_format(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_format, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _float(value) if isinstance(value, float) else str(value)


def _float(value: float) -> str:
    """Shortest digits that read back equal; an exponent from 1e21 on and below 1e-4."""
    if value.is_integer() and abs(value) < 1e21:
        text = repr(value)
        return text.removesuffix(".0") if "e" not in text else f"{value:.0f}"
    return repr(value)


def go_type(value: Any) -> str:
    """What Go's reflect calls the type of decoded JSON."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return {bool: "bool", int: "int64", float: "float64", str: "string"}[type(value)]
