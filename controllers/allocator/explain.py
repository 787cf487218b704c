"""Explain why the claims of a pod can or cannot be allocated on a node.

Every device of the node is counted exactly once per request: under the first reason that rules it out, or as usable.
Reasons that depend on other devices picked for the same pod (picked for another request, a constraint, an exhausted
counter) appear in the nearest miss: the longest partial allocation, and why the remaining devices did not extend it.

Invariants
- Explaining changes no state and no result. Allocation without explanation does no extra work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from controllers.allocator.allocated import AllocatedState
from controllers.allocator.candidates import Candidates, Elements, candidates_for
from controllers.allocator.choices import Frame, Pick
from controllers.allocator.errors import INVALID_POOLS, AllocationError
from controllers.allocator.plan import Alternative, Plan
from controllers.allocator.search import Search
from controllers.allocator.selectors import Selectors
from controllers.allocator.view import NodeView, bits

_EXAMPLES: Final = 3
_STEPS: Final = 2000
_SINGULAR: Final = {
    "are": "is", "have": "has", "lack": "lacks", "consume": "consumes", "violate": "violates",
}  # fmt: skip


@dataclass(slots=True)
class Reason:
    """Devices ruled out for one reason."""

    kind: str
    """`conditions`, `class-selector`, `selector`, `selector-error`, `node`, `allocated`, `taint`, `capacity`,
    `counters` or `constraint`; in a nearest miss also `taken`."""
    text: str
    """The reason as a phrase after the number of devices."""
    count: int = 0
    claims: dict[str, int] = field(default_factory=dict)
    """For allocated devices: the number per claim."""
    examples: list[str] = field(default_factory=list)
    """A few of the devices."""

    @property
    def phrase(self) -> str:
        """The count and the reason: `3 are allocated`, `1 is allocated`."""
        verb, _, rest = self.text.partition(" ")
        return f"{self.count} {_SINGULAR.get(verb, verb) if self.count == 1 else verb} {rest}"


@dataclass(slots=True)
class RequestExplanation:
    """One request, or one alternative of a request."""

    claim: str
    request: str
    device_class: str
    needed: int | None
    """Number of devices; None for all."""
    devices: int
    pools: int
    usable: int
    reasons: list[Reason]
    chosen: list[str]
    """The devices allocated to it."""

    @property
    def text(self) -> str:
        """The explanation in one line."""
        needed = "all devices" if self.needed is None else f"{self.needed} device{'s' * (self.needed != 1)}"
        where = f"claim {self.claim}, request {self.request} ({needed} of class {self.device_class})"
        counts = f"{self.usable} of {self.devices} devices usable in {self.pools} pool{'s' * (self.pools != 1)}"
        reasons = "; ".join(reason.phrase for reason in self.reasons)
        chosen = f"; gets {', '.join(self.chosen)}" if self.chosen else ""
        return f"{where}: {counts}{': ' + reasons if reasons else ''}{chosen}"


@dataclass(slots=True)
class NearestMiss:
    """The longest partial allocation of the search."""

    placed: list[str]
    """`request -> device` of the placed devices."""
    claim: str
    request: str
    """The request that could not be satisfied."""
    missing: int
    reasons: list[Reason]
    """Why its usable devices could not be added."""

    @property
    def text(self) -> str:
        """The nearest miss in one line."""
        reasons = "; ".join(reason.phrase for reason in self.reasons)
        lacking = f"claim {self.claim}, request {self.request} lacks {self.missing} device{'s' * (self.missing != 1)}"
        return f"{lacking}{': ' + reasons if reasons else ''}; placed: {', '.join(self.placed) or 'none'}"


@dataclass(slots=True)
class Explanation:
    """The claims of a pod on one node."""

    node: str
    outcome: str
    """`allocated`, `impossible` or `error`."""
    error: str
    devices: int
    unusable_pools: dict[str, str]
    """Reasons by incomplete or invalid pool."""
    requests: list[RequestExplanation]
    nearest_miss: NearestMiss | None = None

    @property
    def text(self) -> str:
        """The explanation in several lines."""
        lines = [f"node {self.node}: {self.outcome}{': ' + self.error if self.error else ''}"]
        lines += [f"  pool {pool}: {reason}" for pool, reason in self.unusable_pools.items()]
        lines += [f"  {request.text}" for request in self.requests]
        if self.nearest_miss is not None:
            lines.append(f"  nearest miss: {self.nearest_miss.text}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        return asdict(self)


class _ReasonCounter:
    """Counts devices by reason, in order of first occurrence."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._reasons: dict[tuple[str, str], Reason] = {}

    def add(self, position: int, kind: str, text: str, users: Iterable[str] = ()) -> None:
        reason = self._reasons.setdefault((kind, text), Reason(kind, text))
        reason.count += 1
        for user in users:
            reason.claims[user] = reason.claims.get(user, 0) + 1
        if len(reason.examples) < _EXAMPLES:
            reason.examples.append(device_name(self._view, position))

    def reasons(self) -> list[Reason]:
        """Return the reasons, those with the most devices first."""
        for reason in self._reasons.values():
            if reason.claims:
                users = ", ".join(f"{user}: {count}" for user, count in sorted(reason.claims.items()))
                reason.text = f"{reason.text} ({users})"
        return sorted(self._reasons.values(), key=lambda reason: -reason.count)


def device_name(view: NodeView, position: int) -> str:
    """Return `driver/pool/device`."""
    return "/".join(view.devices[position].id)


def explain(node: str, plan: Plan, view: NodeView, selectors: Selectors, allocated: AllocatedState) -> Explanation:
    """Explain the result of `Search`."""
    unusable = {str(pool): f"{pool.status}: {pool.reason}" for pool in view.pools if pool.status != "usable"}
    explanation = Explanation(node, "impossible", "", view.size, unusable, [])
    picks: Sequence[Pick] = ()
    candidates: list[list[Candidates]] | None = None
    try:
        candidates = candidates_for(plan, view, selectors)
        solution = Search(plan, candidates, view, None).run()
        if solution is not None:
            explanation.outcome, picks = "allocated", solution.picks
        elif view.invalid:
            raise AllocationError(INVALID_POOLS, "node")
    except AllocationError as error:
        explanation.outcome, explanation.error = "error", error.text
    for claim in plan.claims:
        for request in claim.requests:
            for alternative in request.alternatives:
                item = Candidates(alternative, claim, view, selectors)
                explanation.requests.append(_explain_request(claim.name, item, view, allocated, picks))
    if explanation.outcome == "impossible" and candidates is not None:
        explanation.nearest_miss = _nearest_miss(plan, candidates, view)
    return explanation


def _explain_request(
    claim: str, item: Candidates, view: NodeView, allocated: AllocatedState, picks: Sequence[Pick]
) -> RequestExplanation:
    alternative = item.alternative
    item.selected.extend(view.size)
    tally = _ReasonCounter(view)
    usable = 0
    for position in range(view.size):
        found = _find_reason(position, item, view, allocated)
        if found is None:
            usable += 1
        else:
            tally.add(position, *found)
    chosen = [
        device_name(view, pick.position)
        for pick in picks
        if pick.candidates.alternative.claim == alternative.claim
        and pick.candidates.alternative.result_name == alternative.result_name
    ]
    return RequestExplanation(
        claim=claim,
        request=alternative.result_name,
        device_class=alternative.raw.get("deviceClassName") or "",
        needed=None if alternative.everything else alternative.count,
        devices=view.size,
        pools=sum(pool.status == "usable" for pool in view.pools),
        usable=usable,
        reasons=tally.reasons(),
        chosen=chosen,
    )


def _find_reason(
    position: int, item: Candidates, view: NodeView, allocated: AllocatedState
) -> tuple[str, str] | tuple[str, str, list[str]] | None:
    """Return the first reason that rules a device out for a request, independent of other picks."""
    bit, device, alternative = 1 << position, view.devices[position], item.alternative
    if not item.selected.mask & bit:
        return _selection_reason(position, item, view)
    if view.used & bit and not alternative.admin:
        return ("allocated", "are allocated", allocated.users(device.id))
    if not view.tolerated_mask(alternative.tolerations_key, alternative.tolerations) & bit:
        taints = ", ".join(f"{key}{'=' * bool(value)}{value}:{effect}" for key, value, effect in device.taints)
        return ("taint", f"have taints that are not all tolerated ({taints})")
    if view.features.consumable_capacity:
        need = view.demand(position, alternative.capacity)
        if isinstance(need, str):
            return ("capacity", f"lack capacity: {need}")
        if not need.fits(view.consumed.get(position, {})):
            return ("capacity", "have too little capacity left", allocated.users(device.id))
    problem = _counter_problem(position, alternative, view)
    if problem:
        return ("counters", problem)
    for _, constraint, index in item.constraints:
        if not index.present & bit:
            return ("constraint", f"lack attribute {constraint.attribute}, required by a constraint")
    return None


def _selection_reason(position: int, item: Candidates, view: NodeView) -> tuple[str, str]:
    device = view.devices[position]
    if device.conditions and not view.features.binding_conditions:
        return ("conditions", "have binding conditions, but the feature is disabled")
    error = item.selected.errors.get(position)
    if error is not None:
        where = "the node selection" if error.origin == "node" else f"selector #{error.index} of the {error.origin}"
        return ("selector-error", f"cannot be evaluated: {where} fails: {error.error.text}")
    origin, index, expression = item.selected.rejecting_selector(position)
    if origin == "node":
        return ("node", "are not available on this node")
    kind = "class-selector" if origin == "class" else "selector"
    return (kind, f"are rejected by selector #{index} of the {origin}: {expression}")


def _counter_problem(position: int, alternative: Alternative, view: NodeView) -> str:
    bit = 1 << position
    if not view.consumers & bit or alternative.admin:
        return ""
    if not view.features.partitionable_devices:
        return "consume counters, but the feature is disabled"
    if view.multiple & view.paid & bit or position not in view.consumption:
        return ""
    if view.overdrawn & bit:
        return "are in a pool with overdrawn counters"
    short = [
        view.counter_name(number) for number, amount in view.consumption[position] if view.available[number] < amount
    ]
    return f"consume more than is left of counter {', '.join(short)}" if short else ""


class _ObservedSearch(Search):
    """A search that records its longest partial allocation."""

    best: tuple[Pick, ...] = ()

    def _pick(self, item: Candidates, position: int) -> None:
        super()._pick(item, position)
        if len(self.picks) > len(self.best):
            self.best = tuple(self.picks)

    def _prepare(self, frame: Frame, start: int) -> bool:
        super()._prepare(frame, start)
        return True  # place as many as there are, even if too few

    def attempt(self) -> tuple[Pick, ...]:
        """Return the longest partial allocation within the step limit."""
        self.explore(_STEPS)
        return self.best


def _nearest_miss(plan: Plan, candidates: list[list[Candidates]], view: NodeView) -> NearestMiss | None:
    best = _ObservedSearch(plan, candidates, view, None).attempt()
    search = Search(plan, candidates, view, None)
    search.replay(best)
    placed = [f"{pick.candidates.alternative.result_name} -> {device_name(view, pick.position)}" for pick in best]
    counts = Counter(id(pick.candidates) for pick in best)
    for unit, choices in enumerate(candidates):
        started = [item for item in choices if counts[id(item)]]
        item = started[0] if started else choices[0]
        missing = item.need - counts[id(item)]
        if missing > 0 or (item.alternative.everything and not item.need):
            search.enter_claim(unit)
            reasons = _reasons_at(search, item, view)
            name = plan.claims[item.alternative.claim].name
            return NearestMiss(placed, name, item.alternative.result_name, max(missing, 1), reasons)
    return None


def _reasons_at(search: Search, item: Candidates, view: NodeView) -> list[Reason]:
    """Return why the usable devices of a request cannot be added to the picks of a search."""
    tally = _ReasonCounter(view)
    own = {pick.position: pick.candidates.alternative for pick in search.picks}
    for position in bits(item.selected.mask & item.base):
        bit = 1 << position
        blocked = search.taken_here if item.alternative.admin else search.taken
        if blocked & bit:
            tally.add(position, "taken", f"are used by request {own[position].result_name}")
            continue
        refused = [
            f"constraint on {constraint.attribute} ({_requirement(search.states[number], constraint.distinct)})"
            for number, constraint, index in item.constraints
            if not index.allowed_mask(constraint, search.states[number]) & bit
        ]
        if not search.counters_allow(item, position):
            tally.add(position, "counters", "consume counters exhausted by the other picks")
        elif refused:
            tally.add(position, "constraint", f"violate the {', '.join(refused)}")
        elif not search.capacity_allows(item, position):
            tally.add(position, "capacity", "have too little capacity left by the other picks")
    return tally.reasons()


def _requirement(state: Elements | None, distinct: bool) -> str:
    if state is None:
        return "no value to compare"
    values = ", ".join(str(value) for _, value in sorted(state, key=repr))
    return f"not {values}" if distinct else f"must be {values}"
