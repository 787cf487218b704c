"""Deployments and ReplicaSets of apps/v1."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, not_supported, required
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
from apiserver.resources.apps.rules import (
    at_most_100_percent,
    collisions_only_grow,
    number,
    selector_and_template,
    shown_number,
)
from apiserver.resources.apps.strategy import WorkloadStrategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.scales import SCALE
from apiserver.resources.common.workloads import counts, hostname_warnings, nonnegative, template_columns
from apiserver.resources.pods.gates import PodGates, pod_gates

__all__ = ["DEPLOYMENTS", "REPLICA_SETS"]

Json = dict[str, Any]

_SPEC: Final = Path("spec")
_STRATEGIES: Final = ("Recreate", "RollingUpdate")
RULES.set(
    DeploymentStatus, "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
    "unavailableReplicas", "terminatingReplicas", "collisionCount",
)  # fmt: skip
RULES.set(
    ReplicaSetStatus, "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
    "terminatingReplicas",
)  # fmt: skip
RULES.set(
    DeploymentSpec,
    by_rules=(
        "replicas", "selector", "template", "strategy", "minReadySeconds", "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ),
)  # fmt: skip
RULES.set(ReplicaSetSpec, by_rules=("replicas", "selector", "template", "minReadySeconds"))


class _ReplicasStrategy(WorkloadStrategy):
    fixed: ClassVar[Changes]

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return hostname_warnings(obj) + super().warnings_on_create(ctx, obj)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        gates = pod_gates(ctx, old["spec"]["template"]["spec"])
        return self._errors(obj, gates) + self.fixed.errors(_SPEC, obj["spec"], old["spec"])

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return self._errors(obj, pod_gates(ctx, None))

    def _errors(self, obj: Json, gates: PodGates) -> list[FieldError]:
        """What is wrong with the spec; `gates`: what they say of pods."""
        raise NotImplementedError


class DeploymentStrategyRules(_ReplicasStrategy):
    status_reset_fields = ("spec", "metadata.labels")
    spec_type = DeploymentSpec
    fixed = changes(DeploymentSpec)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        """Annotations are copied to ReplicaSets, so that they make a new generation, too."""
        super().prepare_for_update(ctx, obj, old)
        if (obj["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        super().prepare_for_status_update(ctx, obj, old)
        obj["metadata"].pop("labels", None)
        if "labels" in old["metadata"]:
            obj["metadata"]["labels"] = old["metadata"]["labels"]

    def _errors(self, obj: Json, gates: PodGates) -> list[FieldError]:
        spec = obj["spec"]
        here = RULES.of(DeploymentSpec).at(_SPEC, spec)
        errors = here.field("replicas") + selector_and_template(_SPEC, spec, gates)
        errors += _strategy(_SPEC / "strategy", spec["strategy"])
        errors += here.fields("minReadySeconds", "revisionHistoryLimit")
        if revision := (obj["metadata"].get("annotations") or {}).get(ROLLBACK):
            errors += nonnegative(_SPEC / "rollback" / "version", int(revision))
        deadline, at = spec.get("progressDeadlineSeconds"), _SPEC / "progressDeadlineSeconds"
        errors += here.field("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            errors.append(invalid(at, deadline, "must be greater than minReadySeconds"))
        return errors

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        status = obj.get("status") or {}
        errors = counts(DeploymentStatus, status, ("updatedReplicas", "readyReplicas", "availableReplicas"))
        return errors + collisions_only_grow(status, old.get("status") or {})


def _strategy(path: Path, strategy: Json) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        return (
            []
            if rolling is None
            else [forbidden(path / "rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")]
        )
    if kind != "RollingUpdate":
        return [not_supported(path, internal(DeploymentStrategy, strategy), _STRATEGIES)]
    at = path / "rollingUpdate"
    if rolling is None:
        return [required(at, "this should be defaulted and never be nil")]
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = RULES.of(RollingUpdateDeployment).errors(at, rolling)
    if not number(unavailable) and not number(surge):
        errors.append(invalid(at / "maxUnavailable", shown_number(unavailable), "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_100_percent(at / "maxUnavailable", unavailable)


class ReplicaSetStrategy(_ReplicasStrategy):
    spec_type = ReplicaSetSpec
    fixed = changes(ReplicaSetSpec)
    new_status: ClassVar[Json] = {"replicas": 0}

    def _errors(self, obj: Json, gates: PodGates) -> list[FieldError]:
        here = RULES.of(ReplicaSetSpec).at(_SPEC, obj["spec"])
        return here.fields("replicas", "minReadySeconds") + selector_and_template(_SPEC, obj["spec"], gates)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return counts(
            ReplicaSetStatus, obj.get("status") or {}, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        )


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
    Column(name="Ready", cell=_ready, description="Ready pods, of those that there are to be."),
    Column(name="Up-to-date", cell=_status("updatedReplicas"), description="Pods of the present template."),
    Column(
        name="Available", cell=_status("availableReplicas"), description="Pods that have been ready for long enough."
    ),
    AGE,
    *_WIDE[:2],
    Column(name="Selector", cell=_selector, priority=1, description="Labels of the pods that belong to the object."),
)
_REPLICA_SET_COLUMNS: Final = (
    NAME,
    Column(
        name="Desired",
        cell=lambda obj: obj["spec"].get("replicas") or 0,
        type="integer",
        description="Pods that there are to be.",
    ),
    Column(name="Current", cell=_status("replicas"), type="integer", description="Pods that there are."),
    Column(name="Ready", cell=_status("readyReplicas"), type="integer", description="Pods that are ready."),
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
