"""CronJobs of batch/v1. Facts: pkg/apis/batch/validation, pkg/registry/batch/cronjob."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, not_supported
from apiserver.api.objects import Json
from apiserver.api.types.batch import CronJob, CronJobSpec
from apiserver.api.types.meta import LabelSelector
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.durations import age
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.batch.defaults import cron_job_to_hub, default_cron_job
from apiserver.resources.batch.jobs import job_spec_warnings
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.common.workloads import hostname_warnings, template_columns
from apiserver.resources.pods.dropping import drop_disabled_in_template
from apiserver.resources.pods.gates import PodGates, pod_gates

__all__ = ["CRON_JOBS"]


_SPEC: Final = Path("spec")
_JOB: Final = _SPEC / "jobTemplate" / "spec"
#: The path of the pod template.
_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template")
#: A Job's name is the CronJob's name and 11 more characters.
_NAME_LENGTH: Final = 52
_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}", re.ASCII)
_ZONE_IN_SCHEDULE: Final = (
    "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)


RULES.set(
    CronJobSpec,
    by_rules=(
        "schedule", "startingDeadlineSeconds", "concurrencyPolicy", "jobTemplate", "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ),
)  # fmt: skip


def _template(obj: Json) -> Json:
    template: Json = obj["spec"]["jobTemplate"]["spec"]["template"]
    return template


class CronJobStrategy(StatusStrategy):
    spec_type = CronJobSpec
    checks_status_metadata = False
    status_reset_fields = ("spec",)
    revalidates_metadata = False

    def drop_gated(self, ctx: Context, obj: Json, old: Json | None) -> None:
        drop_disabled_in_template(ctx, obj, old, *_TEMPLATE)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        name = obj["metadata"].get("name", "")
        errors = _spec_errors(obj["spec"], None, pod_gates(ctx, None))
        if len(name.encode()) > _NAME_LENGTH:
            errors.append(invalid(Path("metadata.name"), name, f"must be no more than {_NAME_LENGTH} characters"))
        return errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        gates = pod_gates(ctx, old["spec"]["jobTemplate"]["spec"]["template"]["spec"])
        return _spec_errors(obj["spec"], old["spec"], gates)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return hostname_warnings(obj) + job_spec_warnings(_JOB, obj["spec"]["jobTemplate"]["spec"])

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        changed = obj["metadata"].get("generation") != old["metadata"].get("generation")
        warnings = job_spec_warnings(_JOB, obj["spec"]["jobTemplate"]["spec"]) if changed else []
        return warnings + ([_ZONE_IN_SCHEDULE] if "TZ" in obj["spec"].get("schedule", "") else [])


def _spec_errors(spec: Json, old: Json | None, gates: PodGates) -> list[FieldError]:
    from apiserver.resources.batch.jobvalidation import validate_template_job_spec

    here, schedule = RULES.of(CronJobSpec).at(_SPEC, spec), spec.get("schedule", "")
    if schedule:
        errors = _schedule(
            _SPEC / "schedule",
            schedule,
            spec.get("timeZone"),
            with_zone=old is not None and "TZ" in old.get("schedule", ""),
        )
    else:
        errors = here.field("schedule")
    errors += here.field("startingDeadlineSeconds")
    if old is None or old.get("timeZone") != spec.get("timeZone"):
        errors += _time_zone(_SPEC / "timeZone", spec.get("timeZone"))
    errors += here.field("concurrencyPolicy")
    job = spec["jobTemplate"]["spec"]
    errors += validate_template_job_spec(_JOB, job, gates)
    if job.get("selector") is not None:
        errors.append(
            invalid(_JOB / "selector", internal(LabelSelector, job["selector"]), "`selector` will be auto-generated")
        )
    if job.get("manualSelector"):
        errors.append(not_supported(_JOB / "manualSelector", True, ("nil", "false")))
    return errors + here.fields("successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _schedule(path: Path, schedule: str, zone: str | None, *, with_zone: bool) -> list[FieldError]:
    """Validate the schedule. `with_zone`: the stored schedule names a time zone, which earlier releases allowed."""
    from apiserver.api.values.cron_schedules import ScheduleError, parse_schedule

    errors: list[FieldError] = []
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        errors.append(invalid(path, schedule, str(error)))
    if "TZ" in schedule:
        if not with_zone:
            errors.append(invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
        elif zone is not None:
            errors.append(invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
    return errors


def _time_zone(path: Path, zone: str | None) -> list[FieldError]:
    from apiserver.api.values.cron_schedules import ScheduleError, check_location

    if zone is None:
        return []
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part) for part in zone.split("/")):
        return [invalid(path, zone, f"unknown time zone {zone}")]
    errors: list[FieldError] = []
    if zone.lower() == "local":
        errors.append(
            invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
        )
    try:
        check_location(zone)
    except ScheduleError as error:
        errors.append(invalid(path, zone, str(error)))
    return errors


# --- columns
# ----------------------------------------------------------------------------------------------------------------------


def _last_schedule(obj: Json, now: datetime) -> str:
    last = (obj.get("status") or {}).get("lastScheduleTime")
    return age(last, now) if last else "<none>"


def _suspended(obj: Json) -> str:
    suspended = obj["spec"].get("suspend")
    return "<unset>" if suspended is None else str(suspended)


def _zone(obj: Json) -> str:
    zone: str | None = obj["spec"].get("timeZone")
    return "<none>" if zone is None else zone


CRON_JOBS: Final = Resource(
    group="batch",
    kind="CronJob",
    plural="cronjobs",
    singular="cronjob",
    namespaced=True,
    short_names=("cj",),
    categories=("all",),
    versions=(Version(name="v1", schema=CronJob, default=default_cron_job, to_hub=cron_job_to_hub),),
    strategy=CronJobStrategy(),
    storage_prefix="cronjobs",
    subresources=(Subresource(name="status"),),
    columns=(
        NAME,
        Column(
            name="Schedule", cell=lambda obj: obj["spec"].get("schedule", ""), description="Schedule in cron format."
        ),
        Column(name="Timezone", cell=_zone, description="Time zone of the schedule."),
        Column(name="Suspend", cell=_suspended, type="boolean", description="Whether job creation is suspended."),
        Column(
            name="Active",
            cell=lambda obj: len((obj.get("status") or {}).get("active") or ()),
            type="integer",
            description="Number of running jobs.",
        ),
        Column(
            name="Last Schedule", cell=_last_schedule, timed=True, description="Time since the last job was created."
        ),
        AGE,
        *template_columns(_template, lambda obj: obj["spec"]["jobTemplate"]["spec"].get("selector")),
    ),
)
