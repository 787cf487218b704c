"""The metrics of one work queue, with the names and buckets of client-go's queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family, Gauge, Histogram, Labels, exponential

_BUCKETS = exponential(1e-8, 10, 10)


class QueueMetrics:
    """The metrics of one queue. `depth` returns the number of waiting keys."""

    def __init__(self, name: str, depth: Callable[[], int]) -> None:
        self.name = name
        self._waiting: dict[str, datetime] = {}
        self._processing: dict[str, datetime] = {}
        label = ("name",)
        self.adds = Counter("workqueue_adds_total", "Added keys.", label)
        self.retries = Counter("workqueue_retries_total", "Keys re-added after a failure.", label)
        self._queued = Histogram(
            "workqueue_queue_duration_seconds", "Time that a key waits in the queue.", label, _BUCKETS
        )
        self._worked = Histogram("workqueue_work_duration_seconds", "Duration of the work on a key.", label, _BUCKETS)
        self.families: tuple[Family, ...] = (
            Gauge("workqueue_depth", "Waiting keys.", label, lambda: {(name,): depth()}),
            self.adds,
            self.retries,
            self._queued,
            self._worked,
            Gauge(
                "workqueue_unfinished_work_seconds",
                "Time spent so far on all keys in processing.",
                label,
                lambda: self._time_spent(sum),
            ),
            Gauge(
                "workqueue_longest_running_processor_seconds",
                "Time spent so far on the key longest in processing.",
                label,
                lambda: self._time_spent(max),
            ),
        )

    def add(self, key: str) -> None:
        self.adds.inc(self.name)
        self._waiting.setdefault(key, clock.now())

    def get(self, key: str) -> None:
        now = clock.now()
        self._queued.observe((now - self._waiting.pop(key, now)).total_seconds(), self.name)
        self._processing[key] = now

    def done(self, key: str) -> None:
        since = self._processing.pop(key, None)
        if since is not None:
            self._worked.observe((clock.now() - since).total_seconds(), self.name)

    def _time_spent(self, combine: Callable[[list[float]], float]) -> Mapping[Labels, float]:
        now = clock.now()
        return {(self.name,): combine([0.0, *((now - since).total_seconds() for since in self._processing.values())])}
