"""The kubelet's DRA metrics, with upstream's names and buckets. All nodes of a process share one set."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakSet

from apiserver.runtime.metrics import Family, Gauge, Histogram, Labels, exponential
from controllers.kubelet.dra.cache import ClaimCache

#: Buckets from 0.1 s to 40 s.
_BOUNDS = exponential(0.1, 400 ** (1 / 14), 15)


class DraMetrics:
    """Durations of operations and calls, and the number of prepared claims in all added caches."""

    def __init__(self) -> None:
        self._caches: WeakSet[ClaimCache] = WeakSet()
        self._operations = Histogram(
            "dra_operations_duration_seconds",
            "Duration of preparing or releasing a pod's claims.",
            ("operation_name", "is_error"),
            _BOUNDS,
        )
        self._calls = Histogram(
            "dra_grpc_operations_duration_seconds",
            "Duration of calls to drivers.",
            ("driver_name", "method_name", "grpc_status_code"),
            _BOUNDS,
        )
        self.families: tuple[Family, ...] = (
            self._operations,
            self._calls,
            Gauge("dra_resource_claims_in_use", "Prepared claims.", ("driver_name",), self._in_use),
        )

    def add(self, cache: ClaimCache) -> None:
        self._caches.add(cache)

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Time one operation; an exception counts as an error."""
        began, failed = time.monotonic(), "true"
        try:
            yield
            failed = "false"
        finally:
            self._operations.observe(time.monotonic() - began, name, failed)

    def call(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Record one call to a driver: full method path, name of the status code, duration."""
        self._calls.observe(seconds, driver, method, code)

    def _in_use(self) -> Mapping[Labels, float]:
        counts: Tally[str] = Tally({"<any>": 0})
        for cache in self._caches:
            counts.update(cache.in_use())
        return {(driver,): float(number) for driver, number in counts.items()}
