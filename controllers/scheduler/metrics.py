"""What the scheduler counts, with upstream's names (pkg/scheduler/metrics of Kubernetes 1.36)."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping

from apiserver.api.metrics import Counter, Family, Gauge, Labels
from controllers.scheduler.podinfo import PodInfo
from controllers.scheduler.queue import Place, SchedulingQueue

#: What upstream calls the places of the queue; it does not count pods in flight.
_QUEUES = {
    Place.ACTIVE: "active",
    Place.BACKOFF: "backoff",
    Place.ERROR_BACKOFF: "backoff",
    Place.UNSCHEDULABLE: "unschedulable",
    Place.GATED: "gated",
}


class SchedulerMetrics:
    """Attempts and how they ended, and where pods wait for what. `profile` names the profile that a pod chose."""

    def __init__(self, queue: SchedulingQueue, profile: Callable[[PodInfo], str]) -> None:
        self._queue, self._profile = queue, profile
        self.attempts = Counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule a pod.", ("result", "profile")
        )
        self.families: tuple[Family, ...] = (
            self.attempts,
            Gauge("scheduler_pending_pods", "Pods that wait.", ("queue",), self._pending),
            Gauge(
                "scheduler_unschedulable_pods",
                "Pods that a plugin rejected or keeps out.",
                ("plugin", "profile"),
                self._rejected,
            ),
        )

    def ended(self, info: PodInfo, result: str) -> None:
        """An attempt ended: "scheduled", "unschedulable" or "error"."""
        self.attempts.inc(result, self._profile(info))

    def _pending(self) -> Mapping[Labels, float]:
        places = Tally(_QUEUES[pod.place] for pod in self._queue.pods.values() if pod.place in _QUEUES)
        return {(name,): places[name] for name in dict.fromkeys(_QUEUES.values())}

    def _rejected(self) -> Mapping[Labels, float]:
        return Tally(
            (plugin, self._profile(pod.info))
            for pod in self._queue.pods.values()
            if pod.place in (Place.UNSCHEDULABLE, Place.GATED)
            for plugin in pod.plugins
        )
