"""The rules of allocation in their plainest form: try everything in order, check everything from scratch.

Written independently of the allocator's own data structures, to compare with; hopeless for more than a few devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from controllers.allocator.selectors import SelectorError
from tests.allocator.worlds import NODE, World, verdict

Raw = dict[str, Any]
DeviceID = tuple[str, str, str]


class Failure(Exception):
    """An allocation error with its text."""


class _TooMany(Exception):
    """Whatever is chosen for the rest of the claim exceeds the limit of results."""


@dataclass
class _Candidate:
    id: DeviceID
    raw: Raw
    slice: Raw


@dataclass
class _Pick:
    claim: int
    request: str
    parent: str | None
    exact: Raw
    device: _Candidate


@dataclass
class Outcome:
    """The picks as (claim, request, device), or None; and whether any pick had to be taken back."""

    picks: list[tuple[int, str, DeviceID]] | None
    backtracked: bool


class BruteForce:
    """One world."""

    def __init__(self, world: World, limit: int) -> None:
        self.world = world
        self.limit = limit
        self.devices = self._sort_devices()
        self.picks: list[_Pick] = []
        self.backtracked = False
        self.alone = {use.device for use in world.uses if not use.share}
        self.everything: dict[int, list[_Candidate]] = {}

    def _sort_devices(self) -> list[_Candidate]:
        pools: dict[DeviceID | tuple[str, str], list[Raw]] = {}
        for item in self.world.slices:
            spec = item["spec"]
            if "sharedCounters" not in spec and self._reaches(spec):
                pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(item)

        def conditions(key: Any) -> bool:
            return any("bindingConditions" in d for s in pools[key] for d in s["spec"]["devices"])

        ordered = []
        for key in sorted(pools, key=lambda key: (conditions(key), key)):
            for item in sorted(pools[key], key=lambda item: item["metadata"]["name"]):
                ordered += [_Candidate((*key, raw["name"]), raw, item) for raw in item["spec"]["devices"]]
        return ordered

    def _reaches(self, spec: Raw) -> bool:
        if spec.get("perDeviceNodeSelection"):
            return any(self._reaches(device) for device in spec["devices"])
        if "nodeName" in spec:
            return bool(spec["nodeName"] == NODE["metadata"]["name"])
        if "nodeSelector" in spec:
            values = spec["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
            return "a" in values
        return bool(spec.get("allNodes"))

    def run(self) -> Outcome:
        """Return the first solution."""
        for claim in self.world.claims:
            least = 0
            for request in claim["spec"]["devices"]["requests"]:
                least += min(self._need(claim, exact) for _, exact in self._alternatives(request))
            if least > self.limit:
                name = f"claim ns/{claim['metadata']['name']}"
                raise Failure(f"{name}: number of requested devices {least} exceeds the claim limit of {self.limit}")
        found = self._claim(0)
        picks = [(p.claim, p.request, p.device.id) for p in self.picks] if found else None
        return Outcome(picks, self.backtracked)

    def _alternatives(self, request: Raw) -> list[tuple[str | None, Raw]]:
        if "firstAvailable" in request:
            return [(choice["name"], choice) for choice in request["firstAvailable"]]
        return [(None, request["exactly"])]

    def _need(self, claim: Raw, exact: Raw) -> int:
        if exact["allocationMode"] == "ExactCount":
            return int(exact["count"])
        found = [d for d in self.devices if self._is_selected(claim, exact, d) and self._room(exact, d)]
        self.everything[id(exact)] = found
        return len(found)

    # --- the search

    def _claim(self, number: int) -> bool:
        if number == len(self.world.claims):
            return True
        try:
            return self._request(number, 0)
        except _TooMany:
            return False

    def _request(self, claim: int, number: int) -> bool:
        requests = self.world.claims[claim]["spec"]["devices"]["requests"]
        if number == len(requests):
            return self._claim(claim + 1)
        request = requests[number]

        def rest() -> bool:
            return self._request(claim, number + 1)

        if "exactly" in request:
            return self._place(claim, request["name"], None, request["exactly"], rest)
        too_many = True
        for choice in request["firstAvailable"]:
            try:
                if self._place(claim, choice["name"], request["name"], choice, rest):
                    return True
                too_many = False
            except _TooMany:
                continue
        if too_many:
            raise _TooMany
        return False

    def _place(self, claim: int, name: str, parent: str | None, exact: Raw, rest: Callable[[], bool]) -> bool:
        if exact["allocationMode"] == "All":
            devices = self.everything[id(exact)]
            if not devices:
                return False
            self._check_limit(claim, len(devices))
            before = len(self.picks)
            found = False
            try:
                found = all(self._take(claim, name, parent, exact, d, must=True) for d in devices) and rest()
            finally:
                if not found:
                    self.backtracked = self.backtracked or len(self.picks) > before
                    del self.picks[before:]
            return found
        if exact["count"]:
            self._check_limit(claim, exact["count"])
        return self._some(claim, name, parent, exact, exact["count"], 0, rest)

    def _check_limit(self, claim: int, more: int) -> None:
        if sum(pick.claim == claim for pick in self.picks) + more > self.limit:
            raise _TooMany

    def _some(
        self, claim: int, name: str, parent: str | None, exact: Raw, count: int, start: int, rest: Callable[[], bool]
    ) -> bool:
        if not count:
            return rest()
        for i in range(start, len(self.devices)):
            device = self.devices[i]
            if self._in_use(claim, exact, device):
                continue
            if not self._is_selected(self.world.claims[claim], exact, device) or not self._room(exact, device):
                continue
            if not self._take(claim, name, parent, exact, device, must=False):
                continue
            before = len(self.picks) - 1
            try:
                if self._some(claim, name, parent, exact, count - 1, i + 1, rest):
                    return True
            except _TooMany:
                del self.picks[before:]
                raise
            del self.picks[before:]
            self.backtracked = True
        return False

    # --- the rules

    def _in_use(self, claim: int, exact: Raw, device: _Candidate) -> bool:
        takers = [p.claim for p in self.picks if p.device is device]
        if device.raw.get("allowMultipleAllocations"):
            takers = []
        if exact.get("adminAccess"):
            return claim in takers
        return device.id in self.alone or bool(takers)

    def _is_selected(self, claim: Raw, exact: Raw, device: _Candidate) -> bool:
        for selector in exact["selectors"]:
            found = verdict(selector["cel"]["expression"], device.raw)
            if isinstance(found, SelectorError):
                name = claim["metadata"]["name"]
                raise Failure(f"claim ns/{name}: selector #0: CEL {found.kind} error: {found.text}")
            if not found:
                return False
        spec = device.slice["spec"]
        return not spec.get("perDeviceNodeSelection") or self._reaches(device.raw)

    def _demand(self, exact: Raw, device: _Candidate) -> dict[str, int] | None:
        wanted = exact.get("capacity", {}).get("requests", {})
        capacity = device.raw.get("capacity", {})
        if set(wanted) - set(capacity):
            return None
        result = {}
        for name, rule in capacity.items():
            policy = rule.get("requestPolicy", {})
            amount = int(wanted[name]) if name in wanted else int(policy.get("default", rule["value"]))
            if name in wanted and "validRange" in policy:
                amount += (amount - 1) % 2
            if name in wanted and "validValues" in policy:
                fitting = [int(value) for value in policy["validValues"] if int(value) >= amount]
                if not fitting:
                    return None
                amount = fitting[0]
            result[name] = amount
        return result

    def _room(self, exact: Raw, device: _Candidate) -> bool:
        demand = self._demand(exact, device)
        if demand is None:
            return False
        for name, amount in demand.items():
            taken = amount * 10**9
            for use in self.world.uses:
                taken += sum(v for k, v in use.capacity if k == name and use.device == device.id)
            for pick in self.picks:
                if pick.device is device and device.raw.get("allowMultipleAllocations"):
                    taken += (self._demand(pick.exact, device) or {})[name] * 10**9
            if taken > int(device.raw["capacity"][name]["value"]) * 10**9:
                return False
        return True

    def _take(self, claim: int, name: str, parent: str | None, exact: Raw, device: _Candidate, must: bool) -> bool:
        if self._in_use(claim, exact, device) or not self._counters_suffice(exact, device):
            return False
        for taint in device.raw.get("taints", ()):
            tolerated = any(item["key"] == taint["key"] for item in exact.get("tolerations", ()))
            if taint["effect"] != "None" and not tolerated:
                return False
        full_name = name if parent is None else f"{parent}/{name}"
        pick = _Pick(claim, full_name, parent, exact, device)
        for constraint in self.world.claims[claim]["spec"]["devices"]["constraints"]:
            if not self._is_satisfied(constraint, pick):
                if must:
                    label = f"claim ns/{self.world.claims[claim]['metadata']['name']}, request {name}"
                    text = f"cannot add device {'/'.join(device.id)} because a claim constraint would not be satisfied"
                    raise Failure(f"{label}: {text}")
                return False
        if not self._room(exact, device):
            return False
        self.picks.append(pick)
        return True

    def _is_satisfied(self, constraint: Raw, pick: _Pick) -> bool:
        def counts(item: _Pick) -> bool:
            wanted = constraint["requests"]
            return item.claim == pick.claim and (not wanted or item.request in wanted or item.parent in wanted)

        if not counts(pick):
            return True
        values = [_values(item.device.raw) for item in (*filter(counts, self.picks), pick)]
        if values[-1] is None:
            return False
        sets = [value for value in values if value is not None]
        if "matchAttribute" in constraint:
            return bool(frozenset.intersection(*sets))
        return all(not sets[-1] & other for other in sets[:-1])

    def _counters_suffice(self, exact: Raw, device: _Candidate) -> bool:
        if not device.raw.get("consumesCounters") or exact.get("adminAccess"):
            return True
        used = {use.device for use in self.world.uses}
        taken = [p.device for p in self.picks if not p.exact.get("adminAccess")]
        if device.raw.get("allowMultipleAllocations") and (device.id in used or device in taken):
            return True
        pool = device.id[:2]
        paying = [device, *(d for d in _distinct(taken) if d.id[:2] == pool)]
        paying = [d for d in paying if not (d.raw.get("allowMultipleAllocations") and d.id in used)]
        totals: dict[tuple[str, str], int] = {}
        for item in self.world.slices:
            spec = item["spec"]
            if (spec["driver"], spec["pool"]["name"]) != pool:
                continue
            for counter_set in spec.get("sharedCounters", ()):
                for name, counter in counter_set["counters"].items():
                    totals[counter_set["name"], name] = totals.get((counter_set["name"], name), 0) + int(
                        counter["value"]
                    )
            for raw in spec.get("devices", ()):
                if (*pool, raw["name"]) in used:
                    _consume(totals, raw)
        for candidate in paying:
            _consume(totals, candidate.raw)
        return all(left >= 0 for left in totals.values())


def _distinct(devices: list[_Candidate]) -> list[_Candidate]:
    return list({id(device): device for device in devices}.values())


def _consume(totals: dict[tuple[str, str], int], raw: Raw) -> None:
    for use in raw.get("consumesCounters", ()):
        for name, counter in use["counters"].items():
            key = (use["counterSet"], name)
            totals[key] = totals.get(key, 0) - int(counter["value"])


def _values(raw: Raw) -> frozenset[tuple[str, Any]] | None:
    attribute = raw["attributes"].get("numa")
    if attribute is None:
        return None
    [(kind, value)] = attribute.items()
    return frozenset((kind[:3], item) for item in value) if kind == "ints" else frozenset(((kind[:3], value),))
