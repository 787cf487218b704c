"""Creates and deletes pods until the number of active ones is the desired one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from apiserver.api.objects import Json
from controllers.runtime.client import Client, is_reason
from controllers.runtime.kinds import PODS, key_of
from controllers.workloads.common.expectations import Expectations
from controllers.workloads.common.pod_control import BURST, PodControl, all_of, in_terminating_namespace, slow_start
from controllers.workloads.common.pod_states import is_ready, is_terminating, to_delete_first
from controllers.workloads.jobs.backoff import finished_at, remaining
from controllers.workloads.jobs.indexes import (
    all_failures,
    failure_annotations,
    failures,
    first_pending,
    ignored_failures,
    index_of,
    indexes_of,
)
from controllers.workloads.jobs.metrics import JobMetrics
from controllers.workloads.jobs.policies import match
from controllers.workloads.jobs.reconcile import ReconcilePass
from controllers.workloads.jobs.template import FINALIZER, has_finalizer, new_pod


class Result(NamedTuple):
    """The result. `requeue_after` is the delay until a failed pod can be replaced."""

    action: str
    failure: Exception | None = None
    requeue_after: timedelta | None = None


async def remove_finalizer(client: Client, pod: Json) -> None:
    """Remove the tracking finalizer of a pod. Raise StatusError."""
    metadata = pod["metadata"]
    body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    await client.patch(PODS, metadata["name"], body, metadata["namespace"], parse=False)


class Pods:
    """The pods of Jobs."""

    def __init__(self, client: Client, control: PodControl, expectations: Expectations, metrics: JobMetrics) -> None:
        self._client, self._control, self._expectations, self._metrics = client, control, expectations, metrics

    async def delete_active(self, this: ReconcilePass) -> tuple[int, Exception | None]:
        """Delete all active pods of an ending Job; they keep the finalizer.

        Return the number of deleted pods, and the first failure.
        """
        pods = this.active_pods

        async def delete(pod: Json) -> None:
            try:
                await self._control.delete(this.job, pod)
            except Exception as error:
                if not is_reason(error, "NotFound"):
                    raise

        failures = await all_of(delete(pod) for pod in pods)
        deleted = len(pods) - len(failures)
        this.subtract_deleted(deleted, sum(map(is_ready, pods)))
        return deleted, failures[0] if failures else None

    async def manage(self, this: ReconcilePass) -> Result:
        """Create or delete pods until the number of active ones is the desired one."""
        wanted = _desired_count(this)
        surplus = _surplus(this, max(0, this.active - wanted))
        if not this.is_suspended:
            surplus = surplus[:BURST]
        if surplus or this.is_suspended:
            return Result("pods_deleted", await self._delete(this, surplus))
        missing = wanted - this.active - (this.terminating if this.only_replaces_failed else 0)
        if missing <= 0:
            return Result("tracking")
        return await self._create(this, min(missing, BURST))

    async def _delete(self, this: ReconcilePass, pods: Sequence[Json]) -> Exception | None:
        """Delete surplus pods without counting them."""
        key = key_of(this.job)
        self._expectations.expect(key, deletions=[pod["metadata"]["uid"] for pod in pods])

        async def delete(pod: Json) -> None:
            try:
                if has_finalizer(pod):
                    await remove_finalizer(self._client, pod)
                await self._control.delete(this.job, pod)
            except Exception as error:
                self._expectations.observe_deletion(key, pod["metadata"]["uid"])
                if not is_reason(error, "NotFound"):
                    raise

        failures = await all_of(delete(pod) for pod in pods)
        this.subtract_deleted(len(pods) - len(failures), sum(map(is_ready, pods)))
        return failures[0] if failures else None

    async def _create(self, this: ReconcilePass, count: int) -> Result:
        per_index = this.failed_indexes is not None
        wait = timedelta() if per_index else this.record.remaining(this.now)
        indexes: list[int | None] = [None] * count
        if this.is_indexed and not wait:
            pending = first_pending(count, this.completions or 0, _taken_indexes(this))
            if per_index:
                pending, wait = _ready_indexes(this, pending)
            indexes = list(pending)
        if wait:
            # As upstream: no pod counts as active during the back-off.
            this.active = 0
            return Result("pods_created", requeue_after=wait)
        key = key_of(this.job)
        self._expectations.expect(key, creations=len(indexes))

        async def create(number: int) -> None:
            try:
                await self._control.create_pod(this.job, self._pod(this, indexes[number]))
            except Exception as error:
                if not in_terminating_namespace(error):
                    raise

        made, failure = await slow_start(len(indexes), create)
        self._expectations.observe_creation(key, len(indexes) - made)
        this.active += made
        self._count_creations(this, made, failed=failure is not None)
        return Result("pods_created", failure)

    @staticmethod
    def _pod(this: ReconcilePass, index: int | None) -> Json:
        annotations: dict[str, str] = {}
        if index is not None and this.failed_indexes is not None:
            last = this.replaced.get(index)
            counted, ignored = 0, 0
            if last is not None:
                counts = match(this.failure_policy, last).counts
                counted, ignored = failures(last) + counts, ignored_failures(last) + (not counts)
            annotations = failure_annotations(counted, ignored)
        return new_pod(this.job, index, annotations, this.group)

    def _count_creations(self, this: ReconcilePass, made: int, *, failed: bool) -> None:
        reason = "new"
        if this.gates.replacement:
            if this.spec.get("podReplacementPolicy") == "Failed" and this.failed:
                reason = "recreate_failed"
            elif this.failed or this.terminating:
                reason = "recreate_terminating_or_failed"
        if made:
            self._metrics.created.sample(reason, "succeeded").value += made
        if failed:
            self._metrics.created.inc(reason, "failed")


def _desired_count(this: ReconcilePass) -> int:
    """Return the desired number of active pods."""
    parallelism: int = this.spec.get("parallelism", 1)
    if this.is_suspended:
        return 0
    if this.completions is None:
        return this.active if this.succeeded else parallelism
    return max(0, min(this.completions - this.succeeded, parallelism))


def _surplus(this: ReconcilePass, least: int) -> list[Json]:
    """Return at least `least` pods to delete.

    Pods of invalid indexes and duplicates of an index come first.
    """
    chosen: list[Json] = []
    left = this.active_pods
    if this.is_indexed:
        groups: dict[int | None, list[Json]] = {}
        for pod in left:
            groups.setdefault(this.valid_index(pod), []).append(pod)
        chosen, left = groups.pop(None, []), []
        for index in sorted(index for index in groups if index is not None):
            *twins, last = to_delete_first(groups[index], (), this.now)
            chosen += twins
            left.append(last)
    if len(chosen) < least:
        chosen = [*chosen, *to_delete_first(left, (), this.now)[: least - len(chosen)]]
    return chosen


def _taken_indexes(this: ReconcilePass) -> set[int]:
    """Return the indexes that need no pod."""
    taken = this.succeeded_indexes | indexes_of(this.active_pods) | (this.failed_indexes or set())
    if this.only_replaces_failed:
        taken |= {index for pod in this.pods if is_terminating(pod) and (index := index_of(pod)) is not None}
    return taken


def _ready_indexes(this: ReconcilePass, pending: list[int]) -> tuple[list[int], timedelta]:
    """Return the indexes whose back-off is over; if none, the delay until the next one."""
    waits: dict[int, timedelta] = {}
    for index in pending:
        last = this.replaced.get(index)
        number = 0 if last is None else all_failures(last) + 1
        waits[index] = remaining(number, finished_at(last) if last is not None else None, this.now)
    ready = [index for index, wait in waits.items() if not wait]
    return ready, timedelta() if ready else min(waits.values(), default=timedelta())
