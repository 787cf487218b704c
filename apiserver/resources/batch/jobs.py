"""Define Jobs of batch/v1: generated selector and labels, status, columns. `controllers.workloads` runs them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.types.batch import Job, JobSpec
from apiserver.api.values.durations import age, human_duration
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.batch.defaults import default_job, job_to_hub
from apiserver.resources.batch.jobvalidation import NAME_LABELS, UID_LABELS
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.common.workloads import hostname_warnings, template_columns
from apiserver.resources.pods.dropping import drop_disabled_in_template
from apiserver.resources.pods.gates import pod_gates
from apiserver.resources.pods.template import template_warnings

if TYPE_CHECKING:
    from apiserver.registry.definition.options import DeleteOptions

__all__ = ["JOBS", "job_spec_warnings"]


_ORPHANS: Final = (
    "child pods are preserved by default when jobs are deleted; "
    "set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
)
_UNTRACKED: Final = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might"
    " not be able to track completedIndexes when a big number of indexes fail"
)


def job_spec_warnings(path: Path, spec: Json) -> list[str]:
    many = (
        spec.get("completionMode") == "Indexed"
        and (spec.get("completions") or 0) > 100_000
        and (spec.get("parallelism") or 0) > 10_000
    )
    return ([f"{path}: {_UNTRACKED}"] if many else []) + template_warnings(path / "template", spec["template"])


class JobStrategy(StatusStrategy):
    spec_type = JobSpec
    status_reset_fields = ("spec",)
    garbage_collection = "orphan"
    revalidates_metadata = False

    def drop_gated(self, ctx: Context, obj: Json, old: Json | None) -> None:
        drop_disabled_in_template(ctx, obj, old, "spec", "template")

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)
        super().prepare_for_create(ctx, obj)

    def validate_first(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        from apiserver.resources.batch.jobupdates import validate_whole_job

        return [] if old is None or ctx.subresource else validate_whole_job(ctx, obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        from apiserver.resources.batch.jobvalidation import validate_job

        return validate_job(obj, gates=pod_gates(ctx, None))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        from apiserver.resources.batch.jobupdates import validate_job_update

        return validate_job_update(ctx, obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        from apiserver.resources.batch.jobstatus import validate_job_status_update

        return validate_job_status_update(ctx, obj, old)

    def canonicalize(self, ctx: Context, obj: Json) -> None:
        """Copy the template's labels to a Job without labels, because upstream also defaults stored objects."""
        labels = obj["spec"]["template"]["metadata"].get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return hostname_warnings(obj) + job_spec_warnings(Path("spec"), obj["spec"])

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        changed = obj["metadata"].get("generation") != old["metadata"].get("generation")
        return job_spec_warnings(Path("spec"), obj["spec"]) if changed else []

    def warnings_on_delete(self, ctx: Context, options: DeleteOptions) -> list[str]:
        return [_ORPHANS] if not options.propagation and options.orphan is None else []


def _generate_selector(obj: Json) -> None:
    """Generate the labels of the Job's pods, and the selector for them.

    Values from the client are kept. Validation rejects them if they are wrong.
    """
    metadata, spec = obj["metadata"], obj["spec"]
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for keys, value in ((NAME_LABELS, metadata.get("name", "")), (UID_LABELS, metadata.get("uid", ""))):
        for key in keys:
            labels.setdefault(key, value)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(UID_LABELS[1], metadata.get("uid", ""))


# --- columns
# ----------------------------------------------------------------------------------------------------------------------


def _state(obj: Json) -> str:
    status = obj.get("status") or {}
    for kind in ("Complete", "Failed"):
        if _first_is_true(status, kind):
            return kind
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _first_is_true(status, kind):
            return kind
    return "Running"


def _first_is_true(status: Json, kind: str) -> bool:
    """Return whether the first condition of the type is true."""
    first = next((condition for condition in status.get("conditions") or () if condition.get("type") == kind), None)
    return first is not None and first.get("status") == "True"


def _completions(obj: Json) -> str:
    spec, done = obj["spec"], (obj.get("status") or {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(obj: Json, now: datetime) -> str:
    status = obj.get("status") or {}
    started, ended = status.get("startTime"), status.get("completionTime")
    if started is None:
        return ""
    if ended is None:
        return age(started, now)
    return human_duration((datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds())


_COLUMNS: Final = (
    NAME,
    Column(name="Status", cell=_state, description="Status of the job."),
    Column(name="Completions", cell=_completions, description="Succeeded pods of the required number."),
    Column(name="Duration", cell=_duration, timed=True, description="Run time of the job so far, or in total."),
    AGE,
    *template_columns(lambda obj: obj["spec"]["template"], lambda obj: obj["spec"].get("selector")),
)

JOBS: Final = Resource(
    group="batch",
    kind="Job",
    plural="jobs",
    singular="job",
    namespaced=True,
    categories=("all",),
    versions=(Version(name="v1", schema=Job, default=default_job, to_hub=job_to_hub),),
    strategy=JobStrategy(),
    storage_prefix="jobs",
    columns=_COLUMNS,
    subresources=(Subresource(name="status"),),
    field_labels={"status.successful": lambda obj: str((obj.get("status") or {}).get("succeeded", 0))},
    field_error_style="label",
)
