"""StatefulSets of apps/v1."""

from __future__ import annotations

from typing import ClassVar, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.markers import If, Invalid, Required, UntilError, differs, equals, is_set, is_unset
from apiserver.api.types.apps import (
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    StatefulSetUpdateStrategy,
)
from apiserver.api.validation.compile import At
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.apps.defaults import default_stateful_set, stateful_set_to_hub
from apiserver.resources.apps.rules import (
    COLLISIONS,
    Env,
    always_runs,
    are_zero,
    at_most_100_percent,
    has_usable_selector,
    nonempty_selector,
)
from apiserver.resources.apps.strategy import WorkloadStrategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.scales import SCALE
from apiserver.resources.common.template_metadata import validate_annotations, validate_labels
from apiserver.resources.common.volume_claim_spec import validate_claim_spec
from apiserver.resources.common.workloads import counted, selects_template, status_errors, template_columns
from apiserver.resources.pods.gates import PodGates, pod_gates
from apiserver.resources.pods.template import validate_template
from apiserver.resources.pods.validation import validate_pod_annotations
from apiserver.resources.volumes.warnings import fractional_storage

__all__ = ["STATEFUL_SETS"]


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
_FOREVER: Final = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)


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
        """Validate an update. An invalid stored template is not validated again."""
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
        return status_errors(StatefulSetStatus, obj, old)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return super().warnings_on_create(ctx, obj) + _warnings(obj["spec"], "")

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return super().warnings_on_update(ctx, obj, old) + _warnings(obj["spec"], "Spec")


def _default_max_unavailable(ctx: Context, obj: Json) -> None:
    """Set the default of maxUnavailable if its gate is enabled."""
    strategy = obj["spec"]["updateStrategy"]
    rolling = strategy.get("rollingUpdate")
    rolls = rolling is not None and strategy.get("type") == "RollingUpdate"
    if rolls and ctx.features.enabled("MaxUnavailableStatefulSet"):
        rolling.setdefault("maxUnavailable", 1)


def _warnings(spec: Json, below: str) -> list[str]:
    """Return the warnings. `below` is the additional path step of upstream's claim paths on update."""
    warnings: list[str] = []
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        at = (_SPEC / "volumeClaimTemplates")[index]
        warnings += fractional_storage(at / below if below else at, claim["spec"])
    return warnings + ([_FOREVER] if spec.get("revisionHistoryLimit", 0) < 0 else [])


# --- the spec
# ----------------------------------------------------------------------------------------------------------------------


def _spec_errors(spec: Json, creation: Context | None, *, template: bool = True, gates: PodGates) -> list[FieldError]:
    """Validate a spec.

    Immutable fields are validated only for the create request `creation`. `template`: validate the whole template;
    `gates` are the pod gates.
    """
    return RULES.of(StatefulSetSpec).errors(_SPEC, spec, Env(gates, creation=creation, whole=template))


def _claims(at: At) -> list[FieldError]:
    attributes, path = at.env.creation.features.enabled("VolumeAttributesClass"), at.path / "volumeClaimTemplates"
    return [
        error
        for index, claim in enumerate(at.value.get("volumeClaimTemplates") or ())
        for error in validate_claim_spec(path[index] / "spec", claim["spec"], attributes_class=attributes)
    ]


def _template(at: At) -> list[FieldError]:
    path, selector, template = at.path / "template", at.value.get("selector"), _made_template(at.value)
    metadata = template["metadata"]
    errors = selects_template(path, selector, template)
    if at.env.whole:
        errors += validate_template(path, template, gates=at.env.gates)
    annotations = metadata.get("annotations") or {}
    errors += validate_labels(metadata.get("labels") or {}, path / "labels")
    errors += validate_annotations(annotations, path / "annotations")
    return errors + validate_pod_annotations(annotations, template["spec"], path / "annotations")


def _made_template(spec: Json) -> Json:
    """Return the template as pods get it: with a volume per claim, and without the names that the set assigns."""
    pod = {name: value for name, value in spec["template"]["spec"].items() if name not in ("subdomain", "hostname")}
    claims = spec.get("volumeClaimTemplates") or ()
    if claims:
        names = list(dict.fromkeys(claim["metadata"].get("name", "") for claim in claims))
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        pod["volumes"] = volumes + [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    return {**spec["template"], "spec": pod}


def _is_created(at: At) -> bool:
    return at.env.creation is not None


RULES.set(
    StatefulSetStatus, "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas",
    "observedGeneration", "collisionCount",
    *counted(
        "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", ready="status.readyReplicas"
    ),
    COLLISIONS,
)  # fmt: skip
RULES.set(
    RollingUpdateStatefulSetStrategy, "partition", "maxUnavailable",
    If(
        is_set("maxUnavailable"),
        (
            Invalid("maxUnavailable", "cannot be 0", when=lambda at: are_zero(at, "maxUnavailable")),
            at_most_100_percent("maxUnavailable"),
        ),
    ),
)  # fmt: skip
RULES.set(
    StatefulSetUpdateStrategy,
    UntilError((
        Required("", when=is_unset("type")),
        Invalid("", "must be 'RollingUpdate' or 'OnDelete'", when=differs("type", "RollingUpdate", "OnDelete")),
        Invalid(
            "rollingUpdate", "only allowed for updateStrategy 'RollingUpdate'",
            when=(equals("type", "OnDelete"), is_set("rollingUpdate")),
        ),
        "rollingUpdate",
    )),
    by_rules=("type",),
)  # fmt: skip
RULES.set(
    StatefulSetSpec,
    Required("podManagementPolicy"),
    Invalid(
        "podManagementPolicy", "must be 'OrderedReady' or 'Parallel'",
        when=(is_set("podManagementPolicy"), differs("podManagementPolicy", "OrderedReady", "Parallel")),
    ),
    "updateStrategy", "persistentVolumeClaimRetentionPolicy",
    # Immutable fields are only validated on create.
    If(_is_created, (_claims,)),
    "replicas", "minReadySeconds", "ordinals",
    If(_is_created, ("serviceName",)),
    "selector", nonempty_selector("statefulset"),
    If(has_usable_selector, (_template,), otherwise=(Invalid("selector", ""),)),
    *always_runs("StatefulSet"),
    by_rules=("template", "volumeClaimTemplates"),
)  # fmt: skip


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
        Column(name="Ready", cell=_ready, description="Ready pods of the desired number."),
        AGE,
        *template_columns(lambda obj: obj["spec"]["template"], None),
    ),
    subresources=(SCALE, Subresource(name="status")),
)
