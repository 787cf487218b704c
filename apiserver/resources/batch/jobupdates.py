"""Validate updates of Jobs (pkg/apis/batch/validation, ValidateJobUpdate).

Few fields are mutable; more are while the Job is suspended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.language import INT32
from apiserver.api.types.batch import JobSpec
from apiserver.api.types.core.pods import PodSpec, PodTemplateSpec
from apiserver.api.validation.changes import changes
from apiserver.registry.definition.metadata import validate_metadata
from apiserver.resources.batch.conditions import is_true
from apiserver.resources.batch.jobvalidation import INDEXED, NAME_LABELS, UID_LABELS, validate_job, validate_job_spec
from apiserver.resources.common.workloads import immutable
from apiserver.resources.pods.gates import pod_gates
from apiserver.resources.pods.specdiff import internal_spec, internal_template

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["validate_job_update", "validate_whole_job"]


_SPEC: Final = Path("spec")
#: Immutable fields that are reported before the template, and after it.
_OTHER_FIELDS: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SELECTOR: Final = changes(JobSpec, "selector", by_rules=_OTHER_FIELDS)
_OTHERS: Final = changes(JobSpec, *_OTHER_FIELDS, by_rules=("selector",))
_TEMPLATE: Final = _SPEC / "template"
#: Scheduling directives in the template's spec.
_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")


def validate_whole_job(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    """Validate the changed Job like a new one, metadata included. Upstream does so before it compares the specs."""
    labels = old["spec"]["template"]["metadata"].get("labels") or {}
    errors = validate_metadata(obj["metadata"], True, "subdomain", kind_rules=True)
    prefixed = NAME_LABELS[1] in labels and UID_LABELS[1] in labels
    gates = pod_gates(ctx, old["spec"]["template"]["spec"])
    return errors + validate_job(obj, gates=gates, prefixed_labels=prefixed)


def validate_job_update(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    spec, before = obj["spec"], old["spec"]
    errors = validate_job_spec(_SPEC, spec, pod_gates(ctx, before["template"]["spec"]))
    errors += _completions(spec, before)
    errors += _SELECTOR.errors(_SPEC, spec, before) + _template(ctx, obj, old)
    return errors + _OTHERS.errors(_SPEC, spec, before)


def _completions(spec: Json, before: Json) -> list[FieldError]:
    """Allow an indexed Job's completions to change together with its parallelism."""
    new, old = spec.get("completions"), before.get("completions")
    if spec.get("completionMode") != INDEXED:
        return immutable(_SPEC / "completions", INT32, new, old)
    if new == old or new is None or new == spec.get("parallelism"):
        return []
    return [invalid(_SPEC / "completions", new, "can only be modified in tandem with spec.parallelism")]


def _template(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    template, before = obj["spec"]["template"], old["spec"]["template"]
    status = old.get("status") or {}
    suspended = bool(old["spec"].get("suspend"))
    started = status.get("startTime") is not None
    idle = suspended and (not started or is_true(status, "Suspended")) and not status.get("active")
    enabled = ctx.features.enabled
    if idle if enabled("MutableSchedulingDirectivesForSuspendedJobs") else suspended and not started:
        before = _with_directives(before, template)
    if suspended and idle and enabled("MutablePodResourcesForSuspendedJobs"):
        allowed = _with_resources(before["spec"], template["spec"])
        if not semantic_equal(PodSpec, template["spec"], allowed):
            return [invalid(_SPEC / "template.spec", internal_spec(template["spec"]), "field is immutable")]
        return []
    if not semantic_equal(PodTemplateSpec, template, before):
        return [invalid(_TEMPLATE, internal_template(template), "field is immutable")]
    return []


def _taken(target: Json, source: Json, *fields: str) -> Json:
    """Return a copy of the target with these fields from the source."""
    rest = {name: value for name, value in target.items() if name not in fields}
    return {**rest, **{name: source[name] for name in fields if name in source}}


def _with_directives(before: Json, template: Json) -> Json:
    """Return the stored template with the labels, annotations and scheduling directives of the new one."""
    metadata = _taken(before["metadata"], template["metadata"], "labels", "annotations")
    spec = _taken(before["spec"], template["spec"], *_DIRECTIVES)
    new, old = template["spec"].get("affinity"), before["spec"].get("affinity")
    if new is not None or old is not None:
        affinity = _taken(old or {}, new or {}, "nodeAffinity")
        spec.pop("affinity", None)
        if affinity or new is not None:
            spec["affinity"] = affinity
    return {**before, "metadata": metadata, "spec": spec}


def _with_resources(before: Json, spec: Json) -> Json:
    """Return the stored spec with the new resources of containers that have the same name and position."""
    result = dict(before)
    for field in ("containers", "initContainers"):
        new, old = spec.get(field) or [], before.get(field) or []
        if len(new) == len(old) and old:
            result[field] = [
                _taken(b, n, "resources") if n.get("name") == b.get("name") else b
                for n, b in zip(new, old, strict=True)
            ]
    return result
