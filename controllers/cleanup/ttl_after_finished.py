"""Deletes finished Jobs after `spec.ttlSecondsAfterFinished`. Facts: upstream's pkg/controller/ttlafterfinished."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from apiserver.runtime.metrics import Family, Histogram, exponential
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import JOBS
from controllers.runtime.times import parse_time

NAME = "ttl-after-finished-controller"
_FINISHED = frozenset({"Complete", "Failed"})


def build(client: Client, informers: Informers, options: Options) -> TtlAfterFinished:
    """Build the component for the manager."""
    return TtlAfterFinished(client, informers, options)


class TtlAfterFinished(ControllerComponent):
    """The TTL controller. Keys are those of Jobs."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller(NAME)
        self._jobs = informers.of(JOBS)
        self._controller = Controller(NAME, self.reconcile, workers=options.workers(NAME), queue="ttl_jobs_to_delete")
        self._controller.follow(self._jobs)
        self._delays = Histogram(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "Delay of a Job's deletion after its due time.",
            (),
            exponential(0.1, 2, 14),
        )

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, self._delays)

    async def reconcile(self, key: str) -> timedelta | None:
        job = self._jobs.get(key)
        if job is None or (left := _remaining(job)) is None:
            return None
        if left > timedelta():
            return left
        metadata = job["metadata"]
        try:
            # The informer may lag: the TTL may have been extended.
            fresh = await self._client.get(JOBS, metadata["name"], metadata["namespace"])
            if fresh["metadata"]["uid"] != metadata["uid"] or (left := _remaining(fresh)) is None or left > timedelta():
                return left
            await self._client.delete(
                JOBS, metadata["name"], metadata["namespace"], uid=metadata["uid"], propagation="Foreground"
            )
            self._delays.observe(-left.total_seconds())
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise
        return None


def _remaining(job: Json) -> timedelta | None:
    """Return the remaining time of a Job; None without TTL or while it is being deleted."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    finished = _finished_at(job)
    if seconds is None or finished is None or "deletionTimestamp" in job["metadata"]:
        return None
    return finished + timedelta(seconds=seconds) - now()


def _finished_at(job: Json) -> datetime | None:
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in _FINISHED and condition["status"] == "True" and condition.get("lastTransitionTime"):
            return parse_time(condition["lastTransitionTime"])
    return None
