"""Allocated devices: updated by claim events, including assumed allocations that are not written yet.

Invariants
- Every use belongs to one claim. Removing the claim removes exactly its uses.
- An assumed allocation replaces the known one of the same claim until it is forgotten.
- Admin access does not put a device in use. With consumable capacity, a result with a share ID uses a share of the
  device; every other result uses the device exclusively.
- `log` lists every device with changed state, in order; readers store their position.

Source of facts: Kubernetes 1.36, staging/src/k8s.io/dynamic-resource-allocation/structured/internal/allocatedstate.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controllers.allocator.amounts import nanos
from controllers.allocator.devices import DeviceID, Object, PoolID

_LOG_LIMIT: Final = 20_000


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The use of one device by one claim: exclusive (empty `share`) or one share."""

    device: DeviceID
    share: str = ""
    capacity: tuple[tuple[str, int], ...] = ()


class AllocatedState:
    """Devices in use with the claims that use them, and consumed capacity of shared devices."""

    def __init__(self, consumable_capacity: bool = True) -> None:
        self._shares_count = consumable_capacity
        self._known: dict[str, tuple[DeviceUse, ...]] = {}
        self._assumed: dict[str, tuple[DeviceUse, ...]] = {}
        self._names: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self.exclusive: dict[DeviceID, dict[str, int]] = {}
        """Exclusively used devices, with the claims that use them."""
        self.shared: dict[DeviceID, dict[str, int]] = {}
        """Shared devices, with the claims that use shares."""
        self.capacity: dict[DeviceID, dict[str, int]] = {}
        """Consumed capacity of shared devices, in nano-units."""
        self.pools: dict[PoolID, dict[str, int]] = {}
        """Devices in use per pool, with the number of uses."""
        self.log: list[DeviceID] = []
        self.log_start = 0

    @property
    def position(self) -> int:
        """The number of changes so far."""
        return self.log_start + len(self.log)

    def is_used(self, device: DeviceID) -> bool:
        """Return whether the device is in use, exclusively or shared."""
        return device in self.exclusive or device in self.shared

    def users(self, device: DeviceID) -> list[str]:
        """Return the claims (`namespace/name`) that use the device."""
        keys = (*self.exclusive.get(device, ()), *self.shared.get(device, ()))
        return sorted({self._names.get(key, key) for key in keys})

    def upsert_claim(self, claim: Object) -> None:
        """Add or update a claim."""
        key, name = claim_key(claim), claim_name(claim)
        previous = self._keys.get(name)
        if previous is not None and previous != key:
            self._replace(self._known, previous, ())
            self._names.pop(previous, None)
        self._names[key] = name
        self._keys[name] = key
        self._replace(self._known, key, self._uses((claim.get("status") or {}).get("allocation")))

    def remove_claim(self, claim: Object) -> None:
        """Remove a deleted claim."""
        key, name = claim_key(claim), claim_name(claim)
        self._replace(self._known, key, ())
        if self._keys.get(name) == key:
            del self._keys[name]
        if key not in self._assumed:
            self._names.pop(key, None)

    def assume(self, claim: Object, allocation: Object) -> None:
        """Assume an allocation of the claim: it counts from now on."""
        key = claim_key(claim)
        self._names.setdefault(key, claim_name(claim))
        self._replace(self._assumed, key, self._uses(allocation), always=True)

    def forget(self, claim: Object) -> None:
        """Drop the assumed allocation, after it was written or given up."""
        key = claim_key(claim)
        self._replace(self._assumed, key, None)
        if key not in self._known and key not in self._assumed:
            self._names.pop(key, None)

    def put(self, owner: str, uses: Iterable[DeviceUse]) -> None:
        """Set the uses of one owner without a claim object."""
        self._replace(self._known, owner, tuple(uses))

    def _uses(self, allocation: Mapping[str, Any] | None) -> tuple[DeviceUse, ...]:
        if not allocation:
            return ()
        uses = []
        for result in (allocation.get("devices") or {}).get("results") or ():
            if result.get("adminAccess"):
                continue
            device = (result["driver"], result["pool"], result["device"])
            share = result.get("shareID") if self._shares_count else None
            if share is None:
                uses.append(DeviceUse(device))
            else:
                consumed = result.get("consumedCapacity") or {}
                amounts = tuple((name, nanos(str(amount))) for name, amount in consumed.items())
                uses.append(DeviceUse(device, str(share), amounts))
        return tuple(uses)

    def _replace(
        self,
        table: dict[str, tuple[DeviceUse, ...]],
        key: str,
        uses: tuple[DeviceUse, ...] | None,
        always: bool = False,
    ) -> None:
        before = self._effective(key)
        if uses or always:
            table[key] = uses or ()
        else:
            table.pop(key, None)
        after = self._effective(key)
        if before == after:
            return
        for use in before:
            self._count(key, use, -1)
        for use in after:
            self._count(key, use, 1)
        self._log_changes(use.device for use in (*before, *after))

    def _effective(self, key: str) -> tuple[DeviceUse, ...]:
        assumed = self._assumed.get(key)
        return self._known.get(key, ()) if assumed is None else assumed

    def _count(self, key: str, use: DeviceUse, step: int) -> None:
        device = use.device
        _add(self.shared if use.share else self.exclusive, device, key, step)
        _add(self.pools, device[:2], device[2], step)
        if use.share:
            for name, amount in use.capacity:
                _add(self.capacity, device, name, step * amount)

    def _log_changes(self, devices: Iterable[DeviceID]) -> None:
        self.log.extend(devices)
        if len(self.log) > _LOG_LIMIT:
            cut = len(self.log) // 2
            del self.log[:cut]
            self.log_start += cut


def _add(table: dict[Any, dict[str, int]], key: Any, name: str, step: int) -> None:
    """Add `step` to a nested counter. Delete it at zero."""
    inner = table.setdefault(key, {})
    value = inner.get(name, 0) + step
    if value:
        inner[name] = value
    else:
        inner.pop(name, None)
        if not inner:
            del table[key]


def claim_key(claim: Object) -> str:
    """Return the UID of a claim, or its name without one."""
    uid: str | None = claim["metadata"].get("uid")
    return uid or claim_name(claim)


def claim_name(claim: Object) -> str:
    """Return `namespace/name`, as in messages."""
    metadata = claim["metadata"]
    namespace = metadata.get("namespace")
    name: str = metadata.get("name", "")
    return f"{namespace}/{name}" if namespace else name
