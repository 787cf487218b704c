"""The search for the first assignment of devices to requests, in a fixed order.

The order is part of the contract: depth first over claims, requests, alternatives and devices in listed order. Within a
request, devices are picked in ascending order; every request starts at the first device again.

Invariants
- The search does not recurse; a pod may request a thousand devices.
- A frame stores the state before its choice, to restore it when backtracking. Changes of counters and capacity are
  undone through a list.
- `Pruning` skips only branches without solution and without error.

Source of facts: Kubernetes 1.36,
staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go and constraint.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from controllers.allocator.candidates import Candidates, Elements, selection_error
from controllers.allocator.capacity import NOTHING, Demand
from controllers.allocator.choices import Frame, Outcome, Pick, Solution
from controllers.allocator.errors import AllocationError, AllocationInterrupted
from controllers.allocator.plan import RESULTS_LIMIT, Plan
from controllers.allocator.pruning import Pruning
from controllers.allocator.view import NodeView

Interrupt = Callable[[], str | None]
"""Called regularly; a returned text ends the search and is its reason."""

EASY_STEPS: Final = 32
"""Failed tries before pruning starts."""
_CHECK_EVERY: Final = 64


class _SearchLimitError(Exception):
    """The search without pruning takes too long."""


class Search:
    """One search on one node."""

    def __init__(
        self, plan: Plan, candidates: list[list[Candidates]], view: NodeView, interrupt: Interrupt | None
    ) -> None:
        self.plan = plan
        self.candidates = candidates
        self.units = plan.requests
        self.view = view
        self._interrupt = interrupt
        self.steps = 0
        """Number of tried devices."""
        self._limit: int | None = EASY_STEPS
        self.pruning: Pruning | None = None
        self._reset()

    def _reset(self) -> None:
        self.picks: list[Pick] = []
        self.taken = 0
        """Devices picked for any claim."""
        self.taken_here = 0
        """Devices picked for the current claim."""
        self.states: tuple[Elements | None, ...] = ()
        self.claim = -1
        self.claim_start = 0
        self.counters: dict[int, int] = {}
        self.shares: dict[int, tuple[int, dict[str, int]]] = {}
        """Picked shared devices: number of picks and consumed capacity."""
        self.unfit = 0
        """Devices with too little left of some counter; updated only with pruning."""
        self.paid = 0
        """Shared devices whose counters are consumed by this search."""
        self.changes: list[Pick] = []
        self._stack: list[Frame] = []
        self._too_many_claim = -1

    def run(self) -> Solution | None:
        """Return the first solution, or None."""
        try:
            return self._run()
        except _SearchLimitError:
            self._limit = None
            self._reset()
            self.pruning = Pruning(self)
            if not self.pruning.is_possible():
                return None
            return self._run()

    def _run(self) -> Solution | None:
        self._check()
        outcome = self._enter(0)
        while outcome is not Outcome.DONE:
            if outcome is Outcome.DOWN:
                outcome = self._advance(self._stack[-1])
            elif self._stack:
                outcome = self._backtrack(self._stack[-1], outcome)
            else:
                return None
        choices = [0] * len(self.units)
        for frame in self._stack:
            if frame.item is None and frame.memory is None:
                choices[frame.unit] = frame.index - 1
        return Solution(tuple(self.picks), tuple(choices))

    def _check(self) -> None:
        cause = self._interrupt() if self._interrupt is not None else None
        if cause is not None:
            raise AllocationInterrupted(cause)

    # --- descending

    def _enter(self, unit: int) -> Outcome:
        """Start with a request."""
        while True:
            if unit >= len(self.units):
                return Outcome.DONE
            request = self.units[unit]
            if request.claim != self.claim:
                self.enter_claim(unit)
            if self.pruning is not None and not self._is_worth_trying(self.pruning, unit):
                return Outcome.FAIL
            if request.prioritized:
                self._stack.append(Frame(self, unit, None, 0))
                return Outcome.DOWN
            outcome = self._enter_alternative(unit, self.candidates[unit][0])
            if outcome is not None:
                return outcome
            unit += 1

    def enter_claim(self, unit: int) -> None:
        """Switch to the claim of a request."""
        claim = self.units[unit].claim
        if claim != self.claim:
            self.claim = claim
            self.claim_start = len(self.picks)
            self.taken_here = 0
            self.states = (None,) * len(self.plan.claims[claim].constraints)

    def explore(self, steps: int) -> None:
        """Search without pruning, for at most this many failed tries."""
        self._limit = steps
        with suppress(_SearchLimitError, AllocationError):
            self._run()

    def replay(self, picks: Sequence[Pick]) -> None:
        """Pick these devices in order."""
        for pick in picks:
            self.enter_claim(pick.candidates.unit)
            self._pick(pick.candidates, pick.position)

    def _is_worth_trying(self, pruning: Pruning, unit: int) -> bool:
        state = pruning.state(unit)
        if pruning.is_hopeless(unit, state):
            return False
        marker = Frame(self, unit, None, 0)
        marker.memory = state
        self._stack.append(marker)
        return True

    def _enter_alternative(self, unit: int, item: Candidates) -> Outcome | None:
        """Start with an alternative. Return None if it needs no devices."""
        if item.alternative.everything and not item.need:
            return Outcome.FAIL
        if not item.need:
            return None
        if len(self.picks) - self.claim_start + item.need > RESULTS_LIMIT:
            self._too_many_claim = self.claim
            return Outcome.TOO_MANY
        frame = Frame(self, unit, item, 0)
        frame.everything = item.alternative.everything
        self._stack.append(frame)
        if not frame.everything and not self._prepare(frame, 0):
            self._stack.pop()
            return Outcome.FAIL
        return Outcome.DOWN

    def _prepare(self, frame: Frame, start: int) -> bool:
        """Collect the devices to try. Return False if they cannot be enough."""
        item = frame.item
        assert item is not None
        missing = item.need - frame.index
        selected = item.selected
        while True:
            self._collect(frame, item, start)
            if frame.todo.bit_count() >= missing or selected.complete:
                break
            selected.extend()
        # Try a device with failing selectors even if there are too few devices: it raises the error.
        if frame.todo & selected.failed:
            return True
        return frame.todo.bit_count() >= missing

    def _collect(self, frame: Frame, item: Candidates, start: int) -> None:
        selected = item.selected
        taken = self.taken_here if item.alternative.admin else self.taken
        todo = selected.mask & item.base & item.allowed_mask(self.states)
        if self.pruning is not None:
            todo &= ~self.pruning.unfit_mask(item)
        if selected.failed:
            todo |= selected.failed & item.reach
        frame.todo = (todo & ~taken) >> start << start
        frame.seen = selected.known

    def _advance(self, frame: Frame) -> Outcome:
        """Try the next choice of a frame."""
        item = frame.item
        if item is None:
            return self._next_alternative(frame)
        if frame.everything:
            if frame.last >= 0 or not self._pick_all(item):
                self._stack.pop()
                return Outcome.FAIL
            frame.last = 0
            return self._enter(frame.unit + 1)
        position = self._next_device(frame, item)
        if position < 0:
            self._stack.pop()
            return Outcome.FAIL
        self._pick(item, position)
        if frame.index + 1 >= item.need:
            return self._enter(frame.unit + 1)
        if self.pruning is not None and self.pruning.is_hopeless_within(
            frame.unit, item, frame.index + 1, position + 1
        ):
            return Outcome.FAIL
        deeper = Frame(self, frame.unit, item, frame.index + 1)
        if not self._prepare(deeper, position + 1):
            return Outcome.FAIL
        self._stack.append(deeper)
        return Outcome.DOWN

    def _next_alternative(self, frame: Frame) -> Outcome:
        choices = self.candidates[frame.unit]
        if frame.index >= len(choices):
            self._stack.pop()
            if frame.too_many:
                self._too_many_claim = self.claim
            return Outcome.TOO_MANY if frame.too_many else Outcome.FAIL
        item = choices[frame.index]
        frame.index += 1
        outcome = self._enter_alternative(frame.unit, item)
        return self._enter(frame.unit + 1) if outcome is None else outcome

    def _next_device(self, frame: Frame, item: Candidates) -> int:
        """Return the next device that can be picked, or -1."""
        while True:
            while frame.todo:
                low = frame.todo & -frame.todo
                frame.todo ^= low
                position = low.bit_length() - 1
                self._count_step()
                if item.selected.failed & low:
                    claim = self.plan.claims[item.alternative.claim]
                    raise selection_error(claim, item.alternative, item.selected.errors[position])
                if self.counters_allow(item, position) and self.capacity_allows(item, position):
                    frame.last = position
                    return position
            if item.selected.complete and frame.seen >= self.view.size:
                return -1
            start = max(frame.seen, frame.last + 1)
            item.selected.extend()
            self._collect(frame, item, start)

    def _count_step(self) -> None:
        self.steps += 1
        if self._limit is not None and self.steps - len(self.picks) > self._limit:
            raise _SearchLimitError
        if self.steps % _CHECK_EVERY == 0:
            self._check()

    # --- picking and restoring

    def counters_allow(self, item: Candidates, position: int) -> bool:
        """Return whether enough of the counters is left for the device."""
        if not self._consumes_counters(item, position):
            return True
        return self.view.fits(position, self.counters)

    def _consumes_counters(self, item: Candidates, position: int) -> bool:
        """Return whether picking the device consumes counters: once for shared devices, not with admin access."""
        view = self.view
        if position not in view.consumption or item.alternative.admin:
            return False
        return not view.multiple & (view.paid | self.paid) & 1 << position

    def capacity_allows(self, item: Candidates, position: int) -> bool:
        """Return whether enough capacity is left of a device already picked by this search."""
        view = self.view
        if position not in self.shares or not view.multiple >> position & 1:
            return True
        need = view.demand(position, item.alternative.capacity)
        return isinstance(need, Demand) and need.fits(view.consumed.get(position, {}), self.shares[position][1])

    def _pick(self, item: Candidates, position: int) -> None:
        view, bit = self.view, 1 << position
        if self._consumes_counters(item, position):
            for counter, amount in view.consumption[position]:
                self.counters[counter] = self.counters.get(counter, 0) + amount
            self.paid |= bit
            self.changes.append(Pick(item, position, NOTHING))
            if self.pruning is not None:
                self.unfit = self.pruning.unfit_after(position)
        demand = NOTHING
        if view.multiple & bit:
            found = view.demand(position, item.alternative.capacity)
            demand = found if isinstance(found, Demand) else NOTHING
            self._share(position, demand, 1)
        else:
            self.taken |= bit
            self.taken_here |= bit
        self.states = item.next_states(self.states, position)
        self.picks.append(Pick(item, position, demand))

    def _share(self, position: int, demand: Demand, sign: int) -> None:
        count, taken = self.shares.get(position, (0, {}))
        if count + sign == 0:
            del self.shares[position]
            return
        taken = dict(taken)
        for name, amount, _, _ in demand.entries:
            taken[name] = taken.get(name, 0) + sign * amount
        self.shares[position] = (count + sign, taken)

    def _pick_all(self, item: Candidates) -> bool:
        """Pick all devices of an alternative in order. On failure, the caller restores the state."""
        view, alternative = self.view, item.alternative
        for position in item.everything:
            bit = 1 << position
            self._count_step()
            in_use = self.taken_here if alternative.admin else self.taken | view.used
            if in_use & bit or not self._is_usable(item, position):
                return False
            if not item.allowed_mask(self.states) & bit:
                claim = self.plan.claims[alternative.claim]
                device = "/".join(view.devices[position].id)
                problem = f"cannot add device {device} because a claim constraint would not be satisfied"
                raise AllocationError(f"claim {claim.name}, request {alternative.name}: {problem}")
            if not self.capacity_allows(item, position):
                return False
            self._pick(item, position)
        return True

    def _is_usable(self, item: Candidates, position: int) -> bool:
        view, alternative = self.view, item.alternative
        bit = 1 << position
        if view.consumers & bit:
            if not view.features.partitionable_devices:
                return False
            if self._consumes_counters(item, position) and (
                view.overdrawn & bit or not view.fits(position, self.counters)
            ):
                return False
        return bool(view.tolerated_mask(alternative.tolerations_key, alternative.tolerations) & bit)

    def _restore(self, frame: Frame) -> None:
        """Restore the state before the frame's choice."""
        while len(self.changes) > frame.changes:
            position = self.changes.pop().position
            for counter, amount in self.view.consumption[position]:
                self.counters[counter] -= amount
        while len(self.picks) > frame.picks:
            pick = self.picks.pop()
            if self.view.multiple >> pick.position & 1:
                self._share(pick.position, pick.demand, -1)
        self.taken = frame.taken
        self.taken_here = frame.taken_here
        self.states = frame.states
        self.claim_start = frame.claim_start
        self.unfit = frame.unfit
        self.paid = frame.paid
        self.claim = self.units[frame.unit].claim

    def _backtrack(self, frame: Frame, outcome: Outcome) -> Outcome:
        """Handle a failed choice of a frame. Return the outcome of the frame."""
        self._restore(frame)
        if outcome is Outcome.TOO_MANY and self._too_many_claim != self.claim:
            outcome = Outcome.FAIL
        if frame.memory is not None and self.pruning is not None:
            self._stack.pop()
            if outcome is Outcome.FAIL:
                self.pruning.record_failure(frame.memory)
            return outcome
        if frame.item is None:
            if outcome is Outcome.FAIL:
                frame.too_many = False
            return Outcome.DOWN
        if outcome is Outcome.TOO_MANY or frame.everything:
            self._stack.pop()
            return outcome
        if self.pruning is not None:
            frame.todo &= ~self.pruning.equivalent_mask(frame.last)
        return Outcome.DOWN
