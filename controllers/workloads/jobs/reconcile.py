"""The state of one pass over a Job: its counted pods and its status, updated during the pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from controllers.workloads.common.pod_states import is_active, is_deleted, is_ready, is_terminating, phase
from controllers.workloads.jobs.backoff import Record, finished_at
from controllers.workloads.jobs.indexes import (
    all_failures,
    failures,
    index_of,
    indexes_of,
    is_indexed,
    parse_indexes,
)
from controllers.workloads.jobs.policies import match
from controllers.workloads.jobs.template import has_finalizer

#: The value of `managedBy` for this controller; Jobs with other values are ignored.
CONTROLLER_NAME: Final = "kubernetes.io/job-controller"


@dataclass(frozen=True, slots=True)
class Gates:
    """The relevant feature gates."""

    replacement: bool
    managed_by: bool
    resets_start: bool

    @classmethod
    def of(cls, features: Features) -> Gates:
        return cls(
            features.enabled("JobPodReplacementPolicy"),
            features.enabled("JobManagedBy"),
            features.enabled("MutableSchedulingDirectivesForSuspendedJobs"),
        )

    @property
    def delays_the_end(self) -> bool:
        """Return whether a Job ends only after its last pod, with an interim condition before."""
        return self.replacement or self.managed_by


@dataclass(slots=True)
class ReconcilePass:
    """One pass over a Job.

    `job` is the initial object, `status` the updated status. `removing` has the uids of pods whose finalizer is being
    removed.
    """

    job: Json
    pods: list[Json]
    removing: Collection[str]
    gates: Gates
    now: datetime
    record: Record
    status: Json
    #: The PodGroup of new pods.
    group: Json | None = None
    active_pods: list[Json] = field(default_factory=list)
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    #: Uids in status.uncountedTerminatedPods at the start.
    uncounted_succeeded: frozenset[str] = frozenset()
    uncounted_failed: frozenset[str] = frozenset()
    succeeded_before: set[int] = field(default_factory=set)
    succeeded_indexes: set[int] = field(default_factory=set)
    failed_indexes: set[int] | None = None
    #: The last failed pod of each index to replace; it is kept until then.
    replaced: dict[int, Json] = field(default_factory=dict)
    #: The final or interim condition, if any.
    finished: Json | None = None

    @classmethod
    def start(
        cls, job: Json, pods: list[Json], removing: Collection[str], gates: Gates, now: datetime, record: Record
    ) -> ReconcilePass:
        """Count the pods of a Job. `record` has its failures so far."""
        status = dict(job.get("status") or {})
        uncounted = status.get("uncountedTerminatedPods") or {}
        status["uncountedTerminatedPods"] = {name: list(uids) for name, uids in uncounted.items() if uids}
        this = cls(job, pods, removing, gates, now, record, status)
        this.uncounted_succeeded = frozenset(uncounted.get("succeeded") or ())
        this.uncounted_failed = frozenset(uncounted.get("failed") or ())
        this._count()
        return this

    def _count(self) -> None:
        self.active_pods = [pod for pod in self.pods if is_active(pod)]
        self.active = len(self.active_pods)
        self.ready = sum(map(is_ready, self.active_pods))
        self.terminating = sum(map(is_terminating, self.pods))
        succeeded = list(self._uncounted_pods(self.uncounted_succeeded, lambda pod: phase(pod) == "Succeeded"))
        failed = list(self._uncounted_pods(self.uncounted_failed, self.is_failed))
        counted = sum(match(self.failure_policy, pod).counts for pod in failed)
        self.succeeded = self.status.get("succeeded", 0) + len(succeeded) + len(self.uncounted_succeeded)
        self.failed = self.status.get("failed", 0) + counted + len(self.uncounted_failed)
        self.record = self.record.after(succeeded, failed)
        if self.is_indexed:
            self._count_indexes()

    def _uncounted_pods(self, noted: Collection[str], chosen: Callable[[Json], bool]) -> Iterator[Json]:
        """Yield the uncounted pods for which `chosen` is true."""
        for pod in self.pods:
            uid = pod["metadata"]["uid"]
            if has_finalizer(pod) and uid not in noted and uid not in self.removing:
                if self.is_indexed and self.valid_index(pod) is None:
                    continue
                if chosen(pod):
                    yield pod

    def _count_indexes(self) -> None:
        completions = self.completions or 0
        self.succeeded_before = parse_indexes(self.status.get("completedIndexes", ""), completions)
        with_index = [
            (index, pod) for pod in self.pods if has_finalizer(pod) and (index := self.valid_index(pod)) is not None
        ]
        self.succeeded_indexes = self.succeeded_before | {i for i, pod in with_index if phase(pod) == "Succeeded"}
        self.succeeded = len(self.succeeded_indexes)
        limit = self.spec.get("backoffLimitPerIndex")
        if limit is not None:
            before = parse_indexes(self.status.get("failedIndexes") or "", completions)
            self.failed_indexes = before | {index for index, pod in with_index if self._is_index_failed(pod, limit)}
            self._find_failed_to_replace()

    def _is_index_failed(self, pod: Json, limit: int) -> bool:
        if not self.is_failed(pod):
            return False
        found = match(self.failure_policy, pod)
        return found.action == "FailIndex" or (found.counts and failures(pod) >= limit)

    def _find_failed_to_replace(self) -> None:
        settled = self.succeeded_indexes | (self.failed_indexes or set()) | indexes_of(self.active_pods)
        for pod in self._uncounted_pods((), self.is_failed):
            index = self.valid_index(pod)
            if index is None or index in settled:
                continue
            last = self.replaced.get(index)
            if last is None or (all_failures(last) <= all_failures(pod) and finished_at(pod) >= finished_at(last)):
                self.replaced[index] = pod

    @property
    def spec(self) -> Json:
        spec: Json = self.job["spec"]
        return spec

    @property
    def is_indexed(self) -> bool:
        return is_indexed(self.job)

    @property
    def mode(self) -> str:
        """The completion mode as a metric label."""
        return "Indexed" if self.is_indexed else "NonIndexed"

    @property
    def completions(self) -> int | None:
        found: int | None = self.spec.get("completions")
        return found

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def failure_policy(self) -> Json | None:
        found: Json | None = self.spec.get("podFailurePolicy")
        return found

    @property
    def only_replaces_failed(self) -> bool:
        """Return whether a terminating pod is replaced only after its end."""
        by_policy = self.gates.replacement and self.spec.get("podReplacementPolicy") == "Failed"
        return by_policy or self.failure_policy is not None

    def valid_index(self, pod: Json) -> int | None:
        """Return the completion index of a pod if the Job has that index, else None."""
        index = index_of(pod)
        return index if index is not None and index < (self.completions or 0) else None

    def is_failed(self, pod: Json) -> bool:
        if phase(pod) == "Failed":
            return True
        return not self.only_replaces_failed and is_deleted(pod) and phase(pod) != "Succeeded"

    def is_uncounted(self, pod: Json) -> bool:
        """Return whether the pod's finalizer must still be removed."""
        return has_finalizer(pod) and pod["metadata"]["uid"] not in self.removing

    def failed_pods(self) -> Iterable[Json]:
        return (pod for pod in self.pods if self.is_failed(pod))

    def subtract_deleted(self, deleted: int, ready: int) -> None:
        """Record deleted active pods, with the number of ready ones."""
        self.active -= deleted
        self.terminating += deleted
        self.ready -= ready
