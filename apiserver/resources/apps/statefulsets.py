"""StatefulSets of apps/v1."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, required
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.api.types.apps import (
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    StatefulSetUpdateStrategy,
)
from apiserver.api.types.meta import LabelSelector
from apiserver.api.validation.internal_values import internal
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.apps.defaults import default_stateful_set, stateful_set_to_hub
from apiserver.resources.apps.rules import (
    always_runs,
    at_most_100_percent,
    collisions_only_grow,
    is_empty,
    number,
    shown_number,
)
from apiserver.resources.apps.strategy import WorkloadStrategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.scales import SCALE
from apiserver.resources.common.template_metadata import validate_annotations, validate_labels
from apiserver.resources.common.volume_claim_spec import validate_claim_spec
from apiserver.resources.common.workloads import (
    counts,
    selects_template,
    template_columns,
    validate_required_selector,
)
from apiserver.resources.pods.gates import PodGates, pod_gates
from apiserver.resources.pods.template import validate_template
from apiserver.resources.pods.validation import validate_pod_annotations
from apiserver.resources.volumes.warnings import fractional_storage

__all__ = ["STATEFUL_SETS"]

Json = dict[str, Any]

_SPEC: Final = Path("spec")
_MUTABLE: Final = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)
_FIXED: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    " 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_PARTS: Final = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_FOREVER: Final = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)


RULES.set(
    StatefulSetStatus,
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
)
RULES.set(
    StatefulSetSpec,
    by_rules=(
        "replicas", "selector", "template", "volumeClaimTemplates", "serviceName", "podManagementPolicy",
        "updateStrategy", "minReadySeconds", "persistentVolumeClaimRetentionPolicy", "ordinals",
    ),
)  # fmt: skip


class StatefulSetStrategy(WorkloadStrategy):
    name_rule = "label"
    spec_type = StatefulSetSpec
    new_status: ClassVar[Json] = {"replicas": 0, "availableReplicas": 0}

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        _default_max_unavailable(ctx, obj)
        super().prepare_for_create(ctx, obj)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        _default_max_unavailable(ctx, obj)
        super().prepare_for_update(ctx, obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _spec_errors(obj["spec"], ctx, gates=pod_gates(ctx, None))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        """A template that is stored although it is wrong is not looked at again."""
        spec, before = obj["spec"], old["spec"]
        gates = pod_gates(ctx, before["template"]["spec"])
        wrong = bool(_spec_errors(before, None, gates=gates))
        errors = _spec_errors(spec, None, template=not wrong, gates=gates)
        kept = {name: value for name, value in spec.items() if name not in _MUTABLE} | {
            name: before[name] for name in _MUTABLE if name in before
        }
        if not semantic_equal(StatefulSetSpec, kept, before):
            errors.append(forbidden(_SPEC, _FIXED))
        return errors

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        status = obj.get("status") or {}
        return counts(StatefulSetStatus, status, _PARTS, ready="status.readyReplicas") + collisions_only_grow(
            status, old.get("status") or {}
        )

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return super().warnings_on_create(ctx, obj) + _warnings(obj["spec"], "")

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return super().warnings_on_update(ctx, obj, old) + _warnings(obj["spec"], "Spec")


def _default_max_unavailable(ctx: Context, obj: Json) -> None:
    """A field that has its default with its gate alone."""
    strategy = obj["spec"]["updateStrategy"]
    rolling = strategy.get("rollingUpdate")
    rolls = rolling is not None and strategy.get("type") == "RollingUpdate"
    if rolls and ctx.features.enabled("MaxUnavailableStatefulSet"):
        rolling.setdefault("maxUnavailable", 1)


def _warnings(spec: Json, below: str) -> list[str]:
    """`below`: the step that upstream's paths of claims have on update alone."""
    warnings: list[str] = []
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        at = (_SPEC / "volumeClaimTemplates")[index]
        warnings += fractional_storage(at / below if below else at, claim["spec"])
    return warnings + ([_FOREVER] if spec.get("revisionHistoryLimit", 0) < 0 else [])


# --- the spec
# ----------------------------------------------------------------------------------------------------------------------


def _spec_errors(spec: Json, creation: Context | None, *, template: bool = True, gates: PodGates) -> list[FieldError]:
    """What cannot change is only looked at when it is made, by the request `creation`. `template`: the whole template
    is looked at; `gates`: what they say of pods.
    """
    errors = _management(spec) + _update_strategy(_SPEC / "updateStrategy", spec["updateStrategy"])
    here = RULES.of(StatefulSetSpec).at(_SPEC, spec)
    errors += here.field("persistentVolumeClaimRetentionPolicy")
    if creation is not None:
        attributes = creation.features.enabled("VolumeAttributesClass")
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            errors += validate_claim_spec(
                (_SPEC / "volumeClaimTemplates")[index] / "spec", claim["spec"], attributes_class=attributes
            )
    errors += here.fields("replicas", "minReadySeconds", "ordinals")
    if creation is not None:
        errors += here.field("serviceName")
    return errors + _selector(spec, template, gates) + always_runs(_SPEC / "template", spec["template"], "StatefulSet")


def _management(spec: Json) -> list[FieldError]:
    policy, path = spec.get("podManagementPolicy", ""), _SPEC / "podManagementPolicy"
    if not policy:
        return [required(path)]
    return (
        []
        if policy in ("OrderedReady", "Parallel")
        else [invalid(path, Named(policy), "must be 'OrderedReady' or 'Parallel'")]
    )


def _update_strategy(path: Path, strategy: Json) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if not kind:
        return [required(path)]
    if kind not in ("RollingUpdate", "OnDelete"):
        return [invalid(path, internal(StatefulSetUpdateStrategy, strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    at = path / "rollingUpdate"
    if kind == "OnDelete":
        return [
            invalid(
                at,
                internal(RollingUpdateStatefulSetStrategy, rolling),
                "only allowed for updateStrategy 'RollingUpdate'",
            )
        ]
    errors, most = RULES.of(RollingUpdateStatefulSetStrategy).errors(at, rolling), rolling.get("maxUnavailable")
    if most is not None:
        at /= "maxUnavailable"
        if not number(most):
            errors.append(invalid(at, shown_number(most), "cannot be 0"))
        errors += at_most_100_percent(at, most)
    return errors


def _selector(spec: Json, whole: bool, gates: PodGates) -> list[FieldError]:
    selector, path, at = spec.get("selector"), _SPEC / "selector", _SPEC / "template"
    errors = validate_required_selector(path, selector)
    if selector is not None and is_empty(selector):
        errors.append(invalid(path, internal(LabelSelector, selector), "empty selector is invalid for statefulset"))
    try:
        from_object(selector)
    except SelectorError:
        return [*errors, invalid(path, internal(LabelSelector, selector), "")]
    template = _made_template(spec)
    metadata = template["metadata"]
    errors += selects_template(at, selector, template)
    if whole:
        errors += validate_template(at, template, gates=gates)
    annotations = metadata.get("annotations") or {}
    errors += validate_labels(metadata.get("labels") or {}, at / "labels") + validate_annotations(
        annotations, at / "annotations"
    )
    return errors + validate_pod_annotations(annotations, template["spec"], at / "annotations")


def _made_template(spec: Json) -> Json:
    """The template as pods are made of it: with a volume for each claim, and names that are the set's to give."""
    pod = {name: value for name, value in spec["template"]["spec"].items() if name not in ("subdomain", "hostname")}
    claims = spec.get("volumeClaimTemplates") or ()
    if claims:
        names = list(dict.fromkeys(claim["metadata"].get("name", "") for claim in claims))
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        pod["volumes"] = volumes + [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    return {**spec["template"], "spec": pod}


def _ready(obj: Json) -> str:
    return f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas') or 0}"


STATEFUL_SETS: Final = Resource(
    group="apps",
    kind="StatefulSet",
    plural="statefulsets",
    singular="statefulset",
    namespaced=True,
    short_names=("sts",),
    categories=("all",),
    versions=(Version(name="v1", schema=StatefulSet, default=default_stateful_set, to_hub=stateful_set_to_hub),),
    strategy=StatefulSetStrategy(),
    storage_prefix="statefulsets",
    columns=(
        NAME,
        Column(name="Ready", cell=_ready, description="Ready pods, of those that there are to be."),
        AGE,
        *template_columns(lambda obj: obj["spec"]["template"], None),
    ),
    subresources=(SCALE, Subresource(name="status")),
)
