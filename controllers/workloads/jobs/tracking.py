"""Counts ended pods once each, removes their finalizers, and writes the status of Jobs.

Uids are recorded in the status before finalizers are removed, and counted afterwards (see the package). A pass handles
at most 500 pods, so that the status stays small and other Jobs are not delayed.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from typing import Final

from controllers.runtime.client import Client, is_reason
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.kinds import JOBS, Json, key_of
from controllers.workloads.common.pod_control import all_of
from controllers.workloads.common.pod_states import phase
from controllers.workloads.jobs.backoff import Record
from controllers.workloads.jobs.indexes import format_indexes, index_of, parse_indexes
from controllers.workloads.jobs.manager import remove_finalizer
from controllers.workloads.jobs.metrics import JobMetrics
from controllers.workloads.jobs.policies import match
from controllers.workloads.jobs.reconcile import Look
from controllers.workloads.jobs.verdict import as_final, interim, with_status

_MOST: Final = 500
_TOO_MANY: Final = "Too many succeeded pods running after completion count reached"
#: Omitted if zero.
_COUNTS: Final = ("active", "succeeded", "failed")


class Tracker:
    """The counting for all Jobs. `records` and `removing` belong to the component; `wrote` records each write."""

    def __init__(
        self,
        client: Client,
        recorder: CoreEventRecorder,
        metrics: JobMetrics,
        records: dict[str, Record],
        removing: set[str],
        wrote: Callable[[Json], Json],
    ) -> None:
        self._client, self._recorder, self._metrics = client, recorder, metrics
        self._records, self._removing, self._wrote = records, removing, wrote

    async def track(self, look: Look, changed: bool) -> None:
        """Count the pods, and write the status if `changed` or if any was counted. Raise StatusError."""
        if look.indexed:
            look.pods.sort(key=_by_index)
        counting = _Counting(look, changed)
        counting.note()
        counting.conclude()
        changed = await self._flush(counting)
        finished = not counting.full and counting.finish()
        if not (changed or finished):
            return
        await self._write(counting)
        if finished:
            self._tell_end(look)

    async def _flush(self, counting: _Counting) -> bool:
        """Write recorded uids and remove the finalizers. Return whether the status has changed since.

        Raise StatusError.
        """
        look = counting.look
        if counting.changed:
            await self._write(counting)
            self._records[key_of(look.job)] = look.record
        for action, number in counting.actions.items():
            self._metrics.by_policy.sample(action).value += number
        failures = await all_of(self._let_go(pod, counting.with_finalizer) for pod in counting.leaving)
        changed = counting.clean()
        if failures:
            if changed:
                await self._write(counting)
            raise failures[0]
        return changed

    async def _let_go(self, pod: Json, with_finalizer: set[str]) -> None:
        uid = pod["metadata"]["uid"]
        self._removing.add(uid)
        try:
            await remove_finalizer(self._client, pod)
        except Exception as error:
            self._removing.discard(uid)
            if not is_reason(error, "NotFound"):
                raise
        with_finalizer.discard(uid)

    async def _write(self, counting: _Counting) -> None:
        look = counting.look
        status = {name: value for name, value in look.status.items() if value or name not in _COUNTS}
        look.job = self._wrote(await self._client.update_status(JOBS, {**look.job, "status": status}))
        counting.tell(self._metrics)
        counting.changed = False

    def _tell_end(self, look: Look) -> None:
        assert look.finished is not None, "the Job is finished"
        job, reason = look.job, look.finished.get("reason", "")
        if look.finished["type"] == "Failed":
            self._recorder.record(job, "Warning", reason, look.finished.get("message", ""))
            self._metrics.finished.inc(look.mode, "failed", reason)
            return
        if look.completions is not None and look.status.get("succeeded", 0) > look.completions:
            self._recorder.record(job, "Warning", "TooManySucceededPods", _TOO_MANY)
        self._recorder.record(job, "Normal", "Completed", "Job completed")
        self._metrics.finished.inc(look.mode, "succeeded", reason)


class _Counting:
    """The changes of one status write. `changed` marks a required write."""

    def __init__(self, look: Look, changed: bool) -> None:
        self.look, self.changed = look, changed
        self.with_finalizer = {pod["metadata"]["uid"] for pod in look.pods if look.is_uncounted(pod)}
        #: Pods whose finalizer will be removed.
        self.leaving: list[Json] = []
        #: Set when the limit of pods per pass is reached.
        self.full = False
        self.actions: Tally[str] = Tally()
        self._told = dict(look.job.get("status") or {})

    def clean(self) -> bool:
        """Count the uids whose finalizers are gone. Return whether the status has changed."""
        changed, uncounted = False, self.look.status["uncountedTerminatedPods"]
        for field in ("succeeded", "failed"):
            uids = uncounted.get(field) or []
            kept = [uid for uid in uids if uid in self.with_finalizer]
            if len(kept) != len(uids):
                changed = True
                self.look.status[field] = self.look.status.get(field, 0) + len(uids) - len(kept)
                uncounted.pop(field)
                if kept:
                    uncounted[field] = kept
        return changed

    def note(self) -> None:
        """Record the uids of ended pods."""
        look = self.look
        self.changed |= self.clean()
        indexes: set[int] = set()
        for pod in look.pods:
            if not look.is_uncounted(pod) or not self._may_leave(pod):
                continue
            self.leaving.append(pod)
            if phase(pod) == "Succeeded" and pod["metadata"]["uid"] not in look.noted_failed:
                self._note_success(pod, indexes)
            elif look.is_failed(pod) or (look.finished is not None and look.finished["type"] != "SuccessCriteriaMet"):
                self._note_failure(pod)
            noted = sum(map(len, look.status["uncountedTerminatedPods"].values()))
            if len(indexes) + noted >= _MOST:
                self.full = True
                break
        if look.indexed:
            self._write_indexes(indexes)

    def _may_leave(self, pod: Json) -> bool:
        look = self.look
        if look.job["metadata"].get("deletionTimestamp") or look.finished is not None or phase(pod) == "Succeeded":
            return True
        # The last failed pod of an index is kept until its replacement, because it stores the failure count.
        last = look.replaced.get(index) if (index := index_of(pod)) is not None else None
        return look.is_failed(pod) and (last is None or last["metadata"]["uid"] != pod["metadata"]["uid"])

    def _note_success(self, pod: Json, indexes: set[int]) -> None:
        look, uid = self.look, pod["metadata"]["uid"]
        if look.indexed:
            index = look.valid_index(pod)
            if index is not None and index not in look.succeeded_before:
                indexes.add(index)
                self.changed = True
        elif uid not in look.noted_succeeded:
            look.status["uncountedTerminatedPods"].setdefault("succeeded", []).append(uid)
            self.changed = True

    def _note_failure(self, pod: Json) -> None:
        look, uid = self.look, pod["metadata"]["uid"]
        if uid in look.noted_failed or (look.indexed and look.valid_index(pod) is None):
            return
        found = match(look.failure_policy, pod)
        if found.action:
            self.actions[found.action] += 1
        if found.counts:
            look.status["uncountedTerminatedPods"].setdefault("failed", []).append(uid)
            self.changed = True

    def _write_indexes(self, indexes: set[int]) -> None:
        look = self.look
        look.succeeded_indexes |= indexes
        completed = format_indexes(look.succeeded_indexes)
        before = look.status.get("completedIndexes", ""), look.status.get("failedIndexes")
        look.status["succeeded"] = len(look.succeeded_indexes)
        look.status.pop("completedIndexes", None)
        if completed:
            look.status["completedIndexes"] = completed
        failed = format_indexes(look.failed_indexes) if look.failed_indexes is not None else None
        if failed is not None:
            look.status["failedIndexes"] = failed
        self.changed |= before != (completed, failed)

    def conclude(self) -> None:
        """Write the interim condition of an ending Job, and derive the final one."""
        look = self.look
        if look.finished is None:
            return
        for known, final in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
            if look.finished["type"] == known:
                if interim(look, known) is None:
                    look.status["conditions"] = [*(look.status.get("conditions") or ()), look.finished]
                    self.changed = True
                look.finished = as_final(look.finished, final, look.now)
                return

    def finish(self) -> bool:
        """Write the final condition unless pods are uncounted or terminating. Return whether it was written."""
        look = self.look
        if look.finished is None or any(look.status["uncountedTerminatedPods"].values()):
            return False
        if look.gates.delays_the_end and look.terminating > 0:
            return False
        conditions = look.status.get("conditions") or []
        look.status["conditions"] = with_status(conditions, look.finished) or conditions
        if look.finished["type"] == "Complete":
            look.status["completionTime"] = look.finished["lastTransitionTime"]
        return True

    def tell(self, metrics: JobMetrics) -> None:
        """Update the metrics with the counts since the last write."""
        look, old, new = self.look, self._told, self.look.status
        succeeded, failed = (max(0, new.get(name, 0) - old.get(name, 0)) for name in ("succeeded", "failed"))
        metrics.pods_finished.sample(look.mode, "succeeded").value += succeeded
        metrics.pods_finished.sample(look.mode, "failed").value += failed
        if look.indexed:
            label = "global" if look.failed_indexes is None else "perIndex"
            metrics.indexes.sample("succeeded", label).value += succeeded
            if look.failed_indexes is not None:
                before = parse_indexes(old.get("failedIndexes") or "", look.completions or 0)
                metrics.indexes.sample("failed", label).value += max(0, len(look.failed_indexes) - len(before))
        self._told = {**new, "failedIndexes": new.get("failedIndexes")}


def _by_index(pod: Json) -> int:
    index = index_of(pod)
    return -1 if index is None else index
