"""What differs between an expected and a given answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final

_ABSENT: Final = object()
#: So much of a value is shown.
_SHOWN: Final = 400
#: Characters that two texts have in common before the first that differs.
_CONTEXT: Final = 40


def differences(want: Any, got: Any, at: str = "") -> Iterator[str]:
    """One line for each place where they differ. A number never equals one of another type, nor true 1."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in [*want, *(key for key in got if key not in want)]:
            yield from _pair(want.get(key, _ABSENT), got.get(key, _ABSENT), f"{at}.{key}")
    elif isinstance(want, list) and isinstance(got, list):
        for number, (wanted, given) in enumerate(zip_longest(want, got, fillvalue=_ABSENT)):
            yield from _pair(wanted, given, f"{at}[{number}]")
    elif want != got or type(want) is not type(got):
        same = _in_common(want, got) if isinstance(want, str) and isinstance(got, str) else 0
        yield f"{at}: want {shown(want, same)}, got {shown(got, same)}"


def _pair(want: Any, got: Any, at: str) -> Iterator[str]:
    if got is _ABSENT:
        yield f"{at}: missing, want {shown(want)}"
    elif want is _ABSENT:
        yield f"{at}: not expected, got {shown(got)}"
    else:
        yield from differences(want, got, at)


def shown(value: Any, same: int = 0) -> str:
    """Return the beginning of a value's JSON, without so many characters that it has in common with another."""
    text = json.dumps(value[same:] if same else value, ensure_ascii=False)[:_SHOWN]
    return f"…{text}" if same else text


def _in_common(want: str, got: str) -> int:
    """Return how many characters of long texts to leave out: those they begin with, except the last few."""
    if max(len(want), len(got)) < _SHOWN:
        return 0
    pairs = enumerate(zip(want, got, strict=False))
    first = next((number for number, (one, other) in pairs if one != other), min(len(want), len(got)))
    return max(first - _CONTEXT, 0)
