"""The taints of nodes and devices that a toleration accepts. Facts: k8s.io/api/core/v1 (ToleratesTaint)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from apiserver.api.objects import Json

COMPARISONS: Final = ("Lt", "Gt")
#: The gate that enables them; without it they accept nothing.
COMPARISON_GATE: Final = "TaintTolerationComparisonOperators"
CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_LARGEST: Final = (1 << 63) - 1


def parse_integer(text: str) -> int | None:
    """Parse a decimal integer of at most 64 bits without leading zeros or plus sign. Return None for any other text."""
    if len(text) > 20 or not CANONICAL.fullmatch(text):
        return None
    value = int(text)
    return value if -_LARGEST - 1 <= value <= _LARGEST else None


def tolerates(toleration: Mapping[str, Any], key: str, value: str, effect: str, comparing: bool = False) -> bool:
    """Return whether a toleration accepts a taint. The caller selects the relevant effects.

    `comparing` permits the comparison of numbers. Its feature gate covers the taints of nodes, never those of devices.
    """
    if toleration.get("effect") and toleration["effect"] != effect:
        return False
    if toleration.get("key") and toleration["key"] != key:
        return False
    operator, wanted = toleration.get("operator") or "Equal", toleration.get("value") or ""
    if operator == "Exists":
        return True
    if operator == "Equal":
        return bool(wanted == value)
    if not comparing or operator not in COMPARISONS:
        return False
    bound, number = parse_integer(wanted), parse_integer(value)
    if bound is None or number is None:
        return False
    return number < bound if operator == "Lt" else number > bound


def is_tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]], comparing: bool) -> bool:
    """Return whether any toleration accepts the taint."""
    key, value, effect = taint.get("key", ""), taint.get("value") or "", taint.get("effect", "")
    return any(tolerates(each, key, value, effect, comparing) for each in tolerations)


def has_untolerated(taints: Iterable[Json], tolerations: Iterable[Json], comparing: bool) -> bool:
    """Return whether any taint is not tolerated."""
    return any(not is_tolerated(taint, tolerations, comparing) for taint in taints)
