"""Which pods have to go because of device taints, and when: claims × slices × rules, kept by events.

Invariants
- Everything follows from the present slices, rules and claims alone, never from the order in which they came.
- Only taints with the effect NoExecute count, and of a pool only the slices of its highest generation.
- An allocation never changes: a claim's eviction changes with slices and rules, and when it is allocated or freed.

Pure: no I/O, no clock. Slices are those of the drivers, rules are looked at beside them, so that it is known which
taint is the reason.

Source of facts: Kubernetes 1.36, package devicetainteviction. Differs: of two slices that taint the same device, the
first by name counts (there: any).
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
    """One taint. In order: those of rules by the rule's name, then those of slices by driver, pool, device and place in
    the device's list.
    """

    in_slice: bool
    rule: str = ""
    uid: str = ""
    """The rule's."""
    driver: str = ""
    pool: str = ""
    device: str = ""
    place: int = 0


@dataclass(frozen=True, slots=True)
class Eviction:
    """When, and because of which taints, in order."""

    when: datetime
    reasons: tuple[Reason, ...]

    def joined(self, other: Eviction | None) -> Eviction:
        """The earlier time of both with the reasons of both."""
        return (
            self
            if other is None
            else Eviction(min(self.when, other.when), tuple(sorted({*self.reasons, *other.reasons})))
        )

    @property
    def rules(self) -> Iterator[tuple[str, str]]:
        """Names and uids of the rules among the reasons."""
        return ((reason.rule, reason.uid) for reason in self.reasons if not reason.in_slice)


class _Slice(NamedTuple):
    """What of a slice matters here."""

    generation: int
    devices: list[Object]
    tainted: dict[str, tuple[tuple[int, Object], ...]]
    """The NoExecute taints of devices, with their places, by device; devices without any are left out."""

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
    """The slices of one pool by name, and what taints the devices of its highest generation."""

    slices: dict[str, _Slice] = field(default_factory=dict)
    tainted: Mapping[str, tuple[tuple[int, Object], ...]] = field(default_factory=dict)

    @property
    def newest(self) -> Iterator[_Slice]:
        generation = max((item.generation for item in self.slices.values()), default=0)
        return (item for _, item in sorted(self.slices.items()) if item.generation == generation)

    def refresh(self) -> set[str]:
        """Looks at the taints again; the names of the devices whose taints changed."""
        before, found = self.tainted, dict[str, tuple[tuple[int, Object], ...]]()
        for item in self.newest:
            for device, taints in item.tainted.items():
                found.setdefault(device, taints)
        self.tainted = found
        return {name for name in before.keys() | found.keys() if before.get(name) != found.get(name)}


class Evictions:
    """What has to be evicted. Methods that take a change give the allocated claims whose eviction changed by it."""

    def __init__(self, with_groups: bool = False, for_workloads: bool = False) -> None:
        self._with_groups, self._for_workloads = with_groups, for_workloads
        self._pools: dict[PoolID, _Pool] = {}
        self._rules: dict[str, Object] = {}
        self._claims: dict[str, Object] = {}
        self._of_claim: dict[str, Eviction] = {}
        self._users: dict[PoolID, set[str]] = {}

    def set_slice(self, old: Object | None, new: Object | None) -> list[Object]:
        """A ResourceSlice was added, changed or deleted. It may have gone to another pool."""
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
            changed += self._judge(users if devices else ())
        return changed

    def set_rule(self, old: Object | None, new: Object | None) -> list[Object]:
        """A DeviceTaintRule was added, changed or deleted. Rules with other effects than NoExecute do not evict."""
        concerned = [rule for rule in (old, new) if rule is not None and rule["spec"]["taint"]["effect"] == NO_EXECUTE]
        for rule in concerned:
            self._rules.pop(rule["metadata"]["name"], None)
        if new is not None and new["spec"]["taint"]["effect"] == NO_EXECUTE:
            self._rules[new["metadata"]["name"]] = new
        return self._judge(
            [key for key, claim in self._claims.items() if any(_selects_any(rule, claim) for rule in concerned)]
        )

    def set_claim(self, key: str, claim: Object | None) -> None:
        """A claim (`namespace/name`) was added or changed; None: it was deleted. Claims without allocation are as good
        as none.
        """
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
        self._judge([key])

    @property
    def none(self) -> bool:
        """Whether nobody has to go."""
        return not self._of_claim

    def of_claim(self, key: str) -> Eviction | None:
        """The eviction of whoever uses the claim."""
        return self._of_claim.get(key)

    def of_pod(self, pod: Object) -> Eviction | None:
        """A pod's eviction: it is on a node and uses claims that demand it. Finished pods and those being deleted count
        as others do.
        """
        if not pod["spec"].get("nodeName"):
            return None
        found: Eviction | None = None
        for entry in pod["spec"].get("resourceClaims") or ():
            eviction = self._of_entry(pod, entry)
            found = found if eviction is None else eviction.joined(found)
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

    def supposing(self, rule: Object) -> Evictions:
        """How it would be if this rule, and no other, evicted. What is there is shared, not changed."""
        supposed = Evictions(self._with_groups, self._for_workloads)
        supposed._pools, supposed._claims = self._pools, self._claims
        supposed.set_rule(
            None, {**rule, "spec": {**rule["spec"], "taint": {**rule["spec"]["taint"], "effect": NO_EXECUTE}}}
        )
        return supposed

    def selected(self, rule: Object) -> tuple[int, int]:
        """How many published and how many allocated devices a rule selects, whatever its effect."""
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

    def _judge(self, keys: Iterable[str]) -> list[Object]:
        changed = []
        for key in sorted(keys):
            eviction = self._judged(self._claims[key])
            if eviction != self._of_claim.get(key):
                changed.append(self._claims[key])
            if eviction is None:
                self._of_claim.pop(key, None)
            else:
                self._of_claim[key] = eviction
        return changed

    def _judged(self, claim: Object) -> Eviction | None:
        times: dict[Reason, datetime] = {}
        for result in _results(claim) or ():
            for reason, taint in self._taints(*_device_of(result)):
                when = _evicted_at(taint, result.get("tolerations") or ())
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


def _evicted_at(taint: Object, tolerations: Iterable[Object]) -> datetime | None:
    """When a taint evicts: as soon as it is there, or when the shortest toleration ends; None if one lasts for ever.
    Only tolerations that name the effect count."""
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
    """As the API says: an empty selector selects every device, a missing one none."""
    return rule["spec"].get("deviceSelector") is not None and rule_matches(rule, driver, pool, device)


def _selects_any(rule: Object, claim: Object) -> bool:
    return any(_selects(rule, *_device_of(result)) for result in _results(claim) or ())


def _device_of(result: Object) -> tuple[str, str, str]:
    return result["driver"], result["pool"], result["device"]


def _results(claim: Object) -> list[Object] | None:
    """The allocated devices; None without an allocation."""
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
