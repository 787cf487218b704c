"""Evictions of pods because of device taints, computed from claims, slices and rules and updated by events.

Invariants
- Evictions depend only on the current slices, rules and claims, not on the order of events.
- Only NoExecute taints count, and only the slices of a pool's highest generation.
- Allocations are immutable: a claim's eviction changes only with slices and rules, and with (de)allocation.

Pure: no I/O, no clock. Rules are evaluated separately from the drivers' slices, to know the reason of each eviction.

Source of facts: Kubernetes 1.36, package devicetainteviction. Differs: of two slices with taints for the same device,
the first by name counts (upstream: any).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from apiserver.api.helpers.tolerations import tolerates
from apiserver.api.values.durations import go_seconds
from controllers.resourceclaims.pods import ClaimReferenceError, claim_reference, is_reserved_for_pod, not_for_pod
from controllers.resourceclaims.taints import rule_matches
from controllers.runtime.times import parse_time

Object = dict[str, Any]
PoolID = tuple[str, str]

NO_EXECUTE: Final = "NoExecute"


class Reason(NamedTuple):
    """One taint.

    Sort order: taints of rules by rule name, then taints of slices by driver, pool, device and index.
    """

    in_slice: bool
    rule: str = ""
    uid: str = ""
    """The uid of the rule."""
    driver: str = ""
    pool: str = ""
    device: str = ""
    place: int = 0


@dataclass(frozen=True, slots=True)
class Eviction:
    """The time of an eviction and its reasons, sorted."""

    when: datetime
    reasons: tuple[Reason, ...]

    def merge(self, other: Eviction | None) -> Eviction:
        """Combine two evictions: the earlier time, the reasons of both."""
        return (
            self
            if other is None
            else Eviction(min(self.when, other.when), tuple(sorted({*self.reasons, *other.reasons})))
        )

    @property
    def rules(self) -> Iterator[tuple[str, str]]:
        """The names and uids of the rules among the reasons."""
        return ((reason.rule, reason.uid) for reason in self.reasons if not reason.in_slice)


class _Slice(NamedTuple):
    """The relevant fields of a ResourceSlice."""

    generation: int
    devices: list[Object]
    tainted: dict[str, tuple[tuple[int, Object], ...]]
    """NoExecute taints with their index, by device; only devices with such taints."""

    @classmethod
    def of(cls, item: Object) -> _Slice:
        devices = item["spec"].get("devices") or []
        tainted = {}
        for device in devices:
            if device.get("taints"):
                taints = tuple(
                    (place, taint) for place, taint in enumerate(device["taints"]) if taint["effect"] == NO_EXECUTE
                )
                if taints:
                    tainted[device["name"]] = taints
        return cls(item["spec"]["pool"]["generation"], devices, tainted)


@dataclass(slots=True)
class _Pool:
    """The slices of one pool by name, and the taints in its highest generation."""

    slices: dict[str, _Slice] = field(default_factory=dict)
    tainted: Mapping[str, tuple[tuple[int, Object], ...]] = field(default_factory=dict)

    @property
    def newest(self) -> Iterator[_Slice]:
        generation = max((item.generation for item in self.slices.values()), default=0)
        return (item for _, item in sorted(self.slices.items()) if item.generation == generation)

    def refresh(self) -> set[str]:
        """Recompute the taints. Return the names of devices with changed taints."""
        before, found = self.tainted, dict[str, tuple[tuple[int, Object], ...]]()
        for item in self.newest:
            for device, taints in item.tainted.items():
                found.setdefault(device, taints)
        self.tainted = found
        return {name for name in before.keys() | found.keys() if before.get(name) != found.get(name)}


class Evictions:
    """All evictions. The `set_` methods return the allocated claims whose eviction changed."""

    def __init__(self, with_groups: bool = False, for_workloads: bool = False) -> None:
        self._with_groups, self._for_workloads = with_groups, for_workloads
        self._pools: dict[PoolID, _Pool] = {}
        self._rules: dict[str, Object] = {}
        self._claims: dict[str, Object] = {}
        self._of_claim: dict[str, Eviction] = {}
        self._users: dict[PoolID, set[str]] = {}

    def set_slice(self, old: Object | None, new: Object | None) -> list[Object]:
        """Add, update or delete a ResourceSlice, which may move to another pool."""
        changed: list[Object] = []
        for pool_id in sorted({_pool_of(item) for item in (old, new) if item is not None}):
            pool = self._pools.setdefault(pool_id, _Pool())
            if old is not None and _pool_of(old) == pool_id:
                pool.slices.pop(old["metadata"]["name"], None)
            if new is not None and _pool_of(new) == pool_id:
                pool.slices[new["metadata"]["name"]] = _Slice.of(new)
            devices = pool.refresh()
            if not pool.slices:
                del self._pools[pool_id]
            users = (key for key in self._users.get(pool_id, ()) if _uses(self._claims[key], pool_id, devices))
            changed += self._update(users if devices else ())
        return changed

    def set_rule(self, old: Object | None, new: Object | None) -> list[Object]:
        """Add, update or delete a DeviceTaintRule. Rules with effects other than NoExecute do not evict."""
        evicting = [rule for rule in (old, new) if rule is not None and rule["spec"]["taint"]["effect"] == NO_EXECUTE]
        for rule in evicting:
            self._rules.pop(rule["metadata"]["name"], None)
        if new is not None and new["spec"]["taint"]["effect"] == NO_EXECUTE:
            self._rules[new["metadata"]["name"]] = new
        return self._update(
            [key for key, claim in self._claims.items() if any(_selects_any(rule, claim) for rule in evicting)]
        )

    def set_claim(self, key: str, claim: Object | None) -> None:
        """Add, update or delete (None) the claim `namespace/name`. Claims without allocation count as deleted."""
        for pool_id in _pools(self._claims.pop(key, {})):
            self._users[pool_id].discard(key)
            if not self._users[pool_id]:
                del self._users[pool_id]
        if claim is None or _results(claim) is None:
            self._of_claim.pop(key, None)
            return
        self._claims[key] = claim
        for pool_id in _pools(claim):
            self._users.setdefault(pool_id, set()).add(key)
        self._update([key])

    @property
    def is_empty(self) -> bool:
        """True if no claim requires eviction."""
        return not self._of_claim

    def of_claim(self, key: str) -> Eviction | None:
        """Return the eviction of the pods that use the claim."""
        return self._of_claim.get(key)

    def of_pod(self, pod: Object) -> Eviction | None:
        """Return the eviction of a bound pod that uses tainted devices, even if it finished or is being deleted."""
        if not pod["spec"].get("nodeName"):
            return None
        found: Eviction | None = None
        for entry in pod["spec"].get("resourceClaims") or ():
            eviction = self._of_entry(pod, entry)
            found = found if eviction is None else eviction.merge(found)
        return found

    def _of_entry(self, pod: Object, entry: Object) -> Eviction | None:
        try:
            reference = claim_reference(pod, entry)
        except ClaimReferenceError:
            return None
        key = f"{pod['metadata']['namespace']}/{reference.name}"
        claim = self._claims.get(key)
        if claim is None or (reference.check_owner and not_for_pod(pod, claim, self._with_groups)):
            return None
        used = is_reserved_for_pod(pod, claim, self._with_groups, self._for_workloads)
        return self._of_claim.get(key) if used else None

    def simulate(self, rule: Object) -> Evictions:
        """Return the evictions if only this rule existed, with effect NoExecute. Shares the state read-only."""
        simulated = Evictions(self._with_groups, self._for_workloads)
        simulated._pools, simulated._claims = self._pools, self._claims
        simulated.set_rule(
            None, {**rule, "spec": {**rule["spec"], "taint": {**rule["spec"]["taint"], "effect": NO_EXECUTE}}}
        )
        return simulated

    def count_selected(self, rule: Object) -> tuple[int, int]:
        """Count the published and the allocated devices that a rule selects, regardless of its effect."""
        published = sum(
            _selects(rule, *pool_id, device["name"])
            for pool_id, pool in self._pools.items()
            for item in pool.newest
            for device in item.devices
        )
        allocated = sum(
            _selects(rule, *_device_of(result)) for claim in self._claims.values() for result in _results(claim) or ()
        )
        return published, allocated

    def _update(self, keys: Iterable[str]) -> list[Object]:
        changed = []
        for key in sorted(keys):
            eviction = self._eviction_of(self._claims[key])
            if eviction != self._of_claim.get(key):
                changed.append(self._claims[key])
            if eviction is None:
                self._of_claim.pop(key, None)
            else:
                self._of_claim[key] = eviction
        return changed

    def _eviction_of(self, claim: Object) -> Eviction | None:
        times: dict[Reason, datetime] = {}
        for result in _results(claim) or ():
            for reason, taint in self._taints(*_device_of(result)):
                when = _eviction_time(taint, result.get("tolerations") or ())
                if when is not None:
                    times[reason] = min(when, times.get(reason, when))
        return Eviction(min(times.values()), tuple(sorted(times))) if times else None

    def _taints(self, driver: str, pool: str, device: str) -> Iterator[tuple[Reason, Object]]:
        known = self._pools.get((driver, pool))
        for place, taint in known.tainted.get(device, ()) if known is not None else ():
            yield Reason(True, driver=driver, pool=pool, device=device, place=place), taint
        for name, rule in self._rules.items():
            if _selects(rule, driver, pool, device):
                yield Reason(False, name, rule["metadata"]["uid"]), rule["spec"]["taint"]


def _eviction_time(taint: Object, tolerations: Iterable[Object]) -> datetime | None:
    """Return when a taint evicts: when added, or after the shortest toleration; None if one is unlimited.

    Only tolerations with effect NoExecute count.
    """
    seconds: list[int] = []
    for toleration in tolerations:
        if toleration.get("effect") == NO_EXECUTE and tolerates(
            toleration, taint["key"], taint.get("value") or "", NO_EXECUTE
        ):
            if toleration.get("tolerationSeconds") is None:
                return None
            seconds.append(max(0, toleration["tolerationSeconds"]))
    return parse_time(taint["timeAdded"]) + go_seconds(min(seconds, default=0))


def _selects(rule: Object, driver: str, pool: str, device: str) -> bool:
    """Return whether a rule selects a device. An empty selector selects all devices, a missing one none."""
    return rule["spec"].get("deviceSelector") is not None and rule_matches(rule, driver, pool, device)


def _selects_any(rule: Object, claim: Object) -> bool:
    return any(_selects(rule, *_device_of(result)) for result in _results(claim) or ())


def _device_of(result: Object) -> tuple[str, str, str]:
    return result["driver"], result["pool"], result["device"]


def _results(claim: Object) -> list[Object] | None:
    """Return the allocation results; None without an allocation."""
    allocation = (claim.get("status") or {}).get("allocation")
    return None if allocation is None else (allocation.get("devices") or {}).get("results") or []


def _pools(claim: Object) -> set[PoolID]:
    return {(result["driver"], result["pool"]) for result in _results(claim) or ()}


def _pool_of(item: Object) -> PoolID:
    return item["spec"]["driver"], item["spec"]["pool"]["name"]


def _uses(claim: Object, pool: PoolID, devices: Collection[str]) -> bool:
    return any(
        (result["driver"], result["pool"]) == pool and result["device"] in devices for result in _results(claim) or ()
    )
