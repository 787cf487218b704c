"""The metrics of the job controller, with upstream's names."""

from __future__ import annotations

from apiserver.runtime.metrics import Counter, Family, Histogram, exponential


class JobMetrics:
    """The metrics of Jobs, pods and passes."""

    def __init__(self) -> None:
        prefix, labels = "job_controller", ("completion_mode", "result", "action")
        self.duration = Histogram(
            f"{prefix}_job_sync_duration_seconds", "Duration of a Job sync.", labels, exponential(0.004, 2, 15)
        )
        self.syncs = Counter(f"{prefix}_job_syncs_total", "Job syncs.", labels)
        self.finished = Counter(
            f"{prefix}_jobs_finished_total", "Finished Jobs.", ("completion_mode", "result", "reason")
        )
        self.external = Counter(
            f"{prefix}_jobs_by_external_controller_total", "Jobs managed by other controllers.", ("controller_name",)
        )
        self.pods_finished = Counter(
            f"{prefix}_job_pods_finished_total", "Counted pods.", ("completion_mode", "result")
        )
        self.by_policy = Counter(
            f"{prefix}_pod_failures_handled_by_failure_policy_total",
            "Failed pods matched by a policy rule.",
            ("action",),
        )
        self.indexes = Counter(f"{prefix}_job_finished_indexes_total", "Finished indexes.", ("status", "backoffLimit"))
        self.created = Counter(
            f"{prefix}_job_pods_creation_total", "Requested creations of pods.", ("reason", "status")
        )
        self.held = Counter(
            f"{prefix}_terminated_pods_tracking_finalizer_total",
            "Ended pods with the tracking finalizer (add), and those that lost it (delete).",
            ("event",),
        )

    @property
    def families(self) -> tuple[Family, ...]:
        return (
            self.duration, self.syncs, self.finished, self.external, self.pods_finished, self.by_policy, self.indexes,
            self.created, self.held,
        )  # fmt: skip
