"""The metrics of the autoscaling controller, with upstream's names."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family, Gauge, Histogram, exponential


class Outcome:
    """The outcome of one pass or of one metric.

    `action` is scale_up, scale_down or none. `error` is internal or none; upstream's third value, spec, is for specs
    that the API rejects.
    """

    def __init__(self) -> None:
        self.action, self.error = "none", "none"
        self._began = clock.now()

    def set_action(self, current: int, desired: int) -> None:
        self.action = "scale_up" if desired > current else "scale_down" if desired < current else "none"

    @property
    def seconds(self) -> float:
        """The duration until now."""
        return (clock.now() - self._began).total_seconds()


class AutoscalerMetrics:
    """The metrics. `number` returns the number of autoscalers."""

    def __init__(self, number: Callable[[], int]) -> None:
        prefix, bounds, labels = "horizontal_pod_autoscaler_controller_", exponential(0.001, 2, 15), ("action", "error")
        self._syncs = Counter(f"{prefix}reconciliations_total", "Autoscaler syncs.", labels)
        self._durations = Histogram(f"{prefix}reconciliation_duration_seconds", "Duration of a sync.", labels, bounds)
        by_type = (*labels, "metric_type")
        self._computations = Counter(f"{prefix}metric_computation_total", "Computed metrics.", by_type)
        self._computing = Histogram(
            f"{prefix}metric_computation_duration_seconds", "Duration of computing a metric.", by_type, bounds
        )
        self._number = Gauge(
            f"{prefix}num_horizontal_pod_autoscalers", "Existing autoscalers.", (), lambda: {(): number()}
        )
        self.desired: dict[tuple[str, ...], int] = {}
        self._desired = Gauge(
            f"{prefix}desired_replicas",
            "Desired replicas of autoscalers.",
            ("namespace", "hpa_name"),
            lambda: dict(self.desired),
        )

    def record_pass(self, outcome: Outcome) -> None:
        self._syncs.inc(outcome.action, outcome.error)
        self._durations.observe(outcome.seconds, outcome.action, outcome.error)

    def record_metric(self, outcome: Outcome, kind: str) -> None:
        """Record the outcome of one metric of a kind, such as Resource."""
        self._computations.inc(outcome.action, outcome.error, kind)
        self._computing.observe(outcome.seconds, outcome.action, outcome.error, kind)

    @property
    def families(self) -> tuple[Family, ...]:
        return (
            self._syncs, self._durations, self._computations, self._computing, self._number, self._desired,
        )  # fmt: skip
