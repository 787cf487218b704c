"""The allocator: finds devices for claims on a node.

    allocator = Allocator(Features())
    allocator.inventory.upsert_slice(slice) …  allocator.upsert_class(device_class) …
    allocator.allocated.upsert_claim(claim) …
    pod = allocator.for_pod(claims)          # once per scheduling attempt
    pod.prefilter()                          # rejects the pod on every node
    solution = pod.solve(node)               # cheap: None when the node cannot serve the claims
    pod.results(solution, node)              # the AllocationResults, for the chosen node

Invariants
- Objects are plain dicts as the API serves them and are never modified.
- All caches are keyed by everything that their values depend on; a result never differs from a fresh computation.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from controllers.allocator.allocated import AllocatedState
from controllers.allocator.candidates import Candidates, candidates_for
from controllers.allocator.choices import Solution
from controllers.allocator.devices import Object
from controllers.allocator.errors import INVALID_POOLS, AllocationError, Rejection
from controllers.allocator.explain import Explanation, explain
from controllers.allocator.features import Features
from controllers.allocator.inventory import Inventory
from controllers.allocator.plan import Plan, make_plan, prefilter
from controllers.allocator.result import build_results
from controllers.allocator.search import Interrupt, Search
from controllers.allocator.selectors import CelEvaluator, Evaluator, Selectors
from controllers.allocator.view import NodeView

_OUTCOMES_KEPT: Final = 32


def _random_uid() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class _Outcome:
    stamp: int
    solution: Solution | None
    candidates: list[list[Candidates]]
    """Reused after allocation changes if the plan needs no validation."""


class Allocator:
    """Inventory and allocated state, updated by events, and allocators for pods."""

    def __init__(
        self,
        features: Features | None = None,
        *,
        release: str = "1.36",
        evaluator: Evaluator | None = None,
        new_share_id: Callable[[], str] = _random_uid,
    ) -> None:
        self.features = features or Features()
        self.inventory = Inventory(self.features)
        self.allocated = AllocatedState(self.features.consumable_capacity)
        default = CelEvaluator(release, self.features.consumable_capacity, self.features.list_type_attributes)
        self.selectors = Selectors(evaluator or default)
        self.new_share_id = new_share_id

    def upsert_class(self, device_class: Object) -> None:
        """Add or update a DeviceClass. Compile its selectors now, not while a pod waits."""
        self.inventory.upsert_class(device_class)
        for selector in device_class.get("spec", {}).get("selectors") or ():
            if "cel" in selector:
                self.selectors.prepare(selector["cel"]["expression"])

    def for_pod(self, claims: Sequence[Object]) -> PodAllocator:
        """Return an allocator for the claims of one pod.

        Each of its methods uses the inventory and allocations at the time of the call.
        """
        return PodAllocator(self, claims)


class PodAllocator:
    """Allocates the claims of one pod together."""

    def __init__(self, allocator: Allocator, claims: Sequence[Object]) -> None:
        self._allocator = allocator
        self._claims = list(claims)
        self._plan: Plan | None = None
        self._plan_revision = -1
        self._shape = ""

    @property
    def plan(self) -> Plan:
        """The compiled claims, with the current classes."""
        inventory = self._allocator.inventory
        if self._plan is None or self._plan_revision != inventory.class_revision:
            self._plan = make_plan(self._claims, inventory.classes, self._allocator.features)
            self._plan_revision = inventory.class_revision
            specs = [claim.get("spec") for claim in self._claims]
            self._shape = f"{self._plan_revision} {orjson.dumps(specs, option=orjson.OPT_SORT_KEYS).decode()}"
        return self._plan

    def prefilter(self) -> Rejection | None:
        """Return the rejection of the pod on all nodes, with the message of the scheduler's PreFilter, or None."""
        return prefilter(self._claims, self._allocator.inventory.classes, self._allocator.features)

    def solve(self, node: Object, interrupt: Interrupt | None = None) -> Solution | None:
        """Return the first solution for all claims on the node, or None.

        Args:
            node: The Node object.
            interrupt: Called regularly. A returned text ends the search.

        Raises:
            AllocationInterrupted: `interrupt` returned a text.
            AllocationError: Scope `fatal` ends the scheduling attempt; scope `node` rejects this node.
        """
        plan = self.plan
        if not plan.claims:
            return Solution((), ())
        view = self._view(node)
        outcome: _Outcome | None = view.outcomes.get(self._shape)
        if outcome is None or outcome.stamp != view.stamp:
            candidates = self._candidates(plan, view, outcome)
            outcome = _Outcome(view.stamp, Search(plan, candidates, view, interrupt).run(), candidates)
            if len(view.outcomes) >= _OUTCOMES_KEPT:
                view.outcomes.clear()
            view.outcomes[self._shape] = outcome
        if outcome.solution is None and view.invalid:
            raise AllocationError(INVALID_POOLS, "node")
        return outcome.solution

    def _candidates(self, plan: Plan, view: NodeView, earlier: _Outcome | None) -> list[list[Candidates]]:
        if earlier is None or not plan.simple:
            return candidates_for(plan, view, self._allocator.selectors)
        for choices in earlier.candidates:
            for item in choices:
                item.refresh(view)
        return earlier.candidates

    def results(self, solution: Solution, node: Object) -> list[Object]:
        """Return the AllocationResult of every claim, for a solution just found on this node."""
        if not self.plan.claims:
            return []
        name: str = node["metadata"]["name"]
        return build_results(self.plan, solution, self._view(node), name, self._allocator.new_share_id)

    def allocate(self, node: Object, interrupt: Interrupt | None = None) -> list[Object] | None:
        """Solve and return the AllocationResult of every claim, or None without solution."""
        solution = self.solve(node, interrupt)
        return None if solution is None else self.results(solution, node)

    def explain(self, node: Object) -> Explanation:
        """Explain why the claims can or cannot be allocated on the node, with every device and request."""
        try:
            view = self._view(node)
        except AllocationError as error:
            return Explanation(node["metadata"]["name"], "error", error.text, 0, {}, [])
        allocator = self._allocator
        return explain(node["metadata"]["name"], self.plan, view, allocator.selectors, allocator.allocated)

    def _view(self, node: Any) -> NodeView:
        view = self._allocator.inventory.view(node)
        view.sync(self._allocator.allocated)
        return view
