"""What the job controller counts, with upstream's names."""

from __future__ import annotations

from apiserver.runtime.metrics import Counter, Family, Histogram, exponential


class JobMetrics:
    """Jobs, their pods, and looks at them."""

    def __init__(self) -> None:
        prefix, look = "job_controller", ("completion_mode", "result", "action")
        self.duration = Histogram(
            f"{prefix}_job_sync_duration_seconds", "Time that a look at a Job takes.", look, exponential(0.004, 2, 15)
        )
        self.looks = Counter(f"{prefix}_job_syncs_total", "Looks at Jobs.", look)
        self.finished = Counter(
            f"{prefix}_jobs_finished_total", "Jobs that ended.", ("completion_mode", "result", "reason")
        )
        self.external = Counter(
            f"{prefix}_jobs_by_external_controller_total", "Jobs that others manage.", ("controller_name",)
        )
        self.pods_finished = Counter(
            f"{prefix}_job_pods_finished_total", "Pods that were counted.", ("completion_mode", "result")
        )
        self.by_policy = Counter(
            f"{prefix}_pod_failures_handled_by_failure_policy_total", "Failed pods that a rule matched.", ("action",)
        )
        self.indexes = Counter(
            f"{prefix}_job_finished_indexes_total", "Indexes that ended.", ("status", "backoffLimit")
        )
        self.created = Counter(f"{prefix}_job_pods_creation_total", "Pods that were asked for.", ("reason", "status"))
        self.held = Counter(
            f"{prefix}_terminated_pods_tracking_finalizer_total",
            "Pods that ended with our finalizer (add), and that then lost it or are gone (delete).",
            ("event",),
        )

    @property
    def families(self) -> tuple[Family, ...]:
        return (
            self.duration, self.looks, self.finished, self.external, self.pods_finished, self.by_policy, self.indexes,
            self.created, self.held,
        )  # fmt: skip
