"""Amounts that are a number or a percentage (`25%`)."""

from __future__ import annotations

import math
import re
from typing import Final

_SHARE: Final = re.compile(r"([0-9]+)%", re.ASCII)


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """Return the amount, with a percentage of `total` rounded up or down. Raise ValueError for other texts."""
    if isinstance(value, int):
        return value
    match = _SHARE.fullmatch(value)
    if match is None:
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    share = int(match[1]) * total / 100
    return math.ceil(share) if up else math.floor(share)
