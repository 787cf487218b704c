"""A node's devices in one row, with sets of them as bit masks.

A set of devices is an integer whose bit i stands for the i-th device in the order in which devices are tried, so
that "free, selected, tolerated and not yet taken" is three machine-speed operations however many devices there are.

Invariants
- Which devices there are never changes; a changed slice makes a new view.
- Allocated state is followed through its log: `sync` looks at what changed since the last time.
- Sets that depend on a request only (selectors, taints, capacities) are kept by what the request says.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apiserver.api.helpers.tolerations import tolerates
from controllers.allocator.allocated import Allocated
from controllers.allocator.capacity import Demand, demand
from controllers.allocator.devices import Device, DeviceID, PoolID
from controllers.allocator.features import Features
from controllers.allocator.pools import NodeMatcher, Pool
from controllers.allocator.selectors import SelectorError, Selectors

_KEPT: Final = 256
_CHUNK: Final = 32
_CHANGES_KEPT: Final = 20_000


def bits(mask: int) -> Iterator[int]:
    """The positions in a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True, slots=True)
class Chain:
    """The selectors that a device has to pass for a request: the class's, then the request's own."""

    of_class: tuple[str, ...]
    of_request: tuple[str, ...]

    @property
    def expressions(self) -> tuple[str, ...]:
        """All of them in order."""
        return self.of_class + self.of_request


@dataclass(frozen=True, slots=True)
class SelectionError:
    """Why a device could not be judged: selector `index` of the class or of the request, or the node selection."""

    origin: str
    """`class`, `request` or `node`."""
    index: int
    error: SelectorError


class Selected:
    """The devices that a chain of selectors selects, found out from the first device on as far as needed."""

    __slots__ = ("_chain", "_selectors", "_view", "errors", "failed", "known", "mask")

    def __init__(self, view: NodeView, chain: Chain, selectors: Selectors) -> None:
        self._view = view
        self._chain = chain
        self._selectors = selectors
        self.known = 0
        """How many devices were judged."""
        self.mask = 0
        self.failed = 0
        """Devices that could not be judged; `errors` says why."""
        self.errors: dict[int, SelectionError] = {}

    @property
    def complete(self) -> bool:
        """Whether all devices were judged."""
        return self.known >= self._view.size

    def extend(self, upto: int | None = None) -> None:
        """Judge more devices: some, or all before a position."""
        view = self._view
        end = min(view.size, max(self.known * 2, self.known + _CHUNK) if upto is None else upto)
        mask = failed = 0
        for position in range(self.known, end):
            verdict = self._judge(position)
            if verdict is True:
                mask |= 1 << position
            elif verdict is not False:
                failed |= 1 << position
                self.errors[position] = verdict
        self.mask |= mask
        self.failed |= failed
        self.known = max(self.known, end)

    def refused_by(self, position: int) -> tuple[str, int, str]:
        """The selector that a device does not pass: whose, which, and its expression; or the node selection."""
        device = self._view.devices[position]
        for origin, expressions in (("class", self._chain.of_class), ("request", self._chain.of_request)):
            for index, expression in enumerate(expressions):
                if self._selectors.verdict(expression, device) is False:
                    return (origin, index, expression)
        return ("node", 0, "")

    def _judge(self, position: int) -> bool | SelectionError:
        view = self._view
        device = view.devices[position]
        if device.conditions and not view.features.binding_conditions:
            return False
        verdict_of = self._selectors.verdict
        for origin, expressions in (("class", self._chain.of_class), ("request", self._chain.of_request)):
            for index, expression in enumerate(expressions):
                verdict = verdict_of(expression, device)
                if verdict is not True:
                    return SelectionError(origin, index, verdict) if verdict else False
        problem = view.node_errors.get(position)
        if problem is not None:
            return SelectionError("node", 0, SelectorError("runtime", problem))
        return bool(view.node_mask >> position & 1)


class CounterPool:
    """The counters of one pool: which of the view's counters they are."""

    __slots__ = ("mask", "names", "start", "stop")

    def __init__(self, start: int, names: list[tuple[str, str]], mask: int) -> None:
        self.start = start
        self.stop = start + len(names)
        self.names = names
        self.mask = mask
        """The devices of the pool that consume counters."""


Consumption = tuple[tuple[int, int], ...]
"""Counters (by number) and amounts."""


class NodeView:
    """What one node (or several that see the same) can use."""

    def __init__(self, pools: Sequence[Pool], node: NodeMatcher, features: Features) -> None:
        self.features = features
        self.pools = tuple(pools)
        self.devices: list[Device] = []
        self.starts: list[int] = []
        """Position of each pool's first device."""
        for pool in pools:
            self.starts.append(len(self.devices))
            self.devices += [device for item in pool.slices for device in item.devices]
        self.size = len(self.devices)
        self.all = (1 << self.size) - 1
        self.positions: dict[DeviceID, int] = {device.id: i for i, device in enumerate(self.devices)}
        self.invalid = any(pool.status == "invalid" for pool in pools)
        self.node_errors: dict[int, str] = {}
        self.node_mask = self._match_nodes(node)
        self.multiple = self._mask(lambda device: device.multiple) if features.consumable_capacity else 0
        self.consumers = self._mask(lambda device: bool(device.counter_sets))
        self.tainted = self._mask(lambda device: bool(device.taints)) if features.device_taints else 0
        self.with_capacity = self._mask(lambda device: bool(device.capacity))
        self._selected: OrderedDict[Chain, Selected] = OrderedDict()
        self._tolerated: dict[str, int] = {}
        self._capable: dict[str, int] = {}
        self._exhausted: dict[str, tuple[int, int]] = {}
        """By capacity key: how many of the capacity changes are in, and the devices."""
        self._capacity_changes: list[int] = []
        self.caches: dict[Any, Any] = {}
        """Whatever else depends on the view alone, kept by its users."""
        self.outcomes: dict[str, Any] = {}
        """Results of searches, with the stamp of the state that they hold for, kept by the allocator."""
        self.stamp = 0
        """Changes whenever the state of one of the devices does."""
        self.used = 0
        """Devices in use alone."""
        self.paid = 0
        """Devices in use in any way: their counters are consumed already."""
        self.consumed: dict[int, dict[str, int]] = {}
        """Consumed capacity of devices, in nano-units."""
        self._read = -1
        self._set_up_counters()

    def _mask(self, test: Any) -> int:
        return sum(1 << i for i, device in enumerate(self.devices) if test(device))

    def _match_nodes(self, node: NodeMatcher) -> int:
        mask = self.all
        for i, device in enumerate(self.devices):
            if device.slice.per_device:
                try:
                    if not node.matches(device.node_selection):
                        mask &= ~(1 << i)
                except ValueError as error:
                    self.node_errors[i] = str(error)
        return mask

    def _set_up_counters(self) -> None:
        self.counter_pools: list[CounterPool] = []
        self.consumption: dict[int, Consumption] = {}
        self._elsewhere: dict[DeviceID, Consumption] = {}
        self._totals: list[int] = []
        self._pool_of_counter: list[CounterPool] = []
        self._counters_changed: dict[PoolID, CounterPool] = {}
        for pool, start in zip(self.pools, self.starts, strict=True):
            if not pool.counters:
                continue
            numbers = {counter: len(self._totals) + i for i, counter in enumerate(pool.counters)}
            count = sum(len(item.devices) for item in pool.slices)
            mask = ((1 << count) - 1) << start & self.consumers
            book = CounterPool(len(self._totals), list(pool.counters), mask)
            self.counter_pools.append(book)
            self._totals += pool.counters.values()
            for position in bits(mask):
                self.consumption[position] = _add_up(self.devices[position], numbers)
            for item in pool.elsewhere:
                self._elsewhere.update((d.id, _add_up(d, numbers)) for d in item.devices if d.consumes)
        self.available: list[int] = list(self._totals)
        """What is left of every counter."""
        self._paid_elsewhere: set[DeviceID] = set()
        self.overdrawn = 0
        """Devices that consume counters in a pool of which some counter is overdrawn: none of them can be used."""

    # --- what depends on requests

    def selected(self, chain: Chain, selectors: Selectors) -> Selected:
        """The devices that the chain selects."""
        found = self._selected.get(chain)
        if found is None:
            if len(self._selected) >= _KEPT:
                self._selected.popitem(last=False)
            found = self._selected[chain] = Selected(self, chain, selectors)
        return found

    def tolerated(self, key: str, tolerations: Sequence[dict[str, Any]]) -> int:
        """The devices all of whose taints are tolerated; `key` identifies the tolerations."""
        if not self.tainted:
            return self.all
        mask = self._tolerated.get(key)
        if mask is None:
            if len(self._tolerated) >= _KEPT:
                self._tolerated.clear()
            mask = self.all
            for i in bits(self.tainted):
                taints = self.devices[i].taints
                if not all(any(tolerates(item, *taint) for item in tolerations) for taint in taints):
                    mask &= ~(1 << i)
            self._tolerated[key] = mask
        return mask

    def demand(self, position: int, key: str) -> Demand | str:
        """What a request with this capacity key takes from a device."""
        return demand(self.devices[position].capacity_key, key)

    def capable(self, key: str) -> int:
        """The devices whose full capacity satisfies a request, whatever is taken of it."""
        if not self.features.consumable_capacity or not (key or self.with_capacity):
            return self.all
        mask = self._capable.get(key)
        if mask is None:
            if len(self._capable) >= _KEPT:
                self._capable.clear()
            mask = self._capable[key] = sum(
                1 << i for i in range(self.size) if not isinstance(self.demand(i, key), str)
            )
        return mask

    def exhausted(self, key: str) -> int:
        """The devices of which too much is taken for a request with this capacity key."""
        done, mask = self._exhausted.get(key, (0, 0))
        changes = self._capacity_changes
        if done == len(changes):
            return mask
        for position in changes[done:]:
            need = self.demand(position, key)
            taken = self.consumed.get(position)
            if taken and isinstance(need, Demand) and not need.fits(taken):
                mask |= 1 << position
            else:
                mask &= ~(1 << position)
        if len(self._exhausted) >= _KEPT:
            self._exhausted.clear()
        self._exhausted[key] = (len(changes), mask)
        return mask

    # --- what depends on allocations

    def sync(self, allocated: Allocated) -> None:
        """Catch up with the allocated state."""
        position = allocated.position
        if self._read == position:
            return
        gap = position - self._read
        if self._read < allocated.log_start or gap > 2 * self.size + 64:
            self._load(allocated)
        else:
            positions, elsewhere = self.positions, self._elsewhere
            for device in allocated.log[self._read - allocated.log_start :]:
                if device in positions or device in elsewhere:
                    self._update(device, allocated)
        self._read = position

    def _load(self, allocated: Allocated) -> None:
        devices = {*(self.devices[i].id for i in bits(self.used | self.paid)), *self._paid_elsewhere}
        for pool in self.pools:
            devices.update((*pool.id, name) for name in allocated.pools.get(pool.id, ()))
        for device in devices:
            if device in self.positions or device in self._elsewhere:
                self._update(device, allocated)

    def _update(self, device: DeviceID, allocated: Allocated) -> None:
        self.stamp += 1
        position = self.positions.get(device)
        used = allocated.is_used(device)
        if position is None:
            if used != (device in self._paid_elsewhere):
                self._pay(self._elsewhere[device], 1 if used else -1)
                (self._paid_elsewhere.add if used else self._paid_elsewhere.discard)(device)
            return
        bit = 1 << position
        self.used = self.used | bit if device in allocated.exclusive else self.used & ~bit
        if used != bool(self.paid & bit):
            self.paid ^= bit
            if position in self.consumption:
                self._pay(self.consumption[position], 1 if used else -1)
        taken = allocated.capacity.get(device)
        if taken:
            self.consumed[position] = dict(taken)
        elif self.consumed.pop(position, None) is None:
            return
        self._capacity_changes.append(position)
        if len(self._capacity_changes) > 2 * self.size + _CHANGES_KEPT:
            self._capacity_changes = list(self.consumed)
            self._exhausted.clear()

    def _pay(self, consumption: Consumption, sign: int) -> None:
        available = self.available
        for counter, amount in consumption:
            available[counter] -= sign * amount
        for book in self.counter_pools:
            if consumption and book.start <= consumption[0][0] < book.stop:
                negative = any(amount < 0 for amount in available[book.start : book.stop])
                self.overdrawn = self.overdrawn | book.mask if negative else self.overdrawn & ~book.mask

    def counter_name(self, number: int) -> str:
        """`counter set/counter`."""
        book = next(book for book in self.counter_pools if book.start <= number < book.stop)
        return "/".join(book.names[number - book.start])

    def fits(self, position: int, more: dict[int, int] | None = None) -> bool:
        """Whether the counters left suffice for a device, beside what this very search consumes."""
        available = self.available
        if more:
            return all(available[i] - more.get(i, 0) >= amount for i, amount in self.consumption[position])
        return all(available[i] >= amount for i, amount in self.consumption[position])


def _add_up(device: Device, numbers: dict[tuple[str, str], int]) -> Consumption:
    total: dict[int, int] = {}
    for counter, amount in device.consumes:
        number = numbers[counter]
        total[number] = total.get(number, 0) + amount
    return tuple(total.items())
