"""Parsers for fields of a configuration file; each error names its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from apiserver.api.objects import Json
from apiserver.api.values.durations import parse_duration

__all__ = ["ConfigurationError", "duration", "fields", "items", "number", "one_of"]


class ConfigurationError(ValueError):
    """An invalid configuration: one line that names the field."""


def fields(value: Any, where: str, known: set[str]) -> Json:
    """Return the object. Raise ConfigurationError for unknown fields."""
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where or 'the document'}: must be an object")
    for name in value:
        if name not in known:
            raise ConfigurationError(f"{_at(where, str(name))}: unknown field")
    return value


def items(holder: Json, name: str, where: str) -> list[Any]:
    value = holder.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigurationError(f"{_at(where, name)}: must be a list")
    return value


def number(holder: Json, name: str, where: str, default: int, lowest: int = 0, highest: int = 2**31 - 1) -> int:
    value = holder.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ConfigurationError(f"{_at(where, name)}: must be an integer from {lowest} to {highest}")
    return value


def duration(holder: Json, name: str, where: str, default: timedelta) -> timedelta:
    """Parse a duration in Go's format: `1m30s`, `100ms`, `0`."""
    value = holder.get(name)
    if value is None:
        return default
    try:
        return parse_duration(str(value))
    except ValueError as error:
        raise ConfigurationError(f"{_at(where, name)}: must be a duration like 10s") from error


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def one_of(holder: Json, name: str, where: str, choices: Mapping[str, Callable[..., Any]] | tuple[str, ...]) -> str:
    """Return a value of a fixed set; the first is the default."""
    value = holder.get(name)
    if value is None:
        return next(iter(choices))
    if value not in choices:
        raise ConfigurationError(f"{_at(where, name)}: must be one of {', '.join(choices)}")
    return str(value)
