"""CronJobs: create Jobs on schedule and delete old ones.

A Job's name derives from its scheduled time, so that no time gets two Jobs. Facts: upstream's pkg/controller/cronjob.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.cron_schedules import ScheduleError, location
from apiserver.runtime import clock
from apiserver.runtime.metrics import Family, Histogram, exponential
from controllers.options.options import Options
from controllers.resourceclaims.pods import controller_of
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder, EventType, reference
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import CRON_JOBS, JOBS, key_of
from controllers.runtime.times import go_time, parse_time
from controllers.workloads.common.pod_control import in_terminating_namespace
from controllers.workloads.common.references import controller_reference, is_controlled_by
from controllers.workloads.cronjob.times import find_due, format_time, is_too_late, next_delay, schedule_of

NAME = "cronjob-controller"
_SCHEDULED_FOR = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_TIMES_IN_SCHEDULE = (
    "CRON_TZ or TZ used in schedule {} is not officially supported, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
_BUSY = "Not starting job because prior execution is running and concurrency policy is Forbid"
_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


def build(client: Client, informers: Informers, options: Options) -> CronJobs:
    """Build the component for the manager."""
    return CronJobs(client, informers, options)


def final_condition(job: Json) -> str:
    """Return `Complete`, `Failed`, or "" for an unfinished Job."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((c["type"] for c in conditions if c["type"] in ("Complete", "Failed") and c["status"] == "True"), "")


class CronJobs(ControllerComponent):
    """The CronJob controller. Keys are those of CronJobs."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller(NAME)
        self._crons, self._jobs = informers.of(CRON_JOBS), informers.of(JOBS)
        self._of_cron = self._jobs.index("name of the controller", _controllers)
        self._recorder = CoreEventRecorder(self._client, NAME)
        self._controller = Controller(NAME, self.reconcile, workers=options.workers(NAME), queue="cronjob")
        self._controller.alongside(self._recorder.run)
        self._controller.require(self._crons)
        self._controller.follow(self._jobs, self._owner)
        self._crons.on(self._cron_added, self._cron_updated, self._cron_gone)
        self._skew = Histogram(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "Delay between a Job's scheduled time and its creation.",
            (),
            exponential(1, 2, 10),
        )

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, self._skew)

    def _owner(self, job: Json) -> Sequence[str]:
        owner = controller_of(job)
        if owner is None or owner["kind"] != CRON_JOBS.kind:
            return ()
        key = f"{job['metadata']['namespace']}/{owner['name']}"
        cron = self._crons.get(key)
        return (key,) if cron is not None and cron["metadata"]["uid"] == owner["uid"] else ()

    def _cron_added(self, cron: Json) -> None:
        self._controller.queue.add(key_of(cron))

    def _cron_gone(self, cron: Json) -> None:
        self._controller.queue.drop(key_of(cron))
        self._cron_added(cron)

    def _cron_updated(self, before: Json, cron: Json) -> None:
        old, new = before["spec"], cron["spec"]
        if (old.get("schedule"), old.get("timeZone")) == (new.get("schedule"), new.get("timeZone")):
            self._controller.queue.add(key_of(cron))
            return
        # A changed schedule applies to future times only.
        try:
            delay = next_delay(cron, schedule_of(cron), clock.now())
        except ScheduleError:
            text = f"unparseable schedule for cronjob: {new.get('schedule', '')}"
            self._recorder.record(cron, "Warning", "UnParseableCronJobSchedule", text)
            return
        if delay is not None:
            self._controller.queue.add_after(key_of(cron), delay)

    async def reconcile(self, key: str) -> timedelta | None:
        cron = self._crons.get(key)
        if cron is None:
            return None
        run = ReconcilePass(self._client, self._recorder, self._skew, cron)
        jobs = self._of_cron.get(key)
        await run.clean_up(jobs)
        try:
            return await run.sync(jobs)
        finally:
            await run.write()


class ReconcilePass:
    """One pass over a CronJob, which writes the status once, at its end."""

    def __init__(self, client: Client, recorder: CoreEventRecorder, skew: Histogram, cron: Json) -> None:
        self._client, self._recorder, self._skew = client, recorder, skew
        self._cron = cron
        self._status: Json = dict(cron.get("status") or {})

    def _record(self, type: EventType, reason: str, message: str) -> None:
        self._recorder.record(self._cron, type, reason, message)

    async def write(self) -> None:
        if self._status != (self._cron.get("status") or {}):
            await self._client.update_status(CRON_JOBS, {**self._cron, "status": self._status})

    def _active(self) -> list[Json]:
        return list(self._status.get("active") or ())

    def _set_active(self, active: list[Json]) -> None:
        self._status.pop("active", None)
        if active:
            self._status["active"] = active

    def _remove_active(self, uid: str) -> None:
        self._set_active([job for job in self._active() if job["uid"] != uid])

    async def clean_up(self, jobs: list[Json]) -> None:
        """Delete the oldest finished Jobs beyond the history limits."""
        spec = self._cron["spec"]
        for condition, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            if spec.get(limit) is not None:
                ended = sorted((job for job in jobs if final_condition(job) == condition), key=_by_start)
                for job in ended[: max(0, len(ended) - spec[limit])]:
                    await self._delete(job)

    async def _delete(self, job: Json) -> bool:
        metadata = job["metadata"]
        try:
            await self._client.delete(JOBS, metadata["name"], metadata["namespace"], propagation="Background")
        except StatusError as error:
            self._record("Warning", "FailedDelete", f"Deleted job: {error}")
            return False
        self._remove_active(metadata["uid"])
        self._record("Normal", "SuccessfulDelete", f"Deleted job {metadata['name']}")
        return True

    async def _update_active(self, jobs: list[Json]) -> None:
        """Update the status and emit events for existing and missing Jobs."""
        for job in jobs:
            uid, condition = job["metadata"]["uid"], final_condition(job)
            known = any(each["uid"] == uid for each in self._active())
            if not condition and not known:
                await self._handle_unexpected(job)
            elif condition:
                if known:
                    self._remove_active(uid)
                    text = f"Saw completed job: {job['metadata']['name']}, condition: {condition}"
                    self._record("Normal", "SawCompletedJob", text)
                if condition == "Complete":
                    self._record_success(job["status"].get("completionTime"))
        known_uids = {job["metadata"]["uid"] for job in jobs}
        for each in self._active():
            if each["uid"] not in known_uids and not await self._has_job(each):
                self._record("Normal", "MissingJob", f"Active job went missing: {each['name']}")
                self._remove_active(each["uid"])

    async def _handle_unexpected(self, job: Json) -> None:
        """Handle a Job missing in the status: the status may be stale, or the Job foreign."""
        metadata = self._cron["metadata"]
        fresh = await self._client.get(CRON_JOBS, metadata["name"], metadata["namespace"])
        active = (fresh.get("status") or {}).get("active") or ()
        if any(each["uid"] == job["metadata"]["uid"] for each in active):
            self._cron, self._status = fresh, dict(fresh["status"])
            return
        text = f"Saw a job that the controller did not create or forgot: {job['metadata']['name']}"
        self._record("Warning", "UnexpectedJob", text)

    def _record_success(self, at: str | None) -> None:
        last = self._status.get("lastSuccessfulTime")
        if at and (not last or parse_time(at) > parse_time(last)):
            self._status["lastSuccessfulTime"] = at

    async def _has_job(self, reference: Json) -> bool:
        """Return whether the Job exists on the server, because the informer may lag."""
        try:
            await self._client.get(JOBS, reference["name"], reference["namespace"])
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
            return False
        return True

    async def sync(self, jobs: list[Json]) -> timedelta | None:
        """Create the due Job. Return the delay until the next one."""
        await self._update_active(jobs)
        cron, spec, now = self._cron, self._cron["spec"], clock.now()
        zone, text = spec.get("timeZone"), spec.get("schedule", "")
        if cron["metadata"].get("deletionTimestamp"):
            return None
        if zone is not None:
            try:
                location(zone)
            except ScheduleError as error:
                self._record("Warning", "UnknownTimeZone", f"invalid timeZone: {go_quote(zone)}: {error}")
                return None
        if spec.get("suspend"):
            return None
        if "TZ" in text:
            self._record("Warning", "UnsupportedSchedule", _TIMES_IN_SCHEDULE.format(go_quote(text)))
        try:
            schedule = schedule_of(cron)
        except ScheduleError as error:
            self._record("Warning", "UnparseableSchedule", f"unparseable schedule: {go_quote(text)} : {error}")
            return None
        try:
            found = find_due(cron, schedule, now)
        except ScheduleError as error:
            self._record("Warning", "InvalidSchedule", f"invalid schedule: {text} : {error}")
            return None
        if found is not None:
            if found.many:
                self._record("Warning", "TooManyMissedTimes", _MANY)
            await self._start(found.time, now)
        return next_delay({**cron, "status": self._status}, schedule, now)

    async def _start(self, time: datetime, now: datetime) -> None:
        if is_too_late(self._cron, time, now):
            at = time.strftime("%a, %d %b %Y %H:%M:%S +0000")
            self._record("Warning", "MissSchedule", f"Missed scheduled time to start a job: {at}")
            return
        job = job_for(self._cron, time)
        last = self._status.get("lastScheduleTime")
        if any(each["name"] == job["metadata"]["name"] for each in self._active()) or (
            last and parse_time(last) == time.replace(microsecond=0)
        ):
            return
        policy = self._cron["spec"].get("concurrencyPolicy")
        if policy == "Forbid" and self._active():
            self._record("Normal", "JobAlreadyActive", _BUSY)
            return
        if policy == "Replace":
            await self._replace()
        made = await self._create(job, time)
        if made is not None:
            self._set_active([*self._active(), reference(made)])
            self._status["lastScheduleTime"] = go_time(time)

    async def _replace(self) -> None:
        """Delete the active Jobs. Raise StatusError."""
        for each in self._active():
            try:
                job = await self._client.get(JOBS, each["name"], each["namespace"])
            except StatusError as error:
                self._record("Warning", "FailedGet", f"Get job: {error}")
                raise
            if not await self._delete(job):
                raise StatusError(500, "", f"could not replace job {each['namespace']}/{each['name']}")

    async def _create(self, job: Json, time: datetime) -> Json | None:
        """Create the Job. Return None if one of that name is foreign or already active."""
        try:
            made = await self._client.create(JOBS, job)
        except StatusError as error:
            if in_terminating_namespace(error):
                raise
            if is_reason(error, "AlreadyExists"):
                metadata = job["metadata"]
                made = await self._client.get(JOBS, metadata["name"], metadata["namespace"])
                known = any(each["uid"] == made["metadata"]["uid"] for each in self._active())
                return made if is_controlled_by(made, self._cron) and not known else None
            self._record("Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        self._skew.observe((parse_time(made["metadata"]["creationTimestamp"]) - time).total_seconds())
        self._record("Normal", "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        return made


def job_for(cron: Json, time: datetime) -> Json:
    """Build the Job of a scheduled time."""
    template = cron["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    metadata: Json = {
        "name": f"{cron['metadata']['name']}-{int(time.timestamp()) // 60}",
        "namespace": cron["metadata"]["namespace"],
        "annotations": {**(given.get("annotations") or {}), _SCHEDULED_FOR: format_time(cron, time)},
        "ownerReferences": [controller_reference(cron, CRON_JOBS)],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": template["spec"]}


def _controllers(job: Json) -> Sequence[str]:
    owner = controller_of(job)
    return (f"{job['metadata']['namespace']}/{owner['name']}",) if owner is not None else ()


def _by_start(job: Json) -> tuple[bool, str, str]:
    start = (job.get("status") or {}).get("startTime") or ""
    return (not start, start, job["metadata"]["name"])
