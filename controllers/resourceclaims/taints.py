"""Device taints: ResourceSlices with DeviceTaintRules applied.

Invariants
- A slice without matching rules is passed on as the same object. Other slices are copied, with the taints of the
  matching rules appended to those of each device, in order of the rules' names.
- Consumers are notified when a slice changes, and when rules change the taints of one of its devices.

Source of facts: Kubernetes 1.36, package resourceslice/tracker. A rule without a selector matches every device, as
upstream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]

_TAINT_FIELDS: Final = ("key", "value", "effect", "timeAdded")


def rule_matches(rule: Mapping[str, Any], driver: str, pool: str, device: str | None = None) -> bool:
    """Return whether a DeviceTaintRule selects a device, or for None whether it can select one of the pool."""
    selector = rule["spec"].get("deviceSelector") or {}
    if selector.get("driver") is not None and selector["driver"] != driver:
        return False
    if selector.get("pool") is not None and selector["pool"] != pool:
        return False
    return device is None or selector.get("device") is None or bool(selector["device"] == device)


@dataclass(frozen=True, slots=True)
class SliceChange:
    """The old and the new version of a slice for consumers; None if it does not exist."""

    old: Object | None
    new: Object | None


class SliceTracker:
    """All slices with the rules applied. With rules disabled, slices are passed on unchanged."""

    def __init__(self, rules_enabled: bool = True) -> None:
        self._enabled = rules_enabled
        self._slices: dict[str, Object] = {}
        self._patched: dict[str, Object] = {}
        self._rules: dict[str, Object] = {}
        self._by_pool: dict[tuple[str, str], set[str]] = {}

    @property
    def slices(self) -> dict[str, Object]:
        """The slices for consumers, by name."""
        return self._patched

    def upsert_slice(self, item: Object) -> list[SliceChange]:
        """Add or update a ResourceSlice."""
        name = item["metadata"]["name"]
        self._unlink(name)
        self._slices[name] = item
        self._by_pool.setdefault(_pool(item), set()).add(name)
        old = self._patched.get(name)
        new = self._patched[name] = self._apply(item)
        return [SliceChange(old, new)]

    def remove_slice(self, name: str) -> list[SliceChange]:
        """Remove a ResourceSlice."""
        self._unlink(name)
        self._slices.pop(name, None)
        old = self._patched.pop(name, None)
        return [] if old is None else [SliceChange(old, None)]

    def upsert_rule(self, rule: Object) -> list[SliceChange]:
        """Add or update a DeviceTaintRule."""
        if not self._enabled:
            return []
        name = rule["metadata"]["name"]
        previous = self._rules.get(name)
        self._rules[name] = rule
        self._rules = dict(sorted(self._rules.items()))
        return self._sync([rule] if previous is None else [previous, rule])

    def remove_rule(self, name: str) -> list[SliceChange]:
        """Remove a DeviceTaintRule."""
        previous = self._rules.pop(name, None)
        return [] if previous is None else self._sync([previous])

    def _unlink(self, name: str) -> None:
        previous = self._slices.get(name)
        if previous is not None:
            names = self._by_pool[_pool(previous)]
            names.discard(name)
            if not names:
                del self._by_pool[_pool(previous)]

    def _sync(self, rules: Iterable[Object]) -> list[SliceChange]:
        names: set[str] = set()
        for rule in rules:
            for pool, members in self._by_pool.items():
                if rule_matches(rule, *pool):
                    names |= members
        changes = []
        for name in sorted(names):
            old, new = self._patched[name], self._apply(self._slices[name])
            if _taints(old) != _taints(new):
                self._patched[name] = new
                changes.append(SliceChange(old, new))
        return changes

    def _apply(self, item: Object) -> Object:
        driver, pool = _pool(item)
        rules = [rule for rule in self._rules.values() if rule_matches(rule, driver, pool)]
        devices = item["spec"].get("devices")
        if not rules or not devices:
            return item
        patched = [_add_taints(device, rules, driver, pool) for device in devices]
        if all(new is old for new, old in zip(patched, devices, strict=True)):
            return item
        return {**item, "spec": {**item["spec"], "devices": patched}}


def _pool(item: Object) -> tuple[str, str]:
    return (item["spec"]["driver"], item["spec"]["pool"]["name"])


def _add_taints(device: Object, rules: Iterable[Object], driver: str, pool: str) -> Object:
    taints = [
        {field: rule["spec"]["taint"][field] for field in _TAINT_FIELDS if rule["spec"]["taint"].get(field) is not None}
        for rule in rules
        if rule_matches(rule, driver, pool, device["name"])
    ]
    return {**device, "taints": [*(device.get("taints") or ()), *taints]} if taints else device


def _taints(item: Object) -> list[list[tuple[Any, ...]]]:
    """Return the taints of every device in a comparable form."""
    return [
        [tuple(taint.get(field) or None for field in _TAINT_FIELDS) for taint in device.get("taints") or ()]
        for device in item["spec"].get("devices") or ()
    ]
