"""Values of scenario files in the form that the client takes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from kubedra.runtime.objects import Json

__all__ = ["parse_seconds", "to_duration", "to_texts"]

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(value: str | float) -> float:
    """Return a duration such as "1h30m" in seconds; a number is in seconds."""
    if not isinstance(value, str):
        return float(value)
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))


def to_duration(value: str | float) -> timedelta:
    return timedelta(seconds=parse_seconds(value))


def to_texts(values: Json) -> dict[str, str | None]:
    """Return labels, annotations or variables as texts, as YAML writes them; null stays."""
    return {key: None if value is None else _text(value) for key, value in values.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
