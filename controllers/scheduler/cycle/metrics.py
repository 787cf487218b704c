"""The scheduler's metrics, with upstream's names (pkg/scheduler/metrics of Kubernetes 1.36)."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sized

from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family, Gauge, Histogram, Labels, exponential
from controllers.scheduler.framework.attempt_metrics import AttemptMetrics
from controllers.scheduler.queue.queue import SchedulingQueue
from controllers.scheduler.queue.queued_pod import QueuedPod, SubQueue
from controllers.scheduler.state.nodes import Cache
from controllers.scheduler.state.pod_info import PodInfo

#: Upstream's queue names. Pods in flight have none and are not counted.
_QUEUES = {
    SubQueue.ACTIVE: "active",
    SubQueue.BACKOFF: "backoff",
    SubQueue.ERROR_BACKOFF: "backoff",
    SubQueue.UNSCHEDULABLE: "unschedulable",
    SubQueue.GATED: "gated",
}
_MANY_ATTEMPTS = 15
"""From this number on attempts share one label value."""
#: Buckets of one attempt (1 ms to 16 s), and of all attempts of a pod (10 ms to 87 minutes).
_ATTEMPT, _WHOLE = exponential(0.001, 2, 15), exponential(0.01, 2, 20)


class SchedulerMetrics:
    """Metrics of attempts and of pending pods.

    Args:
        queue: The queue of pending pods.
        cache: The cached nodes and pods.
        binding: The pods that are being bound.
        attempt_metrics: The metrics of the parts of an attempt.
        profile: Returns the name of a pod's profile.
        is_enabled: Returns whether a feature gate is on.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        cache: Cache,
        binding: Sized,
        attempt_metrics: AttemptMetrics,
        profile: Callable[[PodInfo], str],
        is_enabled: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._queue, self._cache, self._binding, self._profile = queue, cache, binding, profile
        labels = ("result", "profile")
        self.attempts = Counter("scheduler_schedule_attempts_total", "[STABLE] Attempts to schedule a pod.", labels)
        self._duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "[STABLE] Duration of an attempt to schedule a pod, including its binding.",
            labels,
            _ATTEMPT,
        )
        self._algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "[ALPHA] Duration of the decision about a pod.",
            (),
            _ATTEMPT,
        )
        self._whole = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "[BETA] Time from a pod's first activation in the queue to its binding.",
            ("attempts",),
            _WHOLE,
        )
        self._needed = Histogram(
            "scheduler_pod_scheduling_attempts", "[STABLE] Attempts needed by bound pods.", (), exponential(1, 2, 5)
        )
        self._groups = Counter(
            "scheduler_podgroup_schedule_attempts_total", "[ALPHA] Attempts to schedule a group.", labels
        )
        self._group_duration = Histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "[ALPHA] Duration of an attempt to schedule a group.",
            labels,
            _ATTEMPT,
        )
        self._group_algorithm = Histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "[ALPHA] Duration of the decision about a group.",
            (),
            _ATTEMPT,
        )
        self._flushed = Counter(
            "scheduler_pod_scheduled_after_flush_total",
            "[ALPHA] Pods bound after a retry that only the time limit for unschedulable pods caused.",
        )
        self.handling = Histogram(
            "scheduler_event_handling_duration_seconds",
            "[ALPHA] Duration of handling an event of the cluster.",
            ("event",),
            exponential(0.0001, 2, 12),
        )
        self.families: tuple[Family, ...] = (
            self.attempts, self._duration, self._algorithm, self._whole, self._needed, self._flushed, self.handling,
            *attempt_metrics.families, queue.incoming, *self._gauges(), *self._gated(attempt_metrics, is_enabled),
        )  # fmt: skip

    def _gated(self, attempt_metrics: AttemptMetrics, is_enabled: Callable[[str], bool]) -> Iterator[Family]:
        """Yield the families that upstream has only with a gate."""
        if is_enabled("SchedulerQueueingHints"):
            yield self._queue.hint_durations
            yield Gauge(
                "scheduler_inflight_events",
                "[ALPHA] Events since the start of the oldest attempt, and attempts (PodPopped).",
                ("event",),
                self._queue.count_in_flight,
            )
        if is_enabled("DRAExtendedResource"):
            yield attempt_metrics.claims
        if is_enabled("GenericWorkload"):
            yield from (self._groups, self._group_duration, self._group_algorithm)
        if is_enabled("DRADeviceBindingConditions"):
            yield from (attempt_metrics.bindings, attempt_metrics.binding_durations)

    def _gauges(self) -> tuple[Family, ...]:
        return (
            Gauge("scheduler_pending_pods", "[STABLE] Pending pods by queue.", ("queue",), self._pending),
            Gauge(
                "scheduler_unschedulable_pods",
                "[BETA] Unschedulable and gated pods by plugin.",
                ("plugin", "profile"),
                self._unschedulable,
            ),
            Gauge(
                "scheduler_cache_size",
                "[ALPHA] Nodes, pods and assumed pods in the scheduler's cache.",
                ("type",),
                self._cache_sizes,
            ),
            Gauge(
                "scheduler_goroutines",
                "[BETA] Concurrent work besides scheduling the next pod.",
                ("operation",),
                lambda: {("binding",): len(self._binding)},
            ),
        )

    def observe_decision(self, queued: QueuedPod) -> None:
        """Observe the duration of the decision about a pod."""
        self._algorithm.observe(clock.stopwatch()() - queued.begun)

    def count_attempt(self, queued: QueuedPod, result: str) -> None:
        """Count an ended attempt with the result "scheduled", "unschedulable" or "error"."""
        profile = self._profile(queued.info)
        self.attempts.inc(result, profile)
        self._duration.observe(clock.stopwatch()() - queued.begun, result, profile)
        if result == "scheduled":
            self._needed.observe(queued.attempts)
            if queued.flushed:
                self._flushed.inc()
            if queued.entered is not None:
                attempts = str(queued.attempts) if queued.attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"
                self._whole.observe((clock.now() - queued.entered).total_seconds(), attempts)

    def observe_group_decision(self, first: QueuedPod) -> None:
        """Observe the duration of the decision about the group of this first pod."""
        self._group_algorithm.observe(clock.stopwatch()() - first.begun)

    def count_group_attempt(self, first: QueuedPod, result: str) -> None:
        """Count an ended attempt for the group of this first pod; the result may be "waiting_on_preemption" as well."""
        profile = self._profile(first.info)
        self._groups.inc(result, profile)
        self._group_duration.observe(clock.stopwatch()() - first.begun, result, profile)

    def _pending(self) -> Mapping[Labels, float]:
        counts = Tally(_QUEUES[pod.sub_queue] for pod in self._queue.pods.values() if pod.sub_queue in _QUEUES)
        return {(name,): counts[name] for name in dict.fromkeys(_QUEUES.values())}

    def _unschedulable(self) -> Mapping[Labels, float]:
        return Tally(
            (plugin, self._profile(pod.info))
            for pod in self._queue.pods.values()
            if pod.sub_queue in (SubQueue.UNSCHEDULABLE, SubQueue.GATED)
            for plugin in pod.plugins
        )

    def _cache_sizes(self) -> Mapping[Labels, float]:
        pods, assumed = self._cache.counts
        return {("nodes",): len(self._cache.list()), ("pods",): pods, ("assumed_pods",): assumed}
