"""Why the claims of a pod can or cannot be allocated on a node, in numbers and in words.

Every device of the node is counted exactly once for every request: with the first thing that rules it out, or as
usable. What rules devices out together with other picks of the same pod (another request took it, a constraint, the
last counter) shows in the nearest miss: how far the search came, and what every remaining device lacked there.

Invariants
- Explaining never changes an answer and keeps nothing; whoever does not ask pays nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from controllers.allocator.allocated import Allocated
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
    "are": "is", "have": "has", "lack": "lacks", "consume": "consumes", "violate": "violates", "go": "goes",
}  # fmt: skip


@dataclass(slots=True)
class Reason:
    """Devices that are ruled out for one reason."""

    kind: str
    """`conditions`, `class-selector`, `selector`, `selector-error`, `node`, `allocated`, `taint`, `capacity`,
    `counters` or `constraint`; in a nearest miss also `taken`."""
    text: str
    """The reason in words, to be read behind the number of devices."""
    count: int = 0
    claims: dict[str, int] = field(default_factory=dict)
    """For allocated devices: who has how many of them."""
    examples: list[str] = field(default_factory=list)
    """Some of the devices."""

    @property
    def phrase(self) -> str:
        """`3 are allocated`, `1 is allocated`."""
        verb, _, rest = self.text.partition(" ")
        return f"{self.count} {_SINGULAR.get(verb, verb) if self.count == 1 else verb} {rest}"


@dataclass(slots=True)
class RequestExplanation:
    """One request, or one alternative of a request."""

    claim: str
    request: str
    device_class: str
    needed: int | None
    """None: all devices."""
    devices: int
    pools: int
    usable: int
    reasons: list[Reason]
    chosen: list[str]
    """The devices that it gets."""

    @property
    def text(self) -> str:
        """One line."""
        wanted = "all devices" if self.needed is None else f"{self.needed} device{'s' * (self.needed != 1)}"
        where = f"claim {self.claim}, request {self.request} ({wanted} of class {self.device_class})"
        seen = f"{self.usable} of {self.devices} devices in {self.pools} pool{'s' * (self.pools != 1)} can be used"
        reasons = "; ".join(reason.phrase for reason in self.reasons)
        chosen = f"; gets {', '.join(self.chosen)}" if self.chosen else ""
        return f"{where}: {seen}{': ' + reasons if reasons else ''}{chosen}"


@dataclass(slots=True)
class NearestMiss:
    """How far the search came at best."""

    placed: list[str]
    """`request -> device` of what could be placed."""
    claim: str
    request: str
    """The request that could not be satisfied then."""
    missing: int
    reasons: list[Reason]
    """What its usable devices lacked at that point."""

    @property
    def text(self) -> str:
        """One line."""
        reasons = "; ".join(reason.phrase for reason in self.reasons)
        placed = f"with {', '.join(self.placed)}" if self.placed else "with nothing placed yet"
        lacking = f"claim {self.claim}, request {self.request} lacks {self.missing} device{'s' * (self.missing != 1)}"
        return f"{placed}, {lacking}{': ' + reasons if reasons else ''}"


@dataclass(slots=True)
class Explanation:
    """The claims of a pod on one node."""

    node: str
    outcome: str
    """`allocated`, `impossible` or `error`."""
    error: str
    devices: int
    unusable_pools: dict[str, str]
    """Pools that are incomplete or invalid, with the reason."""
    requests: list[RequestExplanation]
    nearest_miss: NearestMiss | None = None

    @property
    def text(self) -> str:
        """Several lines for people."""
        lines = [f"node {self.node}: {self.outcome}{': ' + self.error if self.error else ''}"]
        lines += [f"  pool {pool}: {reason}" for pool, reason in self.unusable_pools.items()]
        lines += [f"  {request.text}" for request in self.requests]
        if self.nearest_miss is not None:
            lines.append(f"  nearest miss: {self.nearest_miss.text}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


class _Tally:
    """Counts devices by reason, in the order in which reasons first show up."""

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
        """The largest groups first."""
        for reason in self._reasons.values():
            if reason.claims:
                users = ", ".join(f"{user}: {count}" for user, count in sorted(reason.claims.items()))
                reason.text = f"{reason.text} ({users})"
        return sorted(self._reasons.values(), key=lambda reason: -reason.count)


def device_name(view: NodeView, position: int) -> str:
    """`driver/pool/device`."""
    return "/".join(view.devices[position].id)


def explain(node: str, plan: Plan, view: NodeView, selectors: Selectors, allocated: Allocated) -> Explanation:
    """Explain what `Search` would answer."""
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
    claim: str, item: Candidates, view: NodeView, allocated: Allocated, picks: Sequence[Pick]
) -> RequestExplanation:
    alternative = item.alternative
    item.selected.extend(view.size)
    tally = _Tally(view)
    usable = 0
    for position in range(view.size):
        found = _ruled_out(position, item, view, allocated)
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


def _ruled_out(
    position: int, item: Candidates, view: NodeView, allocated: Allocated
) -> tuple[str, str] | tuple[str, str, list[str]] | None:
    """The first thing that rules a device out for a request, whatever else the pod gets."""
    bit, device, alternative = 1 << position, view.devices[position], item.alternative
    if not item.selected.mask & bit:
        return _not_selected(position, item, view)
    if view.used & bit and not alternative.admin:
        return ("allocated", "are allocated", allocated.users(device.id))
    if not view.tolerated(alternative.tolerations_key, alternative.tolerations) & bit:
        taints = ", ".join(f"{key}={value}:{effect}" for key, value, effect in device.taints)
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
            return ("constraint", f"lack the attribute {constraint.attribute} of a constraint")
    return None


def _not_selected(position: int, item: Candidates, view: NodeView) -> tuple[str, str]:
    device = view.devices[position]
    if device.conditions and not view.features.binding_conditions:
        return ("conditions", "have binding conditions, which are disabled")
    error = item.selected.errors.get(position)
    if error is not None:
        where = "the node selection" if error.origin == "node" else f"selector #{error.index} of the {error.origin}"
        return ("selector-error", f"cannot be judged, {where} fails: {error.error.text}")
    origin, index, expression = item.selected.refused_by(position)
    if origin == "node":
        return ("node", "are not for this node")
    kind = "class-selector" if origin == "class" else "selector"
    return (kind, f"are refused by selector #{index} of the {origin}: {expression}")


def _counter_problem(position: int, alternative: Alternative, view: NodeView) -> str:
    bit = 1 << position
    if not view.consumers & bit or alternative.admin:
        return ""
    if not view.features.partitionable_devices:
        return "consume counters, which are disabled"
    if view.multiple & view.paid & bit or position not in view.consumption:
        return ""
    if view.overdrawn & bit:
        return "are in a pool with overdrawn counters"
    short = [
        view.counter_name(number) for number, amount in view.consumption[position] if view.available[number] < amount
    ]
    return f"consume more than is left of counter {', '.join(short)}" if short else ""


class _ObservedSearch(Search):
    """A plain search that remembers its longest attempt."""

    best: tuple[Pick, ...] = ()

    def _take(self, item: Candidates, position: int) -> None:
        super()._take(item, position)
        if len(self.picks) > len(self.best):
            self.best = tuple(self.picks)

    def _prepare(self, frame: Frame, start: int) -> bool:
        super()._prepare(frame, start)
        return True  # too few devices are still worth placing here

    def attempt(self) -> tuple[Pick, ...]:
        """The most devices that could be placed together; the search is given up at some point."""
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
    """What keeps the usable devices of a request from being taken after the picks of a search."""
    tally = _Tally(view)
    own = {pick.position: pick.candidates.alternative for pick in search.picks}
    for position in bits(item.selected.mask & item.base):
        bit = 1 << position
        blocked = search.taken_here if item.alternative.admin else search.taken
        if blocked & bit:
            tally.add(position, "taken", f"go to request {own[position].result_name}")
            continue
        refused = [
            f"constraint on {constraint.attribute} ({_wanted(search.states[number], constraint.distinct)})"
            for number, constraint, index in item.constraints
            if not index.allowed(constraint, search.states[number]) & bit
        ]
        if not search.counters_allow(item, position):
            tally.add(position, "counters", "consume counters that the other picks use up")
        elif refused:
            tally.add(position, "constraint", f"violate the {', '.join(refused)}")
        elif not search.capacity_allows(item, position):
            tally.add(position, "capacity", "have too little capacity beside the other picks")
    return tally.reasons()


def _wanted(state: Elements | None, distinct: bool) -> str:
    if state is None:
        return "no value to compare"
    values = ", ".join(str(value) for _, value in sorted(state, key=repr))
    return f"not {values}" if distinct else f"must be {values}"
