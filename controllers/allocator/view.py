"""A node's devices as a list, and sets of devices as bit masks.

A set of devices is an integer whose bit i represents the i-th device in allocation order. "Free, selected, tolerated
and not picked yet" thus takes three integer operations for any number of devices.

Invariants
- The devices of a view never change; a changed slice creates a new view.
- `sync` applies the changes of the allocated state since its last call, through the log.
- Sets that depend only on a request (selectors, taints, capacities) are cached by the fields of the request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apiserver.api.helpers.tolerations import tolerates
from controllers.allocator.allocated import AllocatedState
from controllers.allocator.capacity import Demand, demand
from controllers.allocator.devices import Device, DeviceID, PoolID
from controllers.allocator.features import Features
from controllers.allocator.pools import NodeMatcher, Pool
from controllers.allocator.selectors import SelectorError, Selectors

_KEPT: Final = 256
_CHUNK: Final = 32
_CHANGES_KEPT: Final = 20_000


def bits(mask: int) -> Iterator[int]:
    """Yield the positions in a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True, slots=True)
class Chain:
    """The selectors of a request: those of its class, then its own."""

    of_class: tuple[str, ...]
    of_request: tuple[str, ...]

    @property
    def expressions(self) -> tuple[str, ...]:
        """All expressions in order."""
        return self.of_class + self.of_request


@dataclass(frozen=True, slots=True)
class SelectionError:
    """The failure of selector `index` of the class or request, or of the node selection, for a device."""

    origin: str
    """`class`, `request` or `node`."""
    index: int
    error: SelectorError


class Selection:
    """The devices selected by a chain of selectors, evaluated lazily in order."""

    __slots__ = ("_chain", "_selectors", "_view", "errors", "failed", "known", "mask")

    def __init__(self, view: NodeView, chain: Chain, selectors: Selectors) -> None:
        self._view = view
        self._chain = chain
        self._selectors = selectors
        self.known = 0
        """Number of evaluated devices."""
        self.mask = 0
        self.failed = 0
        """Devices with an error in `errors`."""
        self.errors: dict[int, SelectionError] = {}

    @property
    def complete(self) -> bool:
        """True if all devices were evaluated."""
        return self.known >= self._view.size

    def extend(self, upto: int | None = None) -> None:
        """Evaluate more devices: the next chunk, or all before a position."""
        view = self._view
        end = min(view.size, max(self.known * 2, self.known + _CHUNK) if upto is None else upto)
        mask = failed = 0
        for position in range(self.known, end):
            verdict = self._evaluate(position)
            if verdict is True:
                mask |= 1 << position
            elif verdict is not False:
                failed |= 1 << position
                self.errors[position] = verdict
        self.mask |= mask
        self.failed |= failed
        self.known = max(self.known, end)

    def rejecting_selector(self, position: int) -> tuple[str, int, str]:
        """Return the selector that rejects a device: its origin, index and expression."""
        device = self._view.devices[position]
        for origin, expressions in (("class", self._chain.of_class), ("request", self._chain.of_request)):
            for index, expression in enumerate(expressions):
                if self._selectors.verdict(expression, device) is False:
                    return (origin, index, expression)
        return ("node", 0, "")

    def _evaluate(self, position: int) -> bool | SelectionError:
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
    """The counters of one pool, as a range of the view's counters."""

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
    """The usable devices of one node, or of several nodes with the same slices."""

    def __init__(self, pools: Sequence[Pool], node: NodeMatcher, features: Features) -> None:
        self.features = features
        self.pools = tuple(pools)
        self.devices: list[Device] = []
        self.starts: list[int] = []
        """The position of each pool's first device."""
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
        self._selected: OrderedDict[Chain, Selection] = OrderedDict()
        self._tolerated: dict[str, int] = {}
        self._capable: dict[str, int] = {}
        self._exhausted: dict[str, tuple[int, int]] = {}
        """By capacity key: the number of applied capacity changes, and the devices."""
        self._capacity_changes: list[int] = []
        self.caches: dict[Any, Any] = {}
        """Further values that depend only on the view, cached by its users."""
        self.outcomes: dict[str, Any] = {}
        """Search results with the stamp of their state, cached by the allocator."""
        self.stamp = 0
        """Incremented with every state change of a device."""
        self.used = 0
        """Exclusively used devices."""
        self.paid = 0
        """Devices in use at all: their counters are already consumed."""
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
        """The remaining amount of every counter."""
        self._paid_elsewhere: set[DeviceID] = set()
        self.overdrawn = 0
        """Unusable devices: they consume counters of a pool with an overdrawn counter."""

    # --- masks that depend on requests

    def selection(self, chain: Chain, selectors: Selectors) -> Selection:
        """Return the devices selected by the chain."""
        found = self._selected.get(chain)
        if found is None:
            if len(self._selected) >= _KEPT:
                self._selected.popitem(last=False)
            found = self._selected[chain] = Selection(self, chain, selectors)
        return found

    def tolerated_mask(self, key: str, tolerations: Sequence[dict[str, Any]]) -> int:
        """Return the devices without untolerated taints; `key` identifies the tolerations."""
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
        """Return the consumption of a request with this capacity key, or why the device does not fit."""
        return demand(self.devices[position].capacity_key, key)

    def capable_mask(self, key: str) -> int:
        """Return the devices whose total capacity satisfies a request, ignoring allocations."""
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

    def exhausted_mask(self, key: str) -> int:
        """Return the devices with too little capacity left for a request with this capacity key."""
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

    # --- state that depends on allocations

    def sync(self, allocated: AllocatedState) -> None:
        """Apply the changes of the allocated state since the last call."""
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

    def _load(self, allocated: AllocatedState) -> None:
        devices = {*(self.devices[i].id for i in bits(self.used | self.paid)), *self._paid_elsewhere}
        for pool in self.pools:
            devices.update((*pool.id, name) for name in allocated.pools.get(pool.id, ()))
        for device in devices:
            if device in self.positions or device in self._elsewhere:
                self._update(device, allocated)

    def _update(self, device: DeviceID, allocated: AllocatedState) -> None:
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
        """Return `counter set/counter`."""
        book = next(book for book in self.counter_pools if book.start <= number < book.stop)
        return "/".join(book.names[number - book.start])

    def fits(self, position: int, more: dict[int, int] | None = None) -> bool:
        """Return whether enough of the counters is left for a device, beside the amounts in `more`."""
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
