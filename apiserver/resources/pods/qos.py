"""Quality of service: Guaranteed when every container's cpu and memory are limited to what they request, BestEffort when nothing is said."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.quantity import Quantity

__all__ = ["compute"]

Json = dict[str, Any]
_COMPUTE: Final = ("cpu", "memory")


def _sum(total: dict[str, Quantity], amounts: Json | None) -> int:
    """Adds positive cpu and memory; says how many of the two there were."""
    found = 0
    for name in _COMPUTE:
        text = (amounts or {}).get(name)
        if text is None:
            continue
        amount = Quantity.parse(text)
        if amount.sign > 0:
            found += 1
            total[name] = total[name].add(amount) if name in total else amount
    return found


def compute(spec: Json) -> str:
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    if spec.get("resources") is not None:
        parts = [spec["resources"]]
    else:
        parts = [c.get("resources") or {} for c in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]
    for resources in parts:
        _sum(requests, resources.get("requests"))
        if _sum(limits, resources.get("limits")) < len(_COMPUTE):
            guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"
