"""Candidate devices of one node for each alternative of a plan, before any device is picked.

Invariants
- Everything here is constant during a search on the node, independent of its picks.

Source of facts: Kubernetes 1.36,
staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from typing import Any

from controllers.allocator.errors import AllocationError
from controllers.allocator.plan import RESULTS_LIMIT, Alternative, ClaimPlan, Constraint, Plan
from controllers.allocator.selectors import Selectors
from controllers.allocator.view import NodeView, Selection, SelectionError, bits

Elements = frozenset[tuple[str, Any]]
"""The values of an attribute with their types: one for scalars, none for unknown types."""


class AttributeIndex:
    """The values of one attribute on all devices of a view."""

    __slots__ = ("elements", "known", "lists", "present", "with_element")

    def __init__(self, view: NodeView, name: str) -> None:
        self.lists = view.features.list_type_attributes
        self.present = 0
        self.known = 0
        self.elements: dict[int, Elements] = {}
        self.with_element: dict[tuple[str, Any], int] = {}
        for position, device in enumerate(view.devices):
            value = device.attribute(name)
            if value is None:
                continue
            bit = 1 << position
            self.present |= bit
            elements = self.elements[position] = _elements(value, self.lists)
            if elements:
                self.known |= bit
            for element in elements:
                self.with_element[element] = self.with_element.get(element, 0) | bit

    @staticmethod
    def of(view: NodeView, name: str) -> AttributeIndex:
        """Return the index of an attribute, cached per view."""
        key = ("attribute", name)
        index: AttributeIndex | None = view.caches.get(key)
        if index is None:
            index = view.caches[key] = AttributeIndex(view, name)
        return index

    def allowed_mask(self, constraint: Constraint, state: Elements | None) -> int:
        """Return the devices that satisfy the constraint after picks with this state (None: no picks yet)."""
        if state is None:
            return self.known if self.lists and not constraint.distinct else self.present
        mask = 0
        for element in state:
            mask |= self.with_element.get(element, 0)
        return self.known & ~mask if constraint.distinct else mask

    def next_state(self, constraint: Constraint, state: Elements | None, position: int) -> Elements:
        """Return the state after picking a device."""
        elements = self.elements[position]
        if state is None:
            return elements
        return state | elements if constraint.distinct else state & elements


def _elements(value: dict[str, Any] | Any, lists: bool) -> Elements:
    if lists:
        for kind in ("int", "bool", "string", "version"):
            several = value.get(f"{kind}s")
            if several:
                return frozenset((kind, item) for item in several)
    for kind in ("string", "int", "bool", "version"):
        single = value.get(kind)
        if single is not None:
            return frozenset(((kind, single),))
    return frozenset()


class Candidates:
    """Candidate devices of one alternative on one node."""

    __slots__ = (
        "_eligible",
        "alternative",
        "base",
        "constraints",
        "everything",
        "everything_mask",
        "need",
        "reach",
        "selected",
        "unit",
    )

    def __init__(self, alternative: Alternative, claim: ClaimPlan, view: NodeView, selectors: Selectors) -> None:
        self.alternative = alternative
        self.unit = 0
        """The position of the request among all requests of the plan."""
        self.selected: Selection = view.selection(alternative.chain, selectors)
        self.need = alternative.count
        self.everything: list[int] = []
        self.everything_mask = 0
        self._eligible = view.tolerated_mask(alternative.tolerations_key, alternative.tolerations)
        if view.with_capacity or alternative.capacity:
            self._eligible &= view.capable_mask(alternative.capacity)
        self.reach = 0
        """The devices to evaluate; selector errors of other devices are ignored."""
        self.base = 0
        """The devices that can be picked if selected."""
        self.constraints = tuple(
            (number, constraint, AttributeIndex.of(view, constraint.attribute))
            for number, constraint in enumerate(claim.constraints)
            if constraint.applies(alternative)
        )
        self.refresh(view)

    def refresh(self, view: NodeView) -> None:
        """Recompute the masks that depend on allocations."""
        alternative = self.alternative
        self.reach = view.all if alternative.admin else view.all & ~view.used
        self.base = self.reach & self._eligible
        if view.consumed:
            self.base &= ~view.exhausted_mask(alternative.capacity)
        if view.consumers:
            self.base &= ~_blocked_by_counters(view, alternative)

    def allowed_mask(self, states: tuple[Elements | None, ...]) -> int:
        """Return the devices that satisfy the constraints of the claim."""
        mask = -1
        for number, constraint, index in self.constraints:
            mask &= index.allowed_mask(constraint, states[number])
        return mask

    def next_states(self, states: tuple[Elements | None, ...], position: int) -> tuple[Elements | None, ...]:
        """Return the states of the claim's constraints after picking a device for this alternative."""
        if not self.constraints:
            return states
        new = list(states)
        for number, constraint, index in self.constraints:
            new[number] = index.next_state(constraint, new[number], position)
        return tuple(new)


def capacity_mask(view: NodeView, alternative: Alternative) -> int:
    """Return the devices with enough capacity left for an alternative."""
    if not view.features.consumable_capacity:
        return view.all
    capable = view.capable_mask(alternative.capacity)
    return capable & ~view.exhausted_mask(alternative.capacity) if view.consumed else capable


def _blocked_by_counters(view: NodeView, alternative: Alternative) -> int:
    """Return the devices that are unusable because of their counters, regardless of other picks."""
    if not view.features.partitionable_devices:
        return view.consumers
    return 0 if alternative.admin else view.overdrawn & ~(view.multiple & view.paid)


def candidates_for(plan: Plan, view: NodeView, selectors: Selectors) -> list[list[Candidates]]:
    """Return the candidates of every request's alternatives. Raise AllocationError for an invalid claim."""
    result: list[list[Candidates]] = []
    for claim in plan.claims:
        least = 0
        for request in claim.requests:
            if request.problem:
                raise AllocationError(request.problem)
            choices = []
            for alternative in request.alternatives:
                if alternative.problem:
                    raise AllocationError(alternative.problem)
                item = Candidates(alternative, claim, view, selectors)
                item.unit = len(result)
                if alternative.everything:
                    _find_everything(item, claim, view)
                choices.append(item)
            least += min(item.need for item in choices)
            result.append(choices)
        if least > RESULTS_LIMIT:
            limit = f"exceeds the claim limit of {RESULTS_LIMIT}"
            raise AllocationError(f"claim {claim.name}: number of requested devices {least} {limit}")
        if claim.problem:
            raise AllocationError(claim.problem)
    return result


def _find_everything(item: Candidates, claim: ClaimPlan, view: NodeView) -> None:
    """Determine the devices of an "all devices" request. Raise AllocationError if a pool is unusable."""
    selected, alternative = item.selected, item.alternative
    broken = next(((p, s) for p, s in zip(view.pools, view.starts, strict=True) if p.status != "usable"), None)
    end = view.size if broken is None else broken[1]
    if selected.known < end:
        selected.extend(end)
    failed = selected.failed & ((1 << end) - 1)
    if failed:
        raise selection_error(claim, alternative, selected.errors[next(bits(failed))])
    if broken is not None:
        state = "being updated" if broken[0].status == "incomplete" else "invalid"
        where = f"claim {claim.name}, request {alternative.name}"
        raise AllocationError(f"{where}: asks for all devices, but resource pool {broken[0]} is currently {state}")
    item.everything_mask = selected.mask & capacity_mask(view, alternative)
    item.everything = list(bits(item.everything_mask))
    item.need = len(item.everything)


def selection_error(claim: ClaimPlan, alternative: Alternative, error: SelectionError) -> AllocationError:
    """Return the AllocationError for a failed selector, with upstream's text."""
    if error.origin == "node":
        return AllocationError(error.error.text)
    class_name = (alternative.device_class or {"metadata": {"name": ""}})["metadata"]["name"]
    owner = f"class {class_name}" if error.origin == "class" else f"claim {claim.name}"
    return AllocationError(f"{owner}: selector #{error.index}: CEL {error.error.kind} error: {error.error.text}")
