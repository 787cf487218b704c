"""Compute the quality of service of a pod.

Guaranteed: cpu and memory of every container have limits equal to the requests. BestEffort: neither requests nor
limits.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity

__all__ = ["aggregate", "compute"]

_COMPUTE: Final = ("cpu", "memory")


def _sum(total: dict[str, Quantity], amounts: Json | None) -> int:
    """Add positive cpu and memory to `total`. Return the number of the two that are present."""
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
        parts = [
            c.get("resources") or {} for c in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        ]
    for resources in parts:
        _sum(requests, resources.get("requests"))
        if _sum(limits, resources.get("limits")) < len(_COMPUTE):
            guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def aggregate(spec: Json, part: str) -> dict[str, Quantity]:
    """Return the resources that a pod's containers need together. `part` is requests or limits.

    They are the maximum of all concurrently running containers, and of each init container with earlier sidecars.
    """
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        _add(total, _amounts(container, part))
    sidecars: dict[str, Quantity] = {}
    most: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, part)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = dict(sidecars)
        else:
            _add(amounts, sidecars)
        _raise_to(most, amounts)
    _raise_to(total, most)
    return total


def _amounts(container: Json, part: str) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in ((container.get("resources") or {}).get(part) or {}).items()}


def _add(total: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, amount in amounts.items():
        total[name] = total[name].add(amount) if name in total else amount


def _raise_to(total: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, amount in amounts.items():
        if name not in total or total[name].compare(amount) < 0:
            total[name] = amount
