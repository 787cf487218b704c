"""Metrics of reused results, under upstream's names for batches and node hints.

Upstream keeps the sorted nodes of the last pod, and takes the next one for an alike pod. This scheduler keeps the
verdict and the scores of each node for all alike pods (`node_results`). A hint is a node with a known result.
"""

from __future__ import annotations

from typing import Final

from apiserver.runtime.metrics import Counter, Family, Histogram, exponential

NO_HINT, HINT_USED, HINT_NOT_USED = "no_hint", "hint_used", "hint_not_used"
#: Reasons: the least recently used results were dropped, or some plugin reads more than it declares.
EXPIRED: Final = "expired"
NOT_BATCHABLE: Final = "pod_not_batchable"


class ReuseMetrics:
    """The counts of one scheduler."""

    def __init__(self) -> None:
        self.attempts = Counter(
            "scheduler_batch_attempts_total",
            "[ALPHA] Attempts by whether the chosen node had a known result, from alike pods.",
            ("profile", "result"),
        )
        self.flushes = Counter(
            "scheduler_batch_cache_flushed_total",
            "[ALPHA] Results that were dropped or could not be kept, by reason.",
            ("profile", "reason"),
        )
        self.lookups = Histogram(
            "scheduler_get_node_hint_duration_seconds",
            "[ALPHA] Duration of finding the known results for a pod.",
            ("hinted", "profile"),
            exponential(0.00001, 2, 12),
        )

    @property
    def families(self) -> tuple[Family, ...]:
        return self.attempts, self.flushes, self.lookups
