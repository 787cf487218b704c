"""Deployments and ReplicaSets of apps/v1."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from apiserver.api.errors.field_errors import FieldError, Path, not_supported
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.api.schema.markers import Forbidden, If, Invalid, Required, UntilError, equals, is_set
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.api.types.apps import (
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from apiserver.api.validation.changes import Changes, changes
from apiserver.api.validation.compile import At
from apiserver.api.validation.internal_values import internal
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.apps.defaults import (
    ROLLBACK,
    default_deployment,
    default_replica_set,
    deployment_to_hub,
    replica_set_to_hub,
)
from apiserver.resources.apps.rules import COLLISIONS, SELECTOR_AND_TEMPLATE, Env, are_zero, at_most_100_percent
from apiserver.resources.apps.strategy import WorkloadStrategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.scales import SCALE
from apiserver.resources.common.workloads import (
    counted,
    hostname_warnings,
    nonnegative,
    status_errors,
    template_columns,
)
from apiserver.resources.pods.gates import PodGates, pod_gates

__all__ = ["DEPLOYMENTS", "REPLICA_SETS"]


_SPEC: Final = Path("spec")
_STRATEGIES: Final = ("Recreate", "RollingUpdate")


def _unsupported(at: At) -> list[FieldError]:
    """Reject an unknown strategy type. The error is about the whole strategy, as upstream's is."""
    if at.value.get("type", "") in _STRATEGIES:
        return []
    return [not_supported(at.path, internal(DeploymentStrategy, at.value), _STRATEGIES)]


def _rollback(at: At) -> list[FieldError]:
    revision = (at.env.metadata.get("annotations") or {}).get(ROLLBACK)
    return nonnegative(at.path / "rollback" / "version", int(revision)) if revision else []


RULES.set(
    DeploymentStatus, "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
    "unavailableReplicas", "terminatingReplicas", "collisionCount",
    *counted("updatedReplicas", "readyReplicas", "availableReplicas"), COLLISIONS,
)  # fmt: skip
RULES.set(
    ReplicaSetStatus, "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
    "terminatingReplicas", *counted("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
)  # fmt: skip
RULES.set(
    RollingUpdateDeployment, "maxUnavailable", "maxSurge",
    Invalid(
        "maxUnavailable", "may not be 0 when `maxSurge` is 0",
        when=lambda at: are_zero(at, "maxUnavailable", "maxSurge"),
    ),
    at_most_100_percent("maxUnavailable"),
)  # fmt: skip
RULES.set(
    DeploymentStrategy,
    UntilError((
        _unsupported,
        If(
            equals("type", "Recreate"),
            (Forbidden("rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"),),
            otherwise=(Required("rollingUpdate", "this should be defaulted and never be nil"), "rollingUpdate"),
        ),
    )),
    by_rules=("type",),
)  # fmt: skip
RULES.set(
    DeploymentSpec, "replicas", *SELECTOR_AND_TEMPLATE, "strategy", "minReadySeconds", "revisionHistoryLimit",
    _rollback, "progressDeadlineSeconds",
    Invalid(
        "progressDeadlineSeconds", "must be greater than minReadySeconds",
        when=(
            is_set("progressDeadlineSeconds"),
            lambda at: at.value["progressDeadlineSeconds"] <= at.value.get("minReadySeconds", 0),
        ),
    ),
    by_rules=("template",),
)  # fmt: skip
RULES.set(ReplicaSetSpec, "replicas", "minReadySeconds", *SELECTOR_AND_TEMPLATE, by_rules=("template",))


class _ReplicasStrategy(WorkloadStrategy):
    fixed: ClassVar[Changes]
    status_type: ClassVar[Struct]

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return hostname_warnings(obj) + super().warnings_on_create(ctx, obj)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        gates = pod_gates(ctx, old["spec"]["template"]["spec"])
        return self._errors(obj, gates) + self.fixed.errors(_SPEC, obj["spec"], old["spec"])

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return self._errors(obj, pod_gates(ctx, None))

    def _errors(self, obj: Json, gates: PodGates) -> list[FieldError]:
        return RULES.of(self.spec_type).errors(_SPEC, obj["spec"], Env(gates, obj["metadata"]))

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return status_errors(self.status_type, obj, old)


class DeploymentStrategyRules(_ReplicasStrategy):
    status_reset_fields = ("spec", "metadata.labels")
    spec_type = DeploymentSpec
    status_type = DeploymentStatus
    fixed = changes(DeploymentSpec)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        """Increase the generation for changed annotations too, because they are copied to ReplicaSets."""
        super().prepare_for_update(ctx, obj, old)
        if (obj["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        super().prepare_for_status_update(ctx, obj, old)
        obj["metadata"].pop("labels", None)
        if "labels" in old["metadata"]:
            obj["metadata"]["labels"] = old["metadata"]["labels"]


class ReplicaSetStrategy(_ReplicasStrategy):
    spec_type = ReplicaSetSpec
    status_type = ReplicaSetStatus
    fixed = changes(ReplicaSetSpec)
    new_status: ClassVar[Json] = {"replicas": 0}


# --- columns
# ----------------------------------------------------------------------------------------------------------------------


def _status(field: str) -> Any:
    return lambda obj: (obj.get("status") or {}).get(field, 0)


def _selector(obj: Json) -> str:
    try:
        return str(from_object(obj["spec"].get("selector")))
    except SelectorError:
        return "<invalid>"


def _ready(obj: Json) -> str:
    return f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas') or 0}"


_WIDE: Final = template_columns(lambda obj: obj["spec"]["template"], lambda obj: obj["spec"].get("selector"))
_DEPLOYMENT_COLUMNS: Final = (
    NAME,
    Column(name="Ready", cell=_ready, description="Ready pods of the desired number."),
    Column(name="Up-to-date", cell=_status("updatedReplicas"), description="Pods of the current template."),
    Column(
        name="Available",
        cell=_status("availableReplicas"),
        description="Pods that have been ready for minReadySeconds.",
    ),
    AGE,
    *_WIDE[:2],
    Column(name="Selector", cell=_selector, priority=1, description="Selector of the pods."),
)
_REPLICA_SET_COLUMNS: Final = (
    NAME,
    Column(
        name="Desired",
        cell=lambda obj: obj["spec"].get("replicas") or 0,
        type="integer",
        description="Desired number of pods.",
    ),
    Column(name="Current", cell=_status("replicas"), type="integer", description="Current number of pods."),
    Column(name="Ready", cell=_status("readyReplicas"), type="integer", description="Number of ready pods."),
    AGE,
    *_WIDE,
)

DEPLOYMENTS: Final = Resource(
    group="apps",
    kind="Deployment",
    plural="deployments",
    singular="deployment",
    namespaced=True,
    short_names=("deploy",),
    categories=("all",),
    versions=(Version(name="v1", schema=Deployment, default=default_deployment, to_hub=deployment_to_hub),),
    strategy=DeploymentStrategyRules(),
    storage_prefix="deployments",
    columns=_DEPLOYMENT_COLUMNS,
    subresources=(SCALE, Subresource(name="status")),
)
REPLICA_SETS: Final = Resource(
    group="apps",
    kind="ReplicaSet",
    plural="replicasets",
    singular="replicaset",
    namespaced=True,
    short_names=("rs",),
    categories=("all",),
    versions=(Version(name="v1", schema=ReplicaSet, default=default_replica_set, to_hub=replica_set_to_hub),),
    strategy=ReplicaSetStrategy(),
    storage_prefix="replicasets",
    columns=_REPLICA_SET_COLUMNS,
    subresources=(SCALE, Subresource(name="status")),
)
