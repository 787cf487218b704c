"""The controller of ResourcePoolStatusRequests: writes device counts of a driver's pools, once per request.

Only the slices of a pool's highest generation count. For incomplete pools the controller retries a few times, then
leaves the request without status until its next change. Requests with a status are deleted after one hour, others
after one day. Inactive without the gate DRAResourcePoolStatus. Facts: pkg/controller/resourcepoolstatusrequest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter as Counted
from apiserver.runtime.metrics import Family, Histogram, exponential
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import RESOURCE_CLAIMS, RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from controllers.runtime.times import go_time, parse_time

NAME = "resourcepoolstatusrequest-controller"
GATE = "DRAResourcePoolStatus"
#: Retries of a request for an incomplete pool.
ATTEMPTS = 5
_FIRST_WAIT = timedelta(milliseconds=5)
_SWEEP = timedelta(minutes=10)
_ANSWERED_FOR = timedelta(hours=1)
_PENDING_FOR = timedelta(hours=24)
_DEFAULT_LIMIT = 100
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Pool:
    """One pool at its highest generation. `nodes` are the node names of its slices, "" for a slice without one."""

    driver: str
    name: str
    generation: int = -1
    expected: int = 0
    slices: int = 0
    devices: int = 0
    nodes: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        return self.slices >= self.expected

    def add(self, spec: Json) -> None:
        generation = spec["pool"]["generation"]
        if generation < self.generation:
            return
        if generation > self.generation:
            self.generation, self.slices, self.devices, self.nodes = generation, 0, 0, set()
            self.expected = spec["pool"]["resourceSliceCount"]
        self.slices += 1
        self.devices += len(spec.get("devices") or ())
        self.nodes.add(spec.get("nodeName") or "")

    def status(self, allocated: int) -> Json:
        """Return the entry of the pool in the request status."""
        (node,) = self.nodes if len(self.nodes) == 1 else ("",)
        return {
            "driver": self.driver,
            "poolName": self.name,
            "generation": self.generation,
            "resourceSliceCount": self.slices,
            "totalDevices": self.devices,
            "allocatedDevices": allocated,
            "availableDevices": max(0, self.devices - allocated),
            "unavailableDevices": 0,
            **({"nodeName": node} if node else {}),
        }


def pools_of(slices: Iterable[Json], driver: str, name: str | None) -> list[Pool]:
    """Return the pools of a driver by name, or only the pool `name`."""
    found: dict[str, Pool] = {}
    for slice_ in slices:
        spec = slice_["spec"]
        pool = spec["pool"]["name"]
        if spec["driver"] == driver and name in (None, pool):
            found.setdefault(pool, Pool(driver, pool)).add(spec)
    return [found[pool] for pool in sorted(found)]


def count_allocated(claims: Iterable[Json], driver: str) -> Counter[str]:
    """Count the allocation results of a driver per pool."""
    counts: Counter[str] = Counter()
    for claim in claims:
        devices = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
        counts.update(result["pool"] for result in devices.get("results") or () if result["driver"] == driver)
    return counts


def is_old(request: Json, now: datetime) -> bool:
    """Return whether a request has had its status for one hour, or has waited for one day."""
    answered = request.get("status") is not None
    ended = [c for c in (request.get("status") or {}).get("conditions") or () if c["type"] in ("Complete", "Failed")]
    since = parse_time(ended[0]["lastTransitionTime"] if ended else request["metadata"]["creationTimestamp"])
    return now - since > (_ANSWERED_FOR if answered else _PENDING_FOR)


class RequestMetrics:
    """Metrics by driver, with upstream's names. A request counts once its status was sent, even if rejected."""

    def __init__(self) -> None:
        prefix, labels = "resourcepoolstatusrequest_controller", ("driver_name",)
        self.processed = Counted(f"{prefix}_requests_processed_total", "Processed requests.", labels)
        self.errors = Counted(f"{prefix}_request_processing_errors_total", "Failed status updates.", labels)
        self.durations = Histogram(
            f"{prefix}_request_processing_duration_seconds",
            "Processing time of a request in seconds.",
            labels,
            exponential(0.001, 2, 15),
        )
        self.families: tuple[Family, ...] = (self.processed, self.errors, self.durations)


def build(client: Client, informers: Informers, options: Options) -> PoolStatusRequests:
    """Build the component."""
    return PoolStatusRequests(client, informers, enabled=options.features.enabled(GATE))


class PoolStatusRequests(ControllerComponent):
    """Reconciles ResourcePoolStatusRequests. Keys are names of requests."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, *, enabled: bool) -> None:
        self._client, self._enabled = client.for_controller(NAME), enabled
        self._attempts: dict[str, int] = {}
        self._controller = Controller(NAME, self.reconcile)
        self._metrics = RequestMetrics()
        if enabled:
            self._requests, self._slices, self._claims = map(
                informers.of, (RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES, RESOURCE_CLAIMS)
            )
            self._controller.follow(self._requests)
            self._controller.require(self._slices)
            self._controller.require(self._claims)
            self._controller.alongside(self._sweep_regularly)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, *self._metrics.families)

    async def run(self) -> None:
        if self._enabled:
            await self._controller.run()
        else:
            await asyncio.Event().wait()

    async def reconcile(self, name: str) -> timedelta | None:
        started = clock.now()
        request = self._requests.get(name)
        if request is None or request.get("status") is not None:
            self._attempts.pop(name, None)
            return None
        spec = request["spec"]
        pools = pools_of(self._slices.objects.values(), spec["driver"], spec.get("poolName") or None)
        count, pools = len(pools), pools[: spec.get("limit", _DEFAULT_LIMIT)]
        if not all(pool.complete for pool in pools):
            return self._retry_delay(name)
        self._attempts.pop(name, None)
        allocated = count_allocated(self._claims.objects.values(), spec["driver"])
        statuses = [pool.status(allocated[pool.name]) for pool in pools]
        condition = {
            "type": "Complete",
            "status": "True",
            "lastTransitionTime": go_time(clock.now()),
            "reason": "CalculationComplete",
            "message": f"Calculated status for {len(pools)} pools",
        }
        status = {"poolCount": count, **({"pools": statuses} if statuses else {}), "conditions": [condition]}
        try:
            await self._client.update_status(RESOURCE_POOL_STATUS_REQUESTS, {**request, "status": status})
        except Exception:
            self._metrics.errors.inc(spec["driver"])
            raise
        finally:
            self._metrics.processed.inc(spec["driver"])
            self._metrics.durations.observe((clock.now() - started).total_seconds(), spec["driver"])
        return None

    def _retry_delay(self, name: str) -> timedelta | None:
        attempt = self._attempts.get(name, 0)
        if attempt >= ATTEMPTS:
            log.info("%s: %s: giving up on incomplete pools", NAME, name)
            del self._attempts[name]
            return None
        self._attempts[name] = attempt + 1
        return _FIRST_WAIT * (1 << attempt)

    async def _sweep_regularly(self) -> None:
        while True:
            await self.sweep()
            with clock.timers(clock.Timer.UPKEEP):
                await asyncio.sleep(_SWEEP.total_seconds())

    async def sweep(self) -> None:
        """Delete old requests."""
        now = clock.now()
        for request in list(self._requests.objects.values()):
            if not is_old(request, now):
                continue
            metadata = request["metadata"]
            try:
                await self._client.delete(RESOURCE_POOL_STATUS_REQUESTS, metadata["name"], uid=metadata["uid"])
            except StatusError as error:
                if error.reason not in ("NotFound", "Conflict"):
                    log.warning("%s: cannot delete %s: %s", NAME, metadata["name"], error)
