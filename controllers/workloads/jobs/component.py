"""The job controller: watches Jobs and their pods, and runs the passes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from apiserver.api.selectors.selectors import LabelSelector
from apiserver.runtime import clock
from apiserver.runtime.metrics import Family
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import JOBS, PODS, Json, key_of
from controllers.runtime.times import go_time
from controllers.workloads.common.component import Workload
from controllers.workloads.common.expectations import Expectations
from controllers.workloads.common.object_cache import Remembered
from controllers.workloads.common.owned import Owned, selector_of
from controllers.workloads.common.pod_control import PodControl
from controllers.workloads.common.pod_states import is_terminal, phase
from controllers.workloads.common.references import Claimer, is_controlled_by
from controllers.workloads.jobs.backoff import Record
from controllers.workloads.jobs.gangs import GATE, Gangs
from controllers.workloads.jobs.manager import Pods
from controllers.workloads.jobs.metrics import JobMetrics
from controllers.workloads.jobs.orphans import Orphans
from controllers.workloads.jobs.reconcile import OURSELVES, Gates, Look
from controllers.workloads.jobs.template import FINALIZER, has_finalizer
from controllers.workloads.jobs.tracking import Tracker
from controllers.workloads.jobs.verdict import condition, deadline_in, ended, is_over, judge, with_status

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
        super().__init__(NAME, client, informers, options, JOBS, source=NAME, queue="job")
        self._gates = Gates.of(options.features)
        self._job_metrics = JobMetrics()
        self._expectations = Expectations()
        #: Failures by key, and uids of pods whose finalizer is being removed.
        self._records: dict[str, Record] = {}
        self._removing: set[str] = set()
        #: Uid of the Job and cached states of its pods, by key.
        self._settled: dict[str, tuple[str, Remembered[bool]]] = {}
        #: Loop time of the first unprocessed failure, by Job key.
        self._failed: dict[str, float] = {}
        pods = self.need(informers.of(PODS))
        self._orphans = Orphans(self.client, NAME, self.owners, pods, managed_by=self._gates.managed_by)
        self._control = Pods(
            self.client, PodControl(self.client, self.recorder, JOBS), self._expectations, self._job_metrics
        )
        self._tracker = Tracker(
            self.client, self.recorder, self._job_metrics, self._records, self._removing, self.wrote
        )
        self._gangs: Gangs | None = None
        if options.features.enabled(GATE):
            self._gangs = Gangs(self.client, self.recorder, informers, self.wrote)
            for informer in (self._gangs.workloads, self._gangs.groups):
                self.follow(informer)
        self._controller.alongside(self._orphans.controller.run)
        self._pods = Owned(self.owners, pods, self._soon, self._expectations)
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

    def _soon(self, key: str) -> None:
        self._controller.queue.add_after(key, BATCH)

    def owner_updated(self, before: Json, owner: Json) -> None:
        if is_over(owner):
            self._job_ended(owner)
        if before["metadata"].get("generation") == owner["metadata"].get("generation"):
            self._soon(key_of(owner))
        else:
            self.queue(key_of(owner))

    def _job_added(self, job: Json) -> None:
        if self._is_others(job):
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

    def gone(self, key: str) -> None:
        self._expectations.forget(key)
        self._records.pop(key, None)
        self._failed.pop(key, None)
        self._settled.pop(key, None)

    def _is_others(self, job: Json) -> bool:
        return self._gates.managed_by and job["spec"].get("managedBy") not in (None, OURSELVES)

    async def sync(self, key: str, owner: Json) -> timedelta | None:
        if self._is_others(owner):
            return None
        if is_over(owner):
            self._records.pop(key, None)
            self._settled.pop(key, None)
            return None
        if owner["spec"].get("completionMode") not in (None, "Indexed", "NonIndexed"):
            self.recorder.record(owner, "Warning", "UnknownCompletionMode", _UNKNOWN_MODE)
            return None
        if left := self._failing(key):
            return left
        began, action, result = clock.now(), "reconciling", "error"
        satisfied = self._expectations.satisfied(key)
        # A snapshot, like the pods: a concurrent event must not make a counted pod count again.
        removing = frozenset(self._removing)
        pods = await self._claimed(owner)
        group = await self._gangs.group_of(owner, pods) if self._gangs is not None else None
        look = Look.at(owner, pods, removing, self._gates, clock.now(), self._records.get(key, Record()))
        look.group = group
        try:
            action, failure, again = await self._look(look, satisfied)
            if failure is not None:
                raise failure
            result = "success"
        finally:
            self._job_metrics.looks.inc(look.mode, result, action)
            self._job_metrics.duration.observe((clock.now() - began).total_seconds(), look.mode, result, action)
        left = deadline_in(look)
        waits = [max(wait, BATCH) for wait in (again, left) if wait is not None and look.finished is None]
        return min(waits, default=None)

    def _failing(self, key: str) -> timedelta | None:
        """Return the remaining time to batch further failures; None to proceed now."""
        since = self._failed.get(key)
        if since is None:
            return None
        left = FAILURES.total_seconds() - (asyncio.get_running_loop().time() - since)
        if left > 0:
            return timedelta(seconds=left)
        del self._failed[key]
        return None

    async def _claimed(self, job: Json) -> list[Json]:
        """Return the Job's unsettled pods. Adopted ones get the finalizer and count from now on."""
        selector = selector_of(job)
        claimer = Claimer(self.client, job, JOBS, selector, PODS, finalizers=[FINALIZER])
        found = self._remembered(job, selector).of(self._pods.of(job))
        claimed = await claimer.claim(pod for pod, settled in found if not settled)
        return [pod if is_controlled_by(pod, job) or has_finalizer(pod) else _with_finalizer(pod) for pod in claimed]

    def _remembered(self, job: Json, selector: LabelSelector) -> Remembered[bool]:
        """Return the cache of settled pods, which have succeeded and were counted: most pods of a large Job."""
        key, uid = key_of(job), str(job["metadata"]["uid"])
        known = self._settled.get(key)
        if known is None or known[0] != uid:
            # A Job's selector is immutable.
            def settled(pod: Json) -> bool:
                done = phase(pod) == "Succeeded" and not has_finalizer(pod)
                return done and is_controlled_by(pod, job) and selector.matches(pod["metadata"].get("labels"))

            known = self._settled[key] = (uid, Remembered(settled))
        return known[1]

    async def _look(self, look: Look, satisfied: bool) -> tuple[str, Exception | None, timedelta | None]:
        """Run a pass. Return the action, its failure, and the delay until the next pass."""
        before = {name: look.status.get(name) for name in ("ready", "terminating")}
        active, suspension, again = look.status.get("active", 0), False, None
        if look.status.get("startTime") is None and not look.suspended:
            look.status["startTime"] = go_time(look.now)
        look.finished, action = judge(look), "reconciling"
        if look.finished is not None:
            number = look.active
            deleted, failure = await self._control.delete_active(look)
            if deleted != number or not satisfied:
                # The Job continues while pods remain or are being created.
                look.finished = None
        else:
            failure, managed = None, satisfied and not look.job["metadata"].get("deletionTimestamp")
            if managed:
                action, failure, again = await self._control.manage(look)
            look.finished = ended(look)
            if managed and look.finished is None:
                suspension = self._suspended_or_resumed(look)
        look.status |= {"active": look.active, "ready": look.ready}
        if self._gates.replacement:
            look.status["terminating"] = look.terminating
        else:
            look.status.pop("terminating", None)
        after = {name: look.status.get(name) for name in before}
        await self._tracker.track(look, suspension or look.active != active or after != before)
        return action, failure, again

    def _suspended_or_resumed(self, look: Look) -> bool:
        """Update the condition Suspended. Return whether it has changed."""
        wanted = (
            condition("Suspended", "True", "JobSuspended", "Job suspended", look.now)
            if look.suspended
            else condition("Suspended", "False", "JobResumed", "Job resumed", look.now)
        )
        conditions = with_status(look.status.get("conditions") or [], wanted)
        if conditions is None:
            return False
        look.status["conditions"] = conditions
        if look.suspended:
            self.recorder.record(look.job, "Normal", "Suspended", "Job suspended")
            if self._gates.resets_start:
                look.status.pop("startTime", None)
        else:
            self.recorder.record(look.job, "Normal", "Resumed", "Job resumed")
            look.status["startTime"] = go_time(look.now)
        return True


def _with_finalizer(pod: Json) -> Json:
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "finalizers": [*(metadata.get("finalizers") or ()), FINALIZER]}}
