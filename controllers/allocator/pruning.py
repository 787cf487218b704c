"""Prunes a hard search without changing its result.

A branch may be skipped if it contains neither a solution nor an error. Techniques:

- look-ahead: end a branch if a later request has fewer devices left than it needs. Counters (each counter set bounds
  the number of its devices) and constraints of the claim are included;
- matching: before the search, check that the requests together can have enough devices;
- equivalence: of devices indistinguishable to the plan, try only one;
- memory: at the start of a request, skip states that failed before. Indistinguishable devices count by number.

Errors: a failing selector is an error as soon as a request evaluates the device. The look-ahead therefore stops at the
first request that could raise one, and failing devices are distinguishable from others. If a request for all devices
could violate a constraint (an error that depends on the order of devices), equivalence is off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from controllers.allocator.candidates import Candidates
from controllers.allocator.plan import RESULTS_LIMIT
from controllers.allocator.view import bits

if TYPE_CHECKING:
    from controllers.allocator.search import Search

_MEMORY: Final = 100_000


class Pruning:
    """The pruning techniques for one search."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._view = search.view
        for choices in search.candidates:
            for item in choices:
                item.selected.extend(search.view.size)
        self._items = [item for choices in search.candidates for item in choices]
        self._safe, self._relevant = self._compute_relevance()
        self._blind = self._limit_may_hide_errors()
        self._exact = any(item.alternative.admin or (item.everything and item.constraints) for item in self._items)
        ordered = any(item.everything and item.constraints for item in self._items)
        self._class_of = {} if ordered else self._classify()
        self._classes = sorted(set(self._class_of.values()))
        self._single = ~sum(self._classes)
        self._failed: set[Any] = set()
        self._users: dict[int, dict[int, int]] = {}
        """For every counter, the devices that consume it, by amount."""
        for position in bits(self._relevant[0] & self._view.consumers):
            for counter, amount in self._view.consumption.get(position, ()):
                users = self._users.setdefault(counter, {})
                users[amount] = users.get(amount, 0) | 1 << position
        self._demands = self._number_demands()
        self._endless = sum(item.need for item in self._items)
        self._groups: dict[int, list[tuple[int, list[tuple[int, int]]]]] = {}
        search.unfit = sum(1 << position for position in self._view.consumption if not self._view.fits(position))

    def _compute_relevance(self) -> tuple[list[int], list[int]]:
        """Return per request the first request from there on that could raise an error, and the relevant devices."""
        units = self._search.candidates
        safe = [len(units)] * (len(units) + 1)
        relevant = [0] * (len(units) + 1)
        for unit in range(len(units) - 1, -1, -1):
            risky = any(
                item.selected.failed & item.reach or (item.everything and item.constraints) for item in units[unit]
            )
            safe[unit] = unit if risky else safe[unit + 1]
            relevant[unit] = relevant[unit + 1]
            for item in units[unit]:
                relevant[unit] |= item.selected.mask | item.selected.failed
        return safe, relevant

    def _number_demands(self) -> dict[int, int]:
        """Return a number per candidates object, equal for those with the same candidate devices."""
        numbers: dict[Any, int] = {}
        result = {}
        for item in self._items:
            applying = tuple(number for number, _, _ in item.constraints)
            claim = item.alternative.claim if applying else -1
            key = (id(item.selected), item.base, item.alternative.admin, claim, applying)
            result[id(item)] = numbers.setdefault(key, len(numbers))
        return result

    def _limit_may_hide_errors(self) -> bool:
        """Return whether ending a branch at the limit of results could hide an error of an earlier request."""
        if self._safe[0] == len(self._search.candidates):
            return False
        most: dict[int, int] = {}
        for request, choices in zip(self._search.units, self._search.candidates, strict=True):
            most[request.claim] = most.get(request.claim, 0) + max(item.need for item in choices)
        return max(most.values()) > RESULTS_LIMIT

    # --- equivalence

    def _classify(self) -> dict[int, int]:
        """Return the equivalence class of every device with equivalents."""
        groups: dict[Any, int] = {}
        indexes = {id(index): index for item in self._items for _, _, index in item.constraints}
        for position in bits(self._relevant[0]):
            key = (*self._traits(position), *(index.elements.get(position) for index in indexes.values()))
            groups[key] = groups.get(key, 0) | 1 << position
        return {position: mask for mask in groups.values() if mask & (mask - 1) for position in bits(mask)}

    def _traits(self, position: int) -> Iterator[Any]:
        """Yield everything that distinguishes a device in the search, except attributes of constraints."""
        view, bit = self._view, 1 << position
        for item in self._items:
            yield bool(item.selected.mask & item.base & bit)
            yield bool(item.selected.failed & item.reach & bit)
            yield bool(item.everything_mask & bit)
        yield bool(view.used & bit)
        yield bool(view.tainted & bit) and view.devices[position].taints
        yield view.consumption.get(position)
        yield bool(view.multiple & bit)
        if view.multiple & bit:
            consumed = tuple(sorted(view.consumed.get(position, {}).items()))
            yield (view.devices[position].capacity_key, bool(view.paid & bit), consumed)

    def equivalent_mask(self, position: int) -> int:
        """Return the devices that fail like this one just did."""
        mask = self._class_of.get(position, 0)
        if not mask:
            return 0
        touched = self._search.taken | self._shared_mask()
        return 0 if touched >> position & 1 else mask & ~touched

    def _shared_mask(self) -> int:
        mask = 0
        for position in self._search.shares:
            mask |= 1 << position
        return mask

    # --- memory

    def state(self, unit: int) -> Any:
        """Return the state that determines the search from the start of a request on."""
        search = self._search
        relevant = search.taken & self._relevant[unit]
        by_class = ((relevant & mask).bit_count() for mask in self._classes)
        taken = (relevant, search.taken_here) if self._exact else (relevant & self._single, *by_class)
        counters = tuple(sorted(item for item in search.counters.items() if item[1]))
        shares = tuple(
            sorted((position, count, *sorted(taken.items())) for position, (count, taken) in search.shares.items())
        )
        paid = search.paid & self._view.multiple
        return (unit, len(search.picks) - search.claim_start, search.states, taken, counters, shares, paid)

    def record_failure(self, state: Any) -> None:
        """Record that the search failed from this state on."""
        if len(self._failed) < _MEMORY:
            self._failed.add(state)

    def is_hopeless(self, unit: int, state: Any) -> bool:
        """Return whether the search failed from this state before, or a later request lacks devices."""
        return not self._blind and (state in self._failed or self._is_starved(unit))

    # --- look-ahead

    def is_possible(self) -> bool:
        """Return whether the requests together can have enough distinct devices."""
        slots: list[int] = []
        for choices in self._search.candidates[: self._safe[0]]:
            item = choices[0]
            if len(choices) == 1 and not item.alternative.admin and not item.everything:
                mask = item.selected.mask & item.base & ~self.unfit_mask(item)
                if not mask & self._view.multiple:
                    slots += [mask] * item.need
        return _can_match(slots)

    def is_hopeless_within(self, unit: int, item: Candidates, placed: int, start: int) -> bool:
        """Return whether a partially placed request, or a later one, lacks devices."""
        if self._blind or item.selected.failed & item.reach:
            return False
        left = self._available_mask(item, True) >> start << start
        return self._upper_bound(item, left) < item.need - placed or self._is_starved(unit + 1)

    def _is_starved(self, unit: int) -> bool:
        """Return whether a request from this one on lacks devices, alone or with others for the same devices."""
        search = self._search
        bounds: dict[Any, int] = {}
        needs: dict[Any, int] = {}
        for later in range(unit, self._safe[unit]):
            same_claim = search.units[later].claim == search.claim
            choices = search.candidates[later]
            item = choices[0]
            if len(choices) > 1 or item.alternative.everything or item.alternative.admin:
                if not any(self._has_enough(item, same_claim) for item in choices):
                    return True
                continue
            key = (same_claim, self._demands[id(item)])
            bound = bounds.get(key)
            if bound is None:
                available = self._available_mask(item, same_claim)
                bound = bounds[key] = self._upper_bound(item, available)
                needs[key] = -self._endless if available & self._view.multiple else 0
            needs[key] += item.need
            if bound < max(needs[key], item.need):
                return True
        return False

    def _has_enough(self, item: Candidates, same_claim: bool) -> bool:
        available = self._available_mask(item, same_claim)
        if item.alternative.everything:
            return bool(item.need) and not item.everything_mask & ~available
        return self._upper_bound(item, available) >= item.need

    def _available_mask(self, item: Candidates, same_claim: bool) -> int:
        search = self._search
        mask = item.selected.mask & item.base & ~self.unfit_mask(item)
        if same_claim:
            mask &= item.allowed_mask(search.states)
        if not item.alternative.admin:
            return mask & ~search.taken
        return mask & ~search.taken_here if same_claim else mask

    # --- counters

    def unfit_mask(self, item: Candidates) -> int:
        """Return the devices for which too little of some counter is left."""
        if item.alternative.admin or not self._search.unfit:
            return 0
        return self._search.unfit & ~(self._view.multiple & (self._view.paid | self._search.paid))

    def unfit_after(self, position: int) -> int:
        """Return the devices with too little left of some counter after a pick, for every request."""
        search, view = self._search, self._view
        unfit = search.unfit
        for counter, _ in view.consumption[position]:
            left = view.available[counter] - search.counters.get(counter, 0)
            for amount, users in self._users[counter].items():
                if amount > left:
                    unfit |= users
        return unfit

    def _upper_bound(self, item: Candidates, mask: int) -> int:
        """Return an upper bound for the number of these devices that can be picked together."""
        consumers = mask & self._view.consumers
        if not consumers or item.alternative.admin:
            return mask.bit_count()
        free = self._view.multiple & (self._view.paid | self._search.paid)
        bound = (mask & ~consumers | consumers & free).bit_count()
        available, used = self._view.available, self._search.counters
        for group, least in self._counter_groups(item):
            count = (consumers & ~free & group).bit_count()
            for counter, amount in least if count else ():
                count = min(count, (available[counter] - used.get(counter, 0)) // amount)
            bound += count
        return bound

    def _counter_groups(self, item: Candidates) -> list[tuple[int, list[tuple[int, int]]]]:
        """Group the candidates by counter set, with the minimal amounts of counters consumed by all of a group."""
        known = self._groups.get(id(item))
        if known is not None:
            return known
        view = self._view
        groups: dict[tuple[int, str], list[int]] = {}
        for number, pool in enumerate(view.counter_pools):
            for position in bits(pool.mask & item.selected.mask & item.base):
                first = view.consumption[position][0][0]
                groups.setdefault((number, pool.names[first - pool.start][0]), []).append(position)
        result = []
        for positions in groups.values():
            uses = [dict(view.consumption[position]) for position in positions]
            common = set.intersection(*(set(use) for use in uses))
            least = [(counter, min(use[counter] for use in uses)) for counter in common]
            mask = sum(1 << position for position in positions)
            result.append((mask, [(counter, amount) for counter, amount in least if amount > 0]))
        self._groups[id(item)] = result
        return result


def _can_match(slots: list[int]) -> bool:
    """Return whether every slot can have a distinct device of its mask."""
    owner: dict[int, int] = {}
    for slot in range(len(slots)):
        came_from: dict[int, int] = {}
        seen, queue, found = 0, [slot], -1
        while queue and found < 0:
            current = queue.pop()
            for position in bits(slots[current] & ~seen):
                seen |= 1 << position
                came_from[position] = current
                if position not in owner:
                    found = position
                    break
                queue.append(owner[position])
        if found < 0:
            return False
        while True:
            current = came_from[found]
            previous = next((p for p, s in owner.items() if s == current), -1)
            owner[found] = current
            if current == slot:
                break
            found = previous
    return True
