"""The job controller: watches Jobs and their pods, and runs the passes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector
from apiserver.runtime import clock
from apiserver.runtime.metrics import Family
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import JOBS, PODS, key_of
from controllers.runtime.times import go_time
from controllers.workloads.common.component import Workload
from controllers.workloads.common.expectations import Expectations
from controllers.workloads.common.object_cache import ObjectCache
from controllers.workloads.common.owned import OwnedObjects, selector_of
from controllers.workloads.common.pod_control import PodControl
from controllers.workloads.common.pod_states import is_terminal, phase
from controllers.workloads.common.references import Claimer, is_controlled_by
from controllers.workloads.jobs.backoff import Record
from controllers.workloads.jobs.gangs import GATE, Gangs
from controllers.workloads.jobs.manager import Pods
from controllers.workloads.jobs.metrics import JobMetrics
from controllers.workloads.jobs.orphans import RETRY_DELAYS, Orphans
from controllers.workloads.jobs.reconcile import CONTROLLER_NAME, Gates, ReconcilePass
from controllers.workloads.jobs.template import FINALIZER, has_finalizer
from controllers.workloads.jobs.tracking import Tracker
from controllers.workloads.jobs.verdict import condition, deadline_in, find_success, is_over, judge, with_status

NAME = "job-controller"
#: Changes of pods within this time are batched (upstream: 1 s).
BATCH: Final = timedelta(milliseconds=100)
#: Failures within this time are batched, so that a Job's outcome does not depend on their order.
FAILURES: Final = timedelta(seconds=1)
_UNKNOWN_MODE: Final = "Skipped Job sync because completion mode is unknown"


def build(client: Client, informers: Informers, options: Options) -> Jobs:
    """Build the component for the manager."""
    return Jobs(client, informers, options)


class Jobs(Workload):
    """The job controller. Keys are those of Jobs."""

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        super().__init__(NAME, client, informers, options, JOBS, source=NAME, queue="job", retry_delays=RETRY_DELAYS)
        self._gates = Gates.of(options.features)
        self._job_metrics = JobMetrics()
        self._expectations = Expectations()
        #: Failures by key, and uids of pods whose finalizer is being removed.
        self._records: dict[str, Record] = {}
        self._removing: set[str] = set()
        #: Uid of the Job and cached states of its pods, by key.
        self._settled_pods: dict[str, tuple[str, ObjectCache[bool]]] = {}
        #: Loop time of the first unprocessed failure, by Job key.
        self._failed: dict[str, float] = {}
        pods = self.need(informers.of(PODS))
        self._orphans = Orphans(self.client, NAME, self.owners, pods, managed_by=self._gates.managed_by)
        self._control = Pods(
            self.client, PodControl(self.client, self.recorder, JOBS), self._expectations, self._job_metrics
        )
        self._tracker = Tracker(
            self.client, self.recorder, self._job_metrics, self._records, self._removing, self.record_write
        )
        self._gangs: Gangs | None = None
        if options.features.enabled(GATE):
            self._gangs = Gangs(self.client, self.recorder, informers, self.record_write)
            for informer in (self._gangs.workloads, self._gangs.groups):
                self.follow(informer)
        self._controller.alongside(self._orphans.controller.run)
        self._pods = OwnedObjects(self.owners, pods, self._enqueue_batched, self._expectations)
        pods.on(self._pod_added, self._pod_updated, self._pod_gone)
        self.owners.on(self._job_added, deleted=self._job_ended)

    @property
    def idle(self) -> bool:
        return super().idle and self._orphans.controller.idle

    @property
    def due(self) -> float | None:
        times = (super().due, self._orphans.controller.queue.due)
        return min((time for time in times if time is not None), default=None)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, *self._orphans.controller.metrics, *self._job_metrics.families)

    def _enqueue_batched(self, key: str) -> None:
        self._controller.queue.add_after(key, BATCH)

    def owner_updated(self, before: Json, owner: Json) -> None:
        if is_over(owner):
            self._job_ended(owner)
        if before["metadata"].get("generation") == owner["metadata"].get("generation"):
            self._enqueue_batched(key_of(owner))
        else:
            self.queue(key_of(owner))

    def _job_added(self, job: Json) -> None:
        if self._is_managed_elsewhere(job):
            self._job_metrics.external.inc(job["spec"]["managedBy"])

    def _job_ended(self, job: Json) -> None:
        for pod in self._pods.of(job, orphans=False):
            self._orphans.check(pod)

    def _pod_added(self, pod: Json) -> None:
        self._count_held(None, pod)
        self._orphans.check(pod)

    def _count_held(self, before: Json | None, pod: Json | None) -> None:
        """Count ended pods with the finalizer."""
        was, now = (each is not None and has_finalizer(each) and is_terminal(each) for each in (before, pod))
        if was != now:
            self._job_metrics.held.inc("add" if now else "delete")

    def _pod_updated(self, before: Json, pod: Json) -> None:
        self._count_held(before, pod)
        if phase(pod) == "Failed" != phase(before) and (job := self._pods.owner_of(pod)) is not None:
            self._failed.setdefault(key_of(job), asyncio.get_running_loop().time())
        if has_finalizer(pod):
            self._orphans.check(pod)
        else:
            self._removing.discard(pod["metadata"]["uid"])

    def _pod_gone(self, pod: Json) -> None:
        self._count_held(pod, None)
        self._removing.discard(pod["metadata"]["uid"])

    def owner_deleted(self, key: str) -> None:
        self._expectations.remove(key)
        self._records.pop(key, None)
        self._failed.pop(key, None)
        self._settled_pods.pop(key, None)

    def _is_managed_elsewhere(self, job: Json) -> bool:
        return self._gates.managed_by and job["spec"].get("managedBy") not in (None, CONTROLLER_NAME)

    async def sync(self, key: str, owner: Json) -> timedelta | None:
        if self._is_managed_elsewhere(owner):
            return None
        if is_over(owner):
            self._records.pop(key, None)
            self._settled_pods.pop(key, None)
            return None
        if owner["spec"].get("completionMode") not in (None, "Indexed", "NonIndexed"):
            self.recorder.record(owner, "Warning", "UnknownCompletionMode", _UNKNOWN_MODE)
            return None
        if left := self._failure_batch_left(key):
            return left
        began, action, result = clock.now(), "reconciling", "error"
        is_satisfied = self._expectations.is_satisfied(key)
        # A snapshot, like the pods: a concurrent event must not make a counted pod count again.
        removing = frozenset(self._removing)
        pods = await self._claim_pods(owner)
        group = await self._gangs.group_of(owner, pods) if self._gangs is not None else None
        this = ReconcilePass.start(owner, pods, removing, self._gates, clock.now(), self._records.get(key, Record()))
        this.group = group
        try:
            action, failure, requeue_after = await self._run_pass(this, is_satisfied)
            if failure is not None:
                raise failure
            result = "success"
        finally:
            self._job_metrics.syncs.inc(this.mode, result, action)
            self._job_metrics.duration.observe((clock.now() - began).total_seconds(), this.mode, result, action)
        left = deadline_in(this)
        waits = [max(wait, BATCH) for wait in (requeue_after, left) if wait is not None and this.finished is None]
        return min(waits, default=None)

    def _failure_batch_left(self, key: str) -> timedelta | None:
        """Return the remaining time to batch further failures; None to proceed now."""
        since = self._failed.get(key)
        if since is None:
            return None
        left = FAILURES.total_seconds() - (asyncio.get_running_loop().time() - since)
        if left > 0:
            return timedelta(seconds=left)
        del self._failed[key]
        return None

    async def _claim_pods(self, job: Json) -> list[Json]:
        """Return the Job's unsettled pods. Adopted ones get the finalizer and count from now on."""
        selector = selector_of(job)
        claimer = Claimer(self.client, job, JOBS, selector, PODS, finalizers=[FINALIZER])
        found = self._settled_cache(job, selector).of(self._pods.of(job))
        claimed = await claimer.claim(pod for pod, settled in found if not settled)
        return [pod if is_controlled_by(pod, job) or has_finalizer(pod) else _with_finalizer(pod) for pod in claimed]

    def _settled_cache(self, job: Json, selector: LabelSelector) -> ObjectCache[bool]:
        """Return the cache of settled pods, which have succeeded and were counted: most pods of a large Job."""
        key, uid = key_of(job), str(job["metadata"]["uid"])
        known = self._settled_pods.get(key)
        if known is None or known[0] != uid:
            # A Job's selector is immutable.
            def is_settled(pod: Json) -> bool:
                done = phase(pod) == "Succeeded" and not has_finalizer(pod)
                return done and is_controlled_by(pod, job) and selector.matches(pod["metadata"].get("labels"))

            known = self._settled_pods[key] = (uid, ObjectCache(is_settled))
        return known[1]

    async def _run_pass(
        self, this: ReconcilePass, is_satisfied: bool
    ) -> tuple[str, Exception | None, timedelta | None]:
        """Run a pass. Return the action, its failure, and the delay until the next pass."""
        before = {name: this.status.get(name) for name in ("ready", "terminating")}
        active, suspension, requeue_after = this.status.get("active", 0), False, None
        if this.status.get("startTime") is None and not this.is_suspended:
            this.status["startTime"] = go_time(this.now)
        this.finished, action = judge(this), "reconciling"
        if this.finished is not None:
            number = this.active
            deleted, failure = await self._control.delete_active(this)
            if deleted != number or not is_satisfied:
                # The Job continues while pods remain or are being created.
                this.finished = None
        else:
            failure, managed = None, is_satisfied and not this.job["metadata"].get("deletionTimestamp")
            if managed:
                action, failure, requeue_after = await self._control.manage(this)
            this.finished = find_success(this)
            if managed and this.finished is None:
                suspension = self._update_suspended(this)
        this.status |= {"active": this.active, "ready": this.ready}
        if self._gates.replacement:
            this.status["terminating"] = this.terminating
        else:
            this.status.pop("terminating", None)
        after = {name: this.status.get(name) for name in before}
        await self._tracker.track(this, suspension or this.active != active or after != before)
        return action, failure, requeue_after

    def _update_suspended(self, this: ReconcilePass) -> bool:
        """Update the condition Suspended. Return whether it has changed."""
        wanted = (
            condition("Suspended", "True", "JobSuspended", "Job suspended", this.now)
            if this.is_suspended
            else condition("Suspended", "False", "JobResumed", "Job resumed", this.now)
        )
        conditions = with_status(this.status.get("conditions") or [], wanted)
        if conditions is None:
            return False
        this.status["conditions"] = conditions
        if this.is_suspended:
            self.recorder.record(this.job, "Normal", "Suspended", "Job suspended")
            if self._gates.resets_start:
                this.status.pop("startTime", None)
        else:
            self.recorder.record(this.job, "Normal", "Resumed", "Job resumed")
            this.status["startTime"] = go_time(this.now)
        return True


def _with_finalizer(pod: Json) -> Json:
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "finalizers": [*(metadata.get("finalizers") or ()), FINALIZER]}}
