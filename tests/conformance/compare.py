"""What differs between an expected and a given answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final

_ABSENT: Final = object()
#: So much of a value is shown.
_SHOWN: Final = 400


def differences(want: Any, got: Any, at: str = "") -> Iterator[str]:
    """One line for each place where they differ. A number never equals one of another type, nor true 1."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in [*want, *(key for key in got if key not in want)]:
            yield from _pair(want.get(key, _ABSENT), got.get(key, _ABSENT), f"{at}.{key}")
    elif isinstance(want, list) and isinstance(got, list):
        for number, (wanted, given) in enumerate(zip_longest(want, got, fillvalue=_ABSENT)):
            yield from _pair(wanted, given, f"{at}[{number}]")
    elif want != got or type(want) is not type(got):
        yield f"{at}: want {shown(want)}, got {shown(got)}"


def _pair(want: Any, got: Any, at: str) -> Iterator[str]:
    if got is _ABSENT:
        yield f"{at}: missing, want {shown(want)}"
    elif want is _ABSENT:
        yield f"{at}: not expected, got {shown(got)}"
    else:
        yield from differences(want, got, at)


def shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:_SHOWN]
