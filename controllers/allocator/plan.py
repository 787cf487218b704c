"""Compiled claims of a pod, built once per pod: requests, alternatives, constraints and their problems.

Invariants
- A plan does not depend on nodes, slices or allocations. Its problems are stored in reporting order: the problem of an
  earlier request takes precedence, even over problems found later on a node.

Source of facts: Kubernetes 1.36,
staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go and
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (PreFilter).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from controllers.allocator.allocated import claim_name
from controllers.allocator.capacity import requests_key
from controllers.allocator.devices import Object
from controllers.allocator.errors import Rejection
from controllers.allocator.features import Features
from controllers.allocator.view import Chain

RESULTS_LIMIT: Final = 32
_MAX_INT: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """One way to satisfy a request: the request itself, or one of its subrequests."""

    claim: int
    request: int
    number: int
    name: str
    """The name without parent."""
    result_name: str
    """The name in results: `request` or `request/subrequest`."""
    parent: str | None
    raw: Object
    count: int
    """Number of devices; for "all devices" known only per node."""
    everything: bool
    admin: bool
    chain: Chain
    tolerations: Sequence[Object]
    tolerations_key: str
    capacity: str
    device_class: Object | None
    problem: str | None
    """An error independent of the node."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request of a claim."""

    claim: int
    name: str
    prioritized: bool
    alternatives: tuple[Alternative, ...]
    problem: str | None = None
    """An error reported before those of the alternatives."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """`matchAttribute` or `distinctAttribute` over some or all requests of a claim."""

    attribute: str
    distinct: bool
    requests: frozenset[str]

    def applies(self, alternative: Alternative) -> bool:
        """Return whether the constraint includes devices of this alternative."""
        if not self.requests or alternative.result_name in self.requests:
            return True
        return alternative.parent is not None and alternative.parent in self.requests


@dataclass(frozen=True, slots=True, eq=False)
class ClaimPlan:
    """One claim."""

    raw: Object
    name: str
    """`namespace/name`, for messages."""
    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    problem: str | None = None
    """An error in its constraints."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All claims of a pod to be allocated together."""

    claims: tuple[ClaimPlan, ...]
    simple: bool = field(default=False)
    """True if the claims have no problems and no node-dependent counts: no validation per node."""

    @property
    def requests(self) -> tuple[Request, ...]:
        """The requests of all claims in order."""
        return tuple(request for claim in self.claims for request in claim.requests)


def make_plan(claims: Sequence[Object], classes: Mapping[str, Object], features: Features) -> Plan:
    """Compile the claims."""
    plans = tuple(_claim(number, claim, classes, features) for number, claim in enumerate(claims))
    return Plan(plans, all(map(_is_simple, plans)))


def _is_simple(claim: ClaimPlan) -> bool:
    least = 0
    for request in claim.requests:
        if request.problem or any(item.problem or item.everything for item in request.alternatives):
            return False
        least += min(item.count for item in request.alternatives)
    return least <= RESULTS_LIMIT and claim.problem is None


def _claim(number: int, claim: Object, classes: Mapping[str, Object], features: Features) -> ClaimPlan:
    devices = (claim.get("spec") or {}).get("devices") or {}
    reader = _Reader(number, claim_name(claim), classes, features)
    requests = tuple(reader.request(i, raw) for i, raw in enumerate(devices.get("requests") or ()))
    constraints: list[Constraint] = []
    problem = None
    for i, raw in enumerate(devices.get("constraints") or ()):
        attribute, distinct = raw.get("matchAttribute"), False
        if attribute is None:
            attribute, distinct = raw.get("distinctAttribute"), True
        if attribute is None:
            problem = f"claim {reader.label}, constraint #{i}: empty constraint (unsupported constraint type?)"
            break
        constraints.append(Constraint(attribute, distinct, frozenset(raw.get("requests") or ())))
    return ClaimPlan(claim, reader.label, requests, tuple(constraints), problem)


@dataclass(frozen=True, slots=True)
class _Reader:
    claim: int
    label: str
    classes: Mapping[str, Object]
    features: Features

    def request(self, index: int, raw: Object) -> Request:
        name = raw["name"]
        choices = raw.get("firstAvailable") or ()
        problem = self._gate_problem(name, raw)
        if choices:
            alternatives = [self._alternative(index, i, name, choice) for i, choice in enumerate(choices)]
        else:
            alternatives = [self._alternative(index, 0, None, {**(raw.get("exactly") or {}), "name": name})]
        return Request(self.claim, name, bool(choices), tuple(alternatives), problem)

    def _gate_problem(self, name: str, raw: Object) -> str | None:
        choices = raw.get("firstAvailable") or ()
        if choices and not self.features.prioritized_list:
            return (
                f"claim {self.label}, request {name}: has subrequests, but the DRAPrioritizedList feature is disabled"
            )
        if self.features.consumable_capacity:
            return None
        disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if (raw.get("exactly") or {}).get("capacity") is not None:
            return f"claim {self.label}, request {name}: {disabled}"
        for choice in choices:
            if choice.get("capacity") is not None:
                return f"claim {self.label}, subrequest {choice['name']}: {disabled}"
        return None

    def _alternative(self, request: int, number: int, parent: str | None, raw: Object) -> Alternative:
        name = raw["name"]
        device_class = self.classes.get(raw.get("deviceClassName") or "")
        mode = raw.get("allocationMode") or ""
        tolerations = raw.get("tolerations") or []
        capacity = requests_key((raw.get("capacity") or {}).get("requests"))
        return Alternative(
            claim=self.claim,
            request=request,
            number=number,
            name=name,
            result_name=name if parent is None else f"{parent}/{name}",
            parent=parent,
            raw=raw,
            count=(raw.get("count") or 0) if mode == "ExactCount" else 0,
            everything=mode == "All",
            admin=parent is None and bool(raw.get("adminAccess")),
            chain=Chain(_expressions((device_class or {}).get("spec")), _expressions(raw)),
            tolerations=tolerations,
            tolerations_key=json.dumps(tolerations, sort_keys=True) if tolerations else "",
            capacity=capacity,
            device_class=device_class,
            problem=self._problem(parent, raw, device_class, mode),
        )

    def _problem(self, parent: str | None, raw: Object, device_class: Object | None, mode: str) -> str | None:
        where = f"claim {self.label}, request {raw['name']}"
        for i, selector in enumerate(raw.get("selectors") or ()):
            if selector.get("cel") is None:
                return f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)"
        if parent is None and raw.get("adminAccess") is not None and not self.features.admin_access:
            return f"{where}: admin access is requested, but the feature is disabled"
        name = raw.get("deviceClassName")
        if not name:
            return f"{where}: missing device class name (unsupported request type?)"
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            return f"{where}: could not retrieve device class {name}: {missing}"
        if mode not in ("ExactCount", "All"):
            return f"{where}: unsupported count mode {mode}"
        if mode == "ExactCount" and (raw.get("count") or 0) > _MAX_INT:
            return f"{where}: exact count {raw['count']} is too large"
        return None


def _expressions(holder: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the expressions of the selectors of a class spec or request."""
    selectors = (holder or {}).get("selectors") or ()
    return tuple((selector.get("cel") or {}).get("expression", "") for selector in selectors)


def prefilter(claims: Sequence[Object], classes: Mapping[str, Object], features: Features) -> Rejection | None:
    """Return the first rejection of the claims on every node, with the message of the scheduler's PreFilter."""
    for claim in claims:
        for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
            where = f"resource claim {claim_name(claim)}, request {request['name']}"
            if request.get("exactly") is not None:
                rejection = _class_missing(request["name"], request["exactly"], classes)
            elif not request.get("firstAvailable"):
                rejection = Rejection(f"{where}: unknown request type")
            elif not features.prioritized_list:
                rejection = Rejection(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
            else:
                choices = request["firstAvailable"]
                found = (_class_missing(f"{request['name']}/{item['name']}", item, classes) for item in choices)
                rejection = next((item for item in found if item is not None), None)
            if rejection is not None:
                return rejection
    return None


def _class_missing(name: str, request: Object, classes: Mapping[str, Object]) -> Rejection | None:
    device_class = request.get("deviceClassName")
    if not device_class:
        return Rejection(f"request {name}: unsupported request type", unresolvable=False)
    if device_class not in classes:
        return Rejection(f"request {name}: device class {device_class} does not exist")
    return None
