"""Validate the spec of a Job (pkg/apis/batch/validation, ValidateJob and validateJobSpec)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from apiserver.api.objects import Json
from apiserver.api.schema.markers import (
    AtMost,
    Enum,
    If,
    Invalid,
    Reference,
    Required,
    Union,
    UntilError,
    differs,
    equals,
    is_set,
    is_unset,
)
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.api.types.batch import JobSpec, PodFailurePolicyOnExitCodesRequirement, SuccessPolicyRule
from apiserver.api.types.meta import LabelSelector
from apiserver.api.validation.compile import At
from apiserver.api.validation.internal_values import internal
from apiserver.api.validation.items import each_unique
from apiserver.api.values.names import dns_label, domain_prefixed_path
from apiserver.resources.batch.indexes import IndexesError, count_indexes
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.workloads import selects_template, shown_labels, validate_required_selector
from apiserver.resources.pods.gates import PodGates
from apiserver.resources.pods.template import validate_template

__all__ = ["INDEXED", "NAME_LABELS", "UID_LABELS", "validate_job", "validate_job_spec", "validate_template_job_spec"]


INDEXED: Final = "Indexed"
#: Labels of a Job's pods, each with its legacy and its prefixed key.
UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")

_SPEC: Final = Path("spec")
_MANY: Final = 100_000
_MANY_PARALLEL: Final = 10_000
_MANY_FAILED: Final = 10_000
_MANAGER_LENGTH: Final = 63
_AT_MOST: Final = "must be less than or equal to"
_NEEDS_INDEXED: Final = "requires indexed completion mode"
_NO_SUCH_CONTAINER: Final = "must be one of the container or initContainer names in the pod template"
_SUCCEEDED: Final = ("succeededCount", "succeededIndexes")
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
)


class Env:
    """Context of the rules of a Job's parts: the whole spec and the pod gates."""

    __slots__ = ("_spec", "completions", "gates", "per_index")

    def __init__(self, spec: Json, gates: PodGates) -> None:
        self._spec, self.gates = spec, gates
        self.per_index = spec.get("backoffLimitPerIndex") is not None
        self.completions: int = spec.get("completions") or 0

    def containers(self) -> set[str]:
        """Return the names of the template's containers and init containers."""
        pod = self._spec["template"]["spec"]
        return {each.get("name", "") for field in ("containers", "initContainers") for each in pod.get(field) or ()}


def validate_job(obj: Json, *, gates: PodGates, prefixed_labels: bool = True) -> list[FieldError]:
    """Validate a Job.

    `gates` are the pod gates. `prefixed_labels`: pods must have the prefixed labels too; very old Jobs lack them.
    """
    metadata, spec = obj["metadata"], obj["spec"]
    errors = _generated_selector(metadata, spec, prefixed_labels) + validate_job_spec(_SPEC, spec, gates)
    completions = spec.get("completions")
    if spec.get("completionMode") == INDEXED and completions is not None and completions > 0:
        hostname = f"{metadata.get('name', '')}-{completions - 1}"
        if dns_label(hostname):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            errors.append(invalid(Path("metadata.name"), metadata.get("name", ""), detail))
    return errors


def _generated_selector(metadata: Json, spec: Json, prefixed: bool) -> list[FieldError]:
    """Validate a generated selector and generated labels."""
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    expected = {UID_LABELS[0]: uid, NAME_LABELS[0]: name}
    if prefixed:
        expected |= {UID_LABELS[1]: uid, NAME_LABELS[1]: name}
    labels = spec["template"]["metadata"].get("labels") or {}
    errors: list[FieldError] = []
    for key, value in expected.items():
        at = (_SPEC / "template" / "metadata" / "labels").key(key)
        if key not in labels:
            errors.append(required(at, f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid(at, shown_labels(labels), f"must be '{value}'"))
    try:
        if not from_object(spec["selector"]).matches(expected):
            errors.append(
                invalid(_SPEC / "selector", internal(LabelSelector, spec["selector"]), "`selector` not auto-generated")
            )
    except SelectorError:
        pass
    return errors


def validate_job_spec(path: Path, spec: Json, gates: PodGates) -> list[FieldError]:
    errors = validate_template_job_spec(path, spec, gates)
    errors += validate_required_selector(path / "selector", spec.get("selector"))
    return errors + selects_template(path / "template", spec.get("selector"), spec["template"])


def validate_template_job_spec(path: Path, spec: Json, gates: PodGates) -> list[FieldError]:
    """Validate a Job, or the Job template of a CronJob, which has no selector yet."""
    return RULES.of(JobSpec).errors(path, spec, Env(spec, gates))


def _manager(at: At) -> list[FieldError]:
    path, manager = at.path / "managedBy", at.value["managedBy"]
    errors = domain_prefixed_path(path, manager)
    return [*errors, too_long(path, _MANAGER_LENGTH)] if len(manager.encode()) > _MANAGER_LENGTH else errors


def _template(at: At) -> list[FieldError]:
    return validate_template(at.path / "template", at.value["template"], gates=at.env.gates)


def _restart_policy(at: At) -> list[FieldError]:
    policy, path = at.value["template"]["spec"].get("restartPolicy", ""), at.path / "template.spec.restartPolicy"
    if policy in ("Always", ""):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, Named(policy), ("OnFailure", "Never"))]
    if at.value.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid(path, Named(policy), 'only "Never" is supported when podFailurePolicy is specified')]
    return []


_PER_INDEX: Final = ("backoffLimitPerIndex", "maxFailedIndexes")
_LARGE: Final = f"{{}} when completions are above {_MANY} and used with backoff limit per index"
#: Limits that bound the size of the index lists in the status.
_INDEXED: Final = (
    Required("completions", f"when completion mode is {INDEXED}"),
    AtMost("parallelism", _MANY, f"{_AT_MOST} {{}} when completion mode is {INDEXED}"),
    AtMost("maxFailedIndexes", "completions", f"{_AT_MOST} completions"),
    AtMost("maxFailedIndexes", _MANY, f"{_AT_MOST} {{}}"),
    If(
        (is_set("completions", "backoffLimitPerIndex"), lambda at: at.value["completions"] > _MANY),
        (
            Required("maxFailedIndexes", f"must be specified when completions is above {_MANY}"),
            AtMost("parallelism", _MANY_PARALLEL, f"{_AT_MOST} {_LARGE}"),
            AtMost("maxFailedIndexes", _MANY_FAILED, f"{_AT_MOST} {_LARGE}"),
        ),
    ),
)
_NON_INDEXED: Final = If(
    equals("completionMode", None, "NonIndexed"),
    tuple(Invalid(name, _NEEDS_INDEXED, when=is_set(name)) for name in _PER_INDEX),
)
RULES.set(
    JobSpec,
    *_COUNTS, "maxFailedIndexes",
    Required("backoffLimitPerIndex", "when maxFailedIndexes is specified", when=is_set("maxFailedIndexes")),
    ("managedBy", _manager), "completionMode",
    If(equals("completionMode", INDEXED), _INDEXED, otherwise=(_NON_INDEXED,)),
    "podFailurePolicy",
    UntilError((
        Invalid("successPolicy", _NEEDS_INDEXED, when=(is_set("successPolicy"), differs("completionMode", INDEXED))),
        "successPolicy",
    )),
    If(
        is_unset("podFailurePolicy"),
        ("podReplacementPolicy",),
        otherwise=(Enum("podReplacementPolicy", ("Failed",), when=is_set("podReplacementPolicy")),),
    ),
    _template, _restart_policy,
    by_rules=("selector", "template"),
)  # fmt: skip


# --- policies
# ----------------------------------------------------------------------------------------------------------------------


def _exit_codes(at: At) -> list[FieldError]:
    """Require ascending values without duplicates."""
    errors, path, values = at.field("values"), at.path / "values", at.value["values"]
    for here, value, is_repeated in each_unique(path, values):
        if at.value.get("operator") == "In" and value == 0:
            errors.append(invalid(here, value, "must not be 0 for the In operator"))
        if is_repeated:
            errors.append(duplicate(here, value))
    if values != sorted(values):
        errors.append(invalid(path, values, "must be ordered"))
    return errors


def _success(at: At) -> list[FieldError]:
    """Validate the indexes of a rule, and a count that these or all indexes can reach."""
    count, indexes, completions = at.value.get("succeededCount"), at.value.get("succeededIndexes"), at.env.completions
    errors: list[FieldError] = []
    total = 0
    if indexes is not None:
        errors += at.field("succeededIndexes")
        try:
            total = count_indexes(indexes, completions)
        except IndexesError as error:
            errors.append(invalid(at.path / "succeededIndexes", indexes, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        path = at.path / "succeededCount"
        errors += at.field("succeededCount")
        if count > completions:
            errors.append(
                invalid(
                    path, count, f"must be less than or equal to {completions} (the number of specified completions)"
                )
            )
        if indexes is not None and count > total:
            detail = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            errors.append(invalid(path, count, detail))
    return errors


RULES.set(
    PodFailurePolicyOnExitCodesRequirement,
    "operator",
    Reference("containerName", lambda at: at.env.containers(), _NO_SUCH_CONTAINER),
    Invalid("values", "at least one value is required", when=is_unset("values")),
    ("values", _exit_codes),
)
RULES.set(
    SuccessPolicyRule,
    Union(_SUCCEEDED, none=Required("", "at least one of succeededCount or succeededIndexes must be specified")),
    (*_SUCCEEDED, _success),
)
