"""The spec of a job (pkg/apis/batch/validation, ValidateJob and validateJobSpec)."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import (
    OMITTED,
    FieldError,
    Named,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from apiserver.api.schema.language import Struct
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.api.types.batch import (
    JobSpec,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from apiserver.api.types.meta import LabelSelector
from apiserver.api.validation.compile import most_items
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.names import dns_label, domain_prefixed_path
from apiserver.resources.batch.indexes import IndexesError, count_indexes
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.workloads import selects_template, shown_labels, validate_required_selector
from apiserver.resources.pods.gates import PodGates
from apiserver.resources.pods.template import validate_template

__all__ = ["INDEXED", "NAME_LABELS", "UID_LABELS", "validate_job", "validate_job_spec", "validate_template_job_spec"]

Json = dict[str, Any]

INDEXED: Final = "Indexed"
#: Labels of a job's pods, each under its older and its present key.
UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")

_SPEC: Final = Path("spec")
_MANY: Final = 100_000
_MANY_PARALLEL: Final = 10_000
_MANY_FAILED: Final = 10_000
_MANAGER_LENGTH: Final = 63
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
)


RULES.set(
    JobSpec,
    by_rules=(
        *_COUNTS, "maxFailedIndexes", "podFailurePolicy", "successPolicy", "selector", "template", "completionMode",
        "podReplacementPolicy",
    ),
)  # fmt: skip
RULES.set(PodFailurePolicyRule, by_rules=("action", "onExitCodes", "onPodConditions"))
RULES.set(PodFailurePolicyOnExitCodesRequirement, by_rules=("operator", "values"))
RULES.set(SuccessPolicyRule, by_rules=("succeededIndexes", "succeededCount"))


def validate_job(obj: Json, *, gates: PodGates, prefixed_labels: bool = True) -> list[FieldError]:
    """`gates`: what they say of pods; `prefixed_labels`: pods must have the labels with a prefix,
    too; jobs of long ago do not.
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
    """Selector and labels that were made for the job and not by its author."""
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
    """What holds for the job of a CronJob as well, which has no selector yet."""
    here = RULES.of(JobSpec).at(path, spec)
    errors = here.fields(*_COUNTS, "maxFailedIndexes")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required(path / "backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    manager = spec.get("managedBy")
    if manager is not None:
        errors += domain_prefixed_path(path / "managedBy", manager)
        if len(manager.encode()) > _MANAGER_LENGTH:
            errors.append(too_long(path / "managedBy", _MANAGER_LENGTH))
    errors += here.field("completionMode") + _completion_mode(path, spec)
    if spec.get("podFailurePolicy") is not None:
        errors += _failure_policy(path / "podFailurePolicy" / "rules", spec)
    if spec.get("successPolicy") is not None:
        if spec.get("completionMode") != INDEXED:
            shown = internal(JobSpec.fields["successPolicy"].type, spec["successPolicy"])
            errors.append(invalid(path / "successPolicy", shown, "requires indexed completion mode"))
        else:
            errors += _success_policy(path / "successPolicy", spec)
    errors += _replacement_policy(path / "podReplacementPolicy", spec)
    errors += validate_template(path / "template", spec["template"], gates=gates)
    return errors + _restart_policy(path / "template" / "spec" / "restartPolicy", spec)


def _completion_mode(path: Path, spec: Json) -> list[FieldError]:
    mode = spec.get("completionMode")
    if mode == INDEXED:
        return _indexed(path, spec)
    if mode not in (None, "NonIndexed"):
        return []
    return [
        invalid(path / field, spec[field], "requires indexed completion mode")
        for field in ("backoffLimitPerIndex", "maxFailedIndexes") if spec.get(field) is not None
    ]  # fmt: skip


def _indexed(path: Path, spec: Json) -> list[FieldError]:
    """Limits that keep the lists of indexes in the status short."""
    completions, parallelism, failed = spec.get("completions"), spec.get("parallelism"), spec.get("maxFailedIndexes")
    errors: list[FieldError] = []
    if completions is None:
        errors.append(required(path / "completions", f"when completion mode is {INDEXED}"))
    if parallelism is not None and parallelism > _MANY:
        errors.append(
            invalid(
                path / "parallelism",
                parallelism,
                f"must be less than or equal to {_MANY} when completion mode is {INDEXED}",
            )
        )
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid(path / "maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MANY:
        errors.append(invalid(path / "maxFailedIndexes", failed, f"must be less than or equal to {_MANY}"))
    if completions is None or completions <= _MANY or spec.get("backoffLimitPerIndex") is None:
        return errors
    if failed is None:
        errors.append(required(path / "maxFailedIndexes", f"must be specified when completions is above {_MANY}"))
    for field, value, limit in (
        ("parallelism", parallelism, _MANY_PARALLEL),
        ("maxFailedIndexes", failed, _MANY_FAILED),
    ):
        if value is not None and value > limit:
            detail = (
                f"must be less than or equal to {limit} when completions are above {_MANY} and used with backoff limit"
                " per index"
            )
            errors.append(invalid(path / field, value, detail))
    return errors


def _restart_policy(path: Path, spec: Json) -> list[FieldError]:
    policy = spec["template"]["spec"].get("restartPolicy", "")
    if policy in ("Always", ""):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, Named(policy), ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid(path, Named(policy), 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _replacement_policy(path: Path, spec: Json) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    supported = ("Failed", "TerminatingOrFailed") if spec.get("podFailurePolicy") is None else ("Failed",)
    return [] if policy is None or policy in supported else [not_supported(path, Named(policy), supported)]


# --- the pod failure policy
# ------------------------------------------------------------------------------------------------------------------


def _too_many(path: Path, struct: Struct, name: str, items: list[Any]) -> list[FieldError]:
    """(Of too long a list the items are looked at as well.)"""
    most = most_items(struct, name)
    return [too_many(path, len(items), most)] if len(items) > most else []


def _failure_policy(path: Path, spec: Json) -> list[FieldError]:
    rules, pod = spec["podFailurePolicy"].get("rules") or [], spec["template"]["spec"]
    errors = _too_many(path, PodFailurePolicy, "rules", rules)
    names = {
        container.get("name", "") for field in ("containers", "initContainers") for container in pod.get(field) or ()
    }
    for index, rule in enumerate(rules):
        errors += _failure_rule(path[index], rule, spec, names)
    return errors


def _failure_rule(path: Path, rule: Json, spec: Json, names: set[str]) -> list[FieldError]:
    action, codes, patterns = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions") or []
    errors = RULES.of(PodFailurePolicyRule).at(path, rule).field("action")
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        errors.append(invalid(path / "action", Named(action), "requires the backoffLimitPerIndex to be set"))
    if codes is not None:
        errors += _exit_codes(path / "onExitCodes", codes, names)
    if patterns:
        errors += _pod_conditions(path / "onPodConditions", patterns)
    if codes is not None and patterns:
        errors.append(invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not patterns:
        errors.append(invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _pod_conditions(path: Path, patterns: list[Json]) -> list[FieldError]:
    errors = _too_many(path, PodFailurePolicyRule, "onPodConditions", patterns)
    checks = RULES.of(PodFailurePolicyOnPodConditionsPattern)
    return errors + [error for index, pattern in enumerate(patterns) for error in checks.errors(path[index], pattern)]


def _exit_codes(path: Path, requirement: Json, names: set[str]) -> list[FieldError]:
    operator, container, values = (
        requirement.get("operator", ""),
        requirement.get("containerName"),
        requirement.get("values") or [],
    )
    errors = RULES.of(PodFailurePolicyOnExitCodesRequirement).at(path, requirement).field("operator")
    if container is not None and container not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(path / "containerName", container, detail))
    at = path / "values"
    if not values:
        errors.append(invalid(at, requirement.get("values"), "at least one value is required"))
    errors += _too_many(at, PodFailurePolicyOnExitCodesRequirement, "values", values)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(at[index], value, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(duplicate(at[index], value))
        seen.add(value)
    if values != sorted(values):
        errors.append(invalid(at, values, "must be ordered"))
    return errors


# --- the success policy
# ----------------------------------------------------------------------------------------------------------------------


def _success_policy(policy: Path, spec: Json) -> list[FieldError]:
    rules, path = spec["successPolicy"].get("rules") or [], policy / "rules"
    if not rules:
        return RULES.of(SuccessPolicy).at(policy, spec["successPolicy"]).field("rules")
    errors = _too_many(path, SuccessPolicy, "rules", rules)
    for index, rule in enumerate(rules):
        errors += _success_rule(path[index], rule, spec.get("completions") or 0)
    return errors


def _success_rule(path: Path, rule: Json, completions: int) -> list[FieldError]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    here = RULES.of(SuccessPolicyRule).at(path, rule)
    errors: list[FieldError] = []
    if count is None and indexes is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    total = 0
    if indexes is not None:
        at = path / "succeededIndexes"
        errors += here.field("succeededIndexes")
        try:
            total = count_indexes(indexes, completions)
        except IndexesError as error:
            errors.append(invalid(at, indexes, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        at = path / "succeededCount"
        errors += here.field("succeededCount")
        if count > completions:
            errors.append(
                invalid(at, count, f"must be less than or equal to {completions} (the number of specified completions)")
            )
        if indexes is not None and count > total:
            detail = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            errors.append(invalid(at, count, detail))
    return errors
