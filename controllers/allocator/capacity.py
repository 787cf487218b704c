"""Consumable capacity: the amounts that a request consumes of a device, and whether its policy allows them.

Invariants
- Every capacity of the device counts, requested or not, for shared and for dedicated devices.
- The result depends only on the device's capacities and the request. The search checks the remaining capacity of
  shared devices.

Source of facts: Kubernetes 1.36,
staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from controllers.allocator.amounts import UNIT, binary_text, canonical, nanos, whole_units


@dataclass(frozen=True, slots=True)
class Demand:
    """Consumption of one allocation: per capacity its name, the amount, the amount as text and the device's total."""

    entries: tuple[tuple[str, int, str, int], ...]

    def consumed(self) -> dict[str, str]:
        """Return the `consumedCapacity` of the result."""
        return {name: text for name, _, text, _ in self.entries}

    def fits(self, consumed: Mapping[str, int], more: Mapping[str, int] | None = None) -> bool:
        """Return whether this fits beside allocated amounts (`consumed`) and amounts of the current search (`more`)."""
        if more:
            return all(
                consumed.get(name, 0) + more.get(name, 0) + amount <= total for name, amount, _, total in self.entries
            )
        return all(consumed.get(name, 0) + amount <= total for name, amount, _, total in self.entries)


NOTHING = Demand(())


def capacity_key(capacity: Mapping[str, Any] | None) -> str:
    """Return a key that is equal for equal capacities and policies."""
    return json.dumps(capacity, sort_keys=True) if capacity else ""


def requests_key(requests: Mapping[str, Any] | None) -> str:
    """Return a key that is equal for equal requested amounts."""
    return json.dumps(requests, sort_keys=True) if requests else ""


@lru_cache(maxsize=4096)
def demand(capacity: str, requests: str) -> Demand | str:
    """Return what a request consumes of a device with these capacities, or why the device does not fit.

    The arguments are keys of `capacity_key` and `requests_key`.
    """
    if not capacity and not requests:
        return NOTHING
    rules: dict[str, Any] = json.loads(capacity) if capacity else {}
    amounts: dict[str, Any] = json.loads(requests) if requests else {}
    for name in amounts:
        if name not in rules:
            return f"the device has no capacity {name}"
    entries = []
    for name, rule in rules.items():
        total = nanos(str(rule.get("value", "0")))
        policy = rule.get("requestPolicy")
        amount, text = _amount(amounts.get(name), rule, policy)
        if policy is not None and _violates(amount, policy):
            return f"{text} of capacity {name} is not allowed by its request policy"
        if amount > total:
            return f"{text} of capacity {name} is more than its {rule.get('value')}"
        entries.append((name, amount, text, total))
    return Demand(tuple(entries))


def _read(quantity: Any) -> tuple[int, str]:
    text = str(quantity)
    return nanos(text), canonical(text)


def _amount(requested: Any, rule: Mapping[str, Any], policy: Mapping[str, Any] | None) -> tuple[int, str]:
    if requested is None:
        default = policy.get("default") if policy is not None else None
        return _read(rule.get("value", "0") if default is None else default)
    amount, text = _read(requested)
    if policy is None:
        return amount, text
    allowed = policy.get("validRange")
    if allowed is not None and allowed.get("min") is not None:
        return _in_range(amount, text, allowed)
    for value in policy.get("validValues") or ():
        if amount <= nanos(str(value)):
            return _read(value)
    return amount, text


def _in_range(amount: int, text: str, allowed: Mapping[str, Any]) -> tuple[int, str]:
    least, least_text = _read(allowed["min"])
    if amount < least:
        return least, least_text
    step = _step(allowed)
    if step is None:
        return amount, text
    first = whole_units(least)
    steps = -(-(whole_units(amount) - first) // step)
    units = first + steps * step
    return units * UNIT, binary_text(units)


def _step(allowed: Mapping[str, Any]) -> int | None:
    step = allowed.get("step")
    return None if step is None else whole_units(nanos(str(step))) or 1


def _violates(amount: int, policy: Mapping[str, Any]) -> bool:
    default = policy.get("default")
    if default is not None and amount == nanos(str(default)):
        return False
    allowed = policy.get("validRange")
    if allowed is not None:
        most = allowed.get("max")
        if most is not None and amount > nanos(str(most)):
            return True
        step = _step(allowed)
        least = whole_units(nanos(str(allowed.get("min", "0"))))
        return step is not None and (whole_units(amount) - least) % step != 0
    values = policy.get("validValues")
    return bool(values) and all(amount != nanos(str(value)) for value in values or ())
