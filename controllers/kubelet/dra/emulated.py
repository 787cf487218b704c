"""Emulated drivers for nodes without a plugin directory.

Any driver name works, and every claim is prepared unless the node's annotations define a fault (`device_faults`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.dra.cache import ClaimCache
from controllers.kubelet.dra.drivers import ClaimId, DriverMissingError, PreparedClaim, PreparedDevice
from controllers.kubelet.dra.health import Health, container_statuses
from controllers.kubelet.emulation.device_faults import NONE, DeviceFaults

#: Returns the allocation results of a claim; empty if unknown.
Results = Callable[[ClaimId], Iterable[Json]]


class EmulatedDriver:
    """A driver that prepares the allocated devices without CDI ids."""

    def __init__(self, name: str, faults: Callable[[], DeviceFaults], results: Results) -> None:
        self.name, self._faults, self._results = name, faults, results

    async def prepare(self, claims: Sequence[ClaimId]) -> Mapping[str, PreparedClaim]:
        if takes := self._faults().prepare_takes.total_seconds():
            await asyncio.sleep(takes)
        return {claim.uid: self._prepare_claim(claim) for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimId]) -> Mapping[str, str]:
        error = self._faults().unprepare_error
        return {claim.uid: error for claim in claims}

    def _prepare_claim(self, claim: ClaimId) -> PreparedClaim:
        results = [result for result in self._results(claim) if result["driver"] == self.name]
        if error := self._faults().prepare_error_for(self.name, [result["device"] for result in results]):
            return PreparedClaim(error=error)
        return PreparedClaim(
            tuple(
                PreparedDevice(r["pool"], r["device"], (r["request"].partition("/")[0],), share_id=r.get("shareID"))
                for r in results
            )
        )


class EmulatedDrivers:
    """The drivers of an emulated node: one for any name except the missing ones."""

    def __init__(self, faults: Callable[[], DeviceFaults] = lambda: NONE, results: Results = lambda claim: ()) -> None:
        self._faults, self._results = faults, results

    def get(self, name: str) -> EmulatedDriver:
        if name in self._faults().missing_drivers:
            raise DriverMissingError(name)
        return EmulatedDriver(name, self._faults, self._results)


class EmulatedHealth:
    """The health of devices in container statuses, as defined by the node's annotations."""

    def __init__(self, cache: ClaimCache, faults: Callable[[], DeviceFaults], *, messages: bool) -> None:
        self._cache, self._faults, self._messages = cache, faults, messages

    def __call__(self, pod: Json, statuses: Sequence[Json]) -> list[Json]:
        if self._faults().unhealthy is None:
            return list(statuses)
        return container_statuses(pod, statuses, self._cache, self, clock.now(), messages=self._messages)

    def get(self, driver: str, pool: str, device: str, now: datetime) -> Health:
        state, message = self._faults().health(driver, device)
        return Health(pool, device, state, message)
