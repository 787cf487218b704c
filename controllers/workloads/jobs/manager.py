"""Creates and deletes pods until the number of active ones is the desired one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from controllers.runtime.client import Client, is_reason
from controllers.runtime.kinds import PODS, Json, key_of
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
from controllers.workloads.jobs.reconcile import Look
from controllers.workloads.jobs.template import FINALIZER, has_finalizer, new_pod


class Done(NamedTuple):
    """The result. `again` is the delay until a failed pod can be replaced."""

    action: str
    failure: Exception | None = None
    again: timedelta | None = None


async def remove_finalizer(client: Client, pod: Json) -> None:
    """Remove the tracking finalizer of a pod. Raise StatusError."""
    metadata = pod["metadata"]
    body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    await client.patch(PODS, metadata["name"], body, metadata["namespace"], wanted=False)


class Pods:
    """The pods of Jobs."""

    def __init__(self, client: Client, control: PodControl, expectations: Expectations, metrics: JobMetrics) -> None:
        self._client, self._control, self._expectations, self._metrics = client, control, expectations, metrics

    async def delete_active(self, look: Look) -> tuple[int, Exception | None]:
        """Delete all active pods of an ending Job; they keep the finalizer.

        Return the number of deleted pods, and the first failure.
        """
        pods = look.active_pods

        async def delete(pod: Json) -> None:
            try:
                await self._control.delete(look.job, pod)
            except Exception as error:
                if not is_reason(error, "NotFound"):
                    raise

        failures = await all_of(delete(pod) for pod in pods)
        deleted = len(pods) - len(failures)
        look.removed(deleted, sum(map(is_ready, pods)))
        return deleted, failures[0] if failures else None

    async def manage(self, look: Look) -> Done:
        """Create or delete pods until the number of active ones is the desired one."""
        wanted = _wanted(look)
        surplus = _surplus(look, max(0, look.active - wanted))
        if not look.suspended:
            surplus = surplus[:BURST]
        if surplus or look.suspended:
            return Done("pods_deleted", await self._delete(look, surplus))
        missing = wanted - look.active - (look.terminating if look.only_replaces_failed else 0)
        if missing <= 0:
            return Done("tracking")
        return await self._create(look, min(missing, BURST))

    async def _delete(self, look: Look, pods: Sequence[Json]) -> Exception | None:
        """Delete surplus pods without counting them."""
        key = key_of(look.job)
        self._expectations.expect(key, deletions=[pod["metadata"]["uid"] for pod in pods])

        async def delete(pod: Json) -> None:
            try:
                if has_finalizer(pod):
                    await remove_finalizer(self._client, pod)
                await self._control.delete(look.job, pod)
            except Exception as error:
                self._expectations.deleted(key, pod["metadata"]["uid"])
                if not is_reason(error, "NotFound"):
                    raise

        failures = await all_of(delete(pod) for pod in pods)
        look.removed(len(pods) - len(failures), sum(map(is_ready, pods)))
        return failures[0] if failures else None

    async def _create(self, look: Look, count: int) -> Done:
        per_index = look.failed_indexes is not None
        wait = timedelta() if per_index else look.record.remaining(look.now)
        indexes: list[int | None] = [None] * count
        if look.indexed and not wait:
            pending = first_pending(count, look.completions or 0, _taken(look))
            if per_index:
                pending, wait = _ready_indexes(look, pending)
            indexes = list(pending)
        if wait:
            # As upstream: no pod counts as active during the back-off.
            look.active = 0
            return Done("pods_created", again=wait)
        key = key_of(look.job)
        self._expectations.expect(key, creations=len(indexes))

        async def create(number: int) -> None:
            try:
                await self._control.create_pod(look.job, self._pod(look, indexes[number]))
            except Exception as error:
                if not in_terminating_namespace(error):
                    raise

        made, failure = await slow_start(len(indexes), create)
        self._expectations.created(key, len(indexes) - made)
        look.active += made
        self._tell(look, made, failed=failure is not None)
        return Done("pods_created", failure)

    @staticmethod
    def _pod(look: Look, index: int | None) -> Json:
        annotations: dict[str, str] = {}
        if index is not None and look.failed_indexes is not None:
            last = look.replaced.get(index)
            counted, ignored = 0, 0
            if last is not None:
                counts = match(look.failure_policy, last).counts
                counted, ignored = failures(last) + counts, ignored_failures(last) + (not counts)
            annotations = failure_annotations(counted, ignored)
        return new_pod(look.job, index, annotations, look.group)

    def _tell(self, look: Look, made: int, *, failed: bool) -> None:
        reason = "new"
        if look.gates.replacement:
            if look.spec.get("podReplacementPolicy") == "Failed" and look.failed:
                reason = "recreate_failed"
            elif look.failed or look.terminating:
                reason = "recreate_terminating_or_failed"
        if made:
            self._metrics.created.sample(reason, "succeeded").value += made
        if failed:
            self._metrics.created.inc(reason, "failed")


def _wanted(look: Look) -> int:
    """Return the desired number of active pods."""
    parallelism: int = look.spec.get("parallelism", 1)
    if look.suspended:
        return 0
    if look.completions is None:
        return look.active if look.succeeded else parallelism
    return max(0, min(look.completions - look.succeeded, parallelism))


def _surplus(look: Look, least: int) -> list[Json]:
    """Return at least `least` pods to delete.

    Pods of invalid indexes and duplicates of an index come first.
    """
    chosen: list[Json] = []
    left = look.active_pods
    if look.indexed:
        groups: dict[int | None, list[Json]] = {}
        for pod in left:
            groups.setdefault(look.valid_index(pod), []).append(pod)
        chosen, left = groups.pop(None, []), []
        for index in sorted(index for index in groups if index is not None):
            *twins, last = to_delete_first(groups[index], (), look.now)
            chosen += twins
            left.append(last)
    if len(chosen) < least:
        chosen = [*chosen, *to_delete_first(left, (), look.now)[: least - len(chosen)]]
    return chosen


def _taken(look: Look) -> set[int]:
    """Return the indexes that need no pod."""
    taken = look.succeeded_indexes | indexes_of(look.active_pods) | (look.failed_indexes or set())
    if look.only_replaces_failed:
        taken |= {index for pod in look.pods if is_terminating(pod) and (index := index_of(pod)) is not None}
    return taken


def _ready_indexes(look: Look, pending: list[int]) -> tuple[list[int], timedelta]:
    """Return the indexes whose back-off is over; if none, the delay until the next one."""
    waits: dict[int, timedelta] = {}
    for index in pending:
        last = look.replaced.get(index)
        number = 0 if last is None else all_failures(last) + 1
        waits[index] = remaining(number, finished_at(last) if last is not None else None, look.now)
    ready = [index for index, wait in waits.items() if not wait]
    return ready, timedelta() if ready else min(waits.values(), default=timedelta())
