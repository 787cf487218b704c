"""Counts ended pods once each, removes their finalizers, and writes the status of Jobs.

Uids are recorded in the status before finalizers are removed, and counted afterwards (see the package). A pass handles
at most 500 pods, so that the status stays small and other Jobs are not delayed.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from typing import Final

from apiserver.api.objects import Json
from controllers.runtime.client import Client, is_reason
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.kinds import JOBS, key_of
from controllers.workloads.common.pod_control import all_of
from controllers.workloads.common.pod_states import phase
from controllers.workloads.jobs.backoff import Record
from controllers.workloads.jobs.indexes import format_indexes, index_of, parse_indexes
from controllers.workloads.jobs.manager import remove_finalizer
from controllers.workloads.jobs.metrics import JobMetrics
from controllers.workloads.jobs.policies import match
from controllers.workloads.jobs.reconcile import ReconcilePass
from controllers.workloads.jobs.verdict import as_final, interim, with_status

_MAX_PODS: Final = 500
_TOO_MANY: Final = "Too many succeeded pods running after completion count reached"
#: Omitted if zero.
_COUNTS: Final = ("active", "succeeded", "failed")


class Tracker:
    """The counting for all Jobs.

    `records` and `removing` belong to the component. `record_write` is called with each written Job.
    """

    def __init__(
        self,
        client: Client,
        recorder: CoreEventRecorder,
        metrics: JobMetrics,
        records: dict[str, Record],
        removing: set[str],
        record_write: Callable[[Json], Json],
    ) -> None:
        self._client, self._recorder, self._metrics = client, recorder, metrics
        self._records, self._removing, self._record_write = records, removing, record_write

    async def track(self, this: ReconcilePass, changed: bool) -> None:
        """Count the pods, and write the status if `changed` or if any was counted. Raise StatusError."""
        if this.is_indexed:
            this.pods.sort(key=_by_index)
        counting = _StatusChanges(this, changed)
        counting.record_ended()
        counting.conclude()
        changed = await self._flush(counting)
        finished = not counting.full and counting.finish()
        if not (changed or finished):
            return
        await self._write(counting)
        if finished:
            self._record_end(this)

    async def _flush(self, counting: _StatusChanges) -> bool:
        """Write recorded uids and remove the finalizers. Return whether the status has changed since.

        Raise StatusError.
        """
        this = counting.job_pass
        if counting.changed:
            await self._write(counting)
            self._records[key_of(this.job)] = this.record
        for action, number in counting.actions.items():
            self._metrics.by_policy.sample(action).value += number
        failures = await all_of(self._remove_finalizer(pod, counting.with_finalizer) for pod in counting.counted)
        changed = counting.clean()
        if failures:
            if changed:
                await self._write(counting)
            raise failures[0]
        return changed

    async def _remove_finalizer(self, pod: Json, with_finalizer: set[str]) -> None:
        uid = pod["metadata"]["uid"]
        self._removing.add(uid)
        try:
            await remove_finalizer(self._client, pod)
        except Exception as error:
            self._removing.discard(uid)
            if not is_reason(error, "NotFound"):
                raise
        with_finalizer.discard(uid)

    async def _write(self, counting: _StatusChanges) -> None:
        this = counting.job_pass
        status = {name: value for name, value in this.status.items() if value or name not in _COUNTS}
        this.job = self._record_write(await self._client.update_status(JOBS, {**this.job, "status": status}))
        counting.update_metrics(self._metrics)
        counting.changed = False

    def _record_end(self, this: ReconcilePass) -> None:
        assert this.finished is not None, "the Job is finished"
        job, reason = this.job, this.finished.get("reason", "")
        if this.finished["type"] == "Failed":
            self._recorder.record(job, "Warning", reason, this.finished.get("message", ""))
            self._metrics.finished.inc(this.mode, "failed", reason)
            return
        if this.completions is not None and this.status.get("succeeded", 0) > this.completions:
            self._recorder.record(job, "Warning", "TooManySucceededPods", _TOO_MANY)
        self._recorder.record(job, "Normal", "Completed", "Job completed")
        self._metrics.finished.inc(this.mode, "succeeded", reason)


class _StatusChanges:
    """The changes of one status write. `changed` marks a required write."""

    def __init__(self, this: ReconcilePass, changed: bool) -> None:
        self.job_pass, self.changed = this, changed
        self.with_finalizer = {pod["metadata"]["uid"] for pod in this.pods if this.is_uncounted(pod)}
        #: Pods whose finalizer will be removed.
        self.counted: list[Json] = []
        #: Set when the limit of pods per pass is reached.
        self.full = False
        self.actions: Tally[str] = Tally()
        self._reported = dict(this.job.get("status") or {})

    def clean(self) -> bool:
        """Count the uids whose finalizers are gone. Return whether the status has changed."""
        changed, uncounted = False, self.job_pass.status["uncountedTerminatedPods"]
        for field in ("succeeded", "failed"):
            uids = uncounted.get(field) or []
            kept = [uid for uid in uids if uid in self.with_finalizer]
            if len(kept) != len(uids):
                changed = True
                self.job_pass.status[field] = self.job_pass.status.get(field, 0) + len(uids) - len(kept)
                uncounted.pop(field)
                if kept:
                    uncounted[field] = kept
        return changed

    def record_ended(self) -> None:
        """Record the uids of ended pods."""
        this = self.job_pass
        self.changed |= self.clean()
        indexes: set[int] = set()
        for pod in this.pods:
            if not this.is_uncounted(pod) or not self._is_countable(pod):
                continue
            self.counted.append(pod)
            if phase(pod) == "Succeeded" and pod["metadata"]["uid"] not in this.uncounted_failed:
                self._record_success(pod, indexes)
            elif this.is_failed(pod) or (this.finished is not None and this.finished["type"] != "SuccessCriteriaMet"):
                self._record_failure(pod)
            noted = sum(map(len, this.status["uncountedTerminatedPods"].values()))
            if len(indexes) + noted >= _MAX_PODS:
                self.full = True
                break
        if this.is_indexed:
            self._write_indexes(indexes)

    def _is_countable(self, pod: Json) -> bool:
        this = self.job_pass
        if this.job["metadata"].get("deletionTimestamp") or this.finished is not None or phase(pod) == "Succeeded":
            return True
        # The last failed pod of an index is kept until its replacement, because it stores the failure count.
        last = this.replaced.get(index) if (index := index_of(pod)) is not None else None
        return this.is_failed(pod) and (last is None or last["metadata"]["uid"] != pod["metadata"]["uid"])

    def _record_success(self, pod: Json, indexes: set[int]) -> None:
        this, uid = self.job_pass, pod["metadata"]["uid"]
        if this.is_indexed:
            index = this.valid_index(pod)
            if index is not None and index not in this.succeeded_before:
                indexes.add(index)
                self.changed = True
        elif uid not in this.uncounted_succeeded:
            this.status["uncountedTerminatedPods"].setdefault("succeeded", []).append(uid)
            self.changed = True

    def _record_failure(self, pod: Json) -> None:
        this, uid = self.job_pass, pod["metadata"]["uid"]
        if uid in this.uncounted_failed or (this.is_indexed and this.valid_index(pod) is None):
            return
        found = match(this.failure_policy, pod)
        if found.action:
            self.actions[found.action] += 1
        if found.counts:
            this.status["uncountedTerminatedPods"].setdefault("failed", []).append(uid)
            self.changed = True

    def _write_indexes(self, indexes: set[int]) -> None:
        this = self.job_pass
        this.succeeded_indexes |= indexes
        completed = format_indexes(this.succeeded_indexes)
        before = this.status.get("completedIndexes", ""), this.status.get("failedIndexes")
        this.status["succeeded"] = len(this.succeeded_indexes)
        this.status.pop("completedIndexes", None)
        if completed:
            this.status["completedIndexes"] = completed
        failed = format_indexes(this.failed_indexes) if this.failed_indexes is not None else None
        if failed is not None:
            this.status["failedIndexes"] = failed
        self.changed |= before != (completed, failed)

    def conclude(self) -> None:
        """Write the interim condition of an ending Job, and derive the final one."""
        this = self.job_pass
        if this.finished is None:
            return
        for known, final in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
            if this.finished["type"] == known:
                if interim(this, known) is None:
                    this.status["conditions"] = [*(this.status.get("conditions") or ()), this.finished]
                    self.changed = True
                this.finished = as_final(this.finished, final, this.now)
                return

    def finish(self) -> bool:
        """Write the final condition unless pods are uncounted or terminating. Return whether it was written."""
        this = self.job_pass
        if this.finished is None or any(this.status["uncountedTerminatedPods"].values()):
            return False
        if this.gates.delays_the_end and this.terminating > 0:
            return False
        conditions = this.status.get("conditions") or []
        this.status["conditions"] = with_status(conditions, this.finished) or conditions
        if this.finished["type"] == "Complete":
            this.status["completionTime"] = this.finished["lastTransitionTime"]
        return True

    def update_metrics(self, metrics: JobMetrics) -> None:
        """Update the metrics with the counts since the last write."""
        this, old, new = self.job_pass, self._reported, self.job_pass.status
        succeeded, failed = (max(0, new.get(name, 0) - old.get(name, 0)) for name in ("succeeded", "failed"))
        metrics.pods_finished.sample(this.mode, "succeeded").value += succeeded
        metrics.pods_finished.sample(this.mode, "failed").value += failed
        if this.is_indexed:
            label = "global" if this.failed_indexes is None else "perIndex"
            metrics.indexes.sample("succeeded", label).value += succeeded
            if this.failed_indexes is not None:
                before = parse_indexes(old.get("failedIndexes") or "", this.completions or 0)
                metrics.indexes.sample("failed", label).value += max(0, len(this.failed_indexes) - len(before))
        self._reported = {**new, "failedIndexes": new.get("failedIndexes")}


def _by_index(pod: Json) -> int:
    index = index_of(pod)
    return -1 if index is None else index
