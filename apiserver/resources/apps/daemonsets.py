"""DaemonSets of apps/v1."""

from __future__ import annotations

from typing import ClassVar, Final

from apiserver.api.errors.field_errors import FieldError, Path, not_supported
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.markers import If, Invalid, Required, UntilError, equals
from apiserver.api.types.apps import (
    DaemonSet,
    DaemonSetSpec,
    DaemonSetStatus,
    DaemonSetUpdateStrategy,
    RollingUpdateDaemonSet,
)
from apiserver.api.types.core.pods import PodTemplateSpec
from apiserver.api.validation.changes import changes
from apiserver.api.validation.compile import At
from apiserver.api.validation.internal_values import internal
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.apps.defaults import daemon_set_from_hub, daemon_set_to_hub, default_daemon_set
from apiserver.resources.apps.rules import (
    COLLISIONS,
    Env,
    always_runs,
    are_zero,
    at_most_100_percent,
    nonempty_selector,
    selected_template,
    template,
)
from apiserver.resources.apps.strategy import TEMPLATE, WorkloadStrategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.workloads import nonnegative, status_errors, template_columns
from apiserver.resources.pods.gates import PodGates, pod_gates
from apiserver.resources.pods.template import template_warnings

__all__ = ["DAEMON_SETS"]


_CHANGES: Final = changes(DaemonSetSpec)
_SPEC: Final = Path("spec")
_STRATEGIES: Final = ("RollingUpdate", "OnDelete")
_BOUNDS: Final = ("maxUnavailable", "maxSurge")


def _generation(obj: Json) -> int:
    """Return the template generation."""
    generation: int = obj["spec"].get("templateGeneration", 0)
    return generation


def _unsupported(at: At) -> list[FieldError]:
    """Reject an unknown strategy type. The error is about the whole strategy, as upstream's is."""
    if at.value.get("type", "") in _STRATEGIES:
        return []
    return [not_supported(at.path, internal(DaemonSetUpdateStrategy, at.value), _STRATEGIES)]


def _template_generation(at: At) -> list[FieldError]:
    return nonnegative(at.path / "templateGeneration", at.value.get("templateGeneration", 0))


RULES.set(
    DaemonSetStatus, "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
    "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
    COLLISIONS,
)  # fmt: skip
RULES.set(
    RollingUpdateDaemonSet, "maxUnavailable", "maxSurge", *map(at_most_100_percent, _BOUNDS),
    Invalid(
        "maxSurge", "may not be set when maxUnavailable is non-zero",
        when=lambda at: not any(are_zero(at, field) for field in _BOUNDS),
    ),
    Required(
        "maxUnavailable", "cannot be 0 when maxSurge is 0", when=lambda at: are_zero(at, *_BOUNDS), anyway=True
    ),
)  # fmt: skip
RULES.set(
    DaemonSetUpdateStrategy,
    UntilError((
        _unsupported,
        If(equals("type", "RollingUpdate"), (Required("rollingUpdate"), "rollingUpdate")),
    )),
    by_rules=("type",),
)  # fmt: skip
RULES.set(
    DaemonSetSpec, "selector", selected_template, nonempty_selector("daemonset"), template, *always_runs("DaemonSet"),
    "minReadySeconds", _template_generation, "updateStrategy", "revisionHistoryLimit", by_rules=("template",),
)  # fmt: skip


class DaemonSetStrategy(WorkloadStrategy):
    spec_type = DaemonSetSpec
    new_status: ClassVar[Json] = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        super().prepare_for_create(ctx, obj)
        obj["spec"]["templateGeneration"] = max(_generation(obj), 1)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        super().prepare_for_update(ctx, obj, old)
        changed = not semantic_equal(PodTemplateSpec, obj["spec"]["template"], old["spec"]["template"])
        obj["spec"]["templateGeneration"] = _generation(old) + changed

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return self._errors(obj, pod_gates(ctx, None))

    def _errors(self, obj: Json, gates: PodGates) -> list[FieldError]:
        return RULES.of(DaemonSetSpec).errors(_SPEC, obj["spec"], Env(gates))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _CHANGES.errors(_SPEC, obj["spec"], old["spec"]) + self._errors(
            obj, pod_gates(ctx, old["spec"]["template"]["spec"])
        )

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return status_errors(DaemonSetStatus, obj, old)

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return template_warnings(TEMPLATE, obj["spec"]["template"]) if _generation(obj) != _generation(old) else []


def _column(name: str, field: str, description: str) -> Column:
    return Column(
        name=name, cell=lambda obj: (obj.get("status") or {}).get(field, 0), type="integer", description=description
    )


def _node_selector(obj: Json) -> str:
    chosen = obj["spec"]["template"]["spec"].get("nodeSelector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(chosen.items())) or "<none>"


DAEMON_SETS: Final = Resource(
    group="apps",
    kind="DaemonSet",
    plural="daemonsets",
    singular="daemonset",
    namespaced=True,
    short_names=("ds",),
    categories=("all",),
    versions=(
        Version(
            name="v1",
            schema=DaemonSet,
            default=default_daemon_set,
            to_hub=daemon_set_to_hub,
            from_hub=daemon_set_from_hub,
        ),
    ),
    strategy=DaemonSetStrategy(),
    storage_prefix="daemonsets",
    columns=(
        NAME,
        _column("Desired", "desiredNumberScheduled", "Nodes that should run the pod."),
        _column("Current", "currentNumberScheduled", "Nodes that run the pod and should."),
        _column("Ready", "numberReady", "Nodes with a ready pod."),
        _column("Up-to-date", "updatedNumberScheduled", "Nodes with a pod of the current template."),
        _column("Available", "numberAvailable", "Nodes with a pod that has been ready for minReadySeconds."),
        Column(name="Node Selector", cell=_node_selector, description="Node selector of the pod."),
        AGE,
        *template_columns(lambda obj: obj["spec"]["template"], lambda obj: obj["spec"].get("selector")),
    ),
    subresources=(Subresource(name="status"),),
)
