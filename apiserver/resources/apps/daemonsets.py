"""DaemonSets of apps/v1."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, not_supported, required
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.apps import (
    DaemonSet,
    DaemonSetSpec,
    DaemonSetStatus,
    DaemonSetUpdateStrategy,
    RollingUpdateDaemonSet,
)
from apiserver.api.types.core.pods import PodTemplateSpec
from apiserver.api.types.meta import LabelSelector
from apiserver.api.validation.changes import changes
from apiserver.api.validation.internal_values import internal
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.apps.defaults import daemon_set_from_hub, daemon_set_to_hub, default_daemon_set
from apiserver.resources.apps.rules import (
    always_runs,
    at_most_100_percent,
    collisions_only_grow,
    is_empty,
    number,
    shown_number,
)
from apiserver.resources.apps.strategy import TEMPLATE, WorkloadStrategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES, validate_label_selector
from apiserver.resources.common.workloads import counts, nonnegative, selects_template, template_columns
from apiserver.resources.pods.gates import PodGates, pod_gates
from apiserver.resources.pods.template import template_warnings, validate_template

__all__ = ["DAEMON_SETS"]

Json = dict[str, Any]

_CHANGES: Final = changes(DaemonSetSpec)
_SPEC: Final = Path("spec")
RULES.set(
    DaemonSetStatus,
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)
RULES.set(DaemonSetSpec, by_rules=("selector", "template", "updateStrategy", "minReadySeconds", "revisionHistoryLimit"))


def _generation(obj: Json) -> int:
    """Of the template."""
    generation: int = obj["spec"].get("templateGeneration", 0)
    return generation


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
        spec, at = obj["spec"], _SPEC / "template"
        selector, template = spec.get("selector"), spec["template"]
        errors = validate_label_selector(_SPEC / "selector", selector) + selects_template(at, selector, template)
        if selector is not None and is_empty(selector):
            errors.append(
                invalid(
                    _SPEC / "selector", internal(LabelSelector, selector), "empty selector is invalid for daemonset"
                )
            )
        errors += validate_template(at, template, gates=gates) + always_runs(at, template, "DaemonSet")
        here = RULES.of(DaemonSetSpec).at(_SPEC, spec)
        errors += here.field("minReadySeconds")
        errors += nonnegative(_SPEC / "templateGeneration", _generation(obj))
        errors += _update_strategy(_SPEC / "updateStrategy", spec["updateStrategy"])
        return errors + here.field("revisionHistoryLimit")

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _CHANGES.errors(_SPEC, obj["spec"], old["spec"]) + self._errors(
            obj, pod_gates(ctx, old["spec"]["template"]["spec"])
        )

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        status = obj.get("status") or {}
        return counts(DaemonSetStatus, status) + collisions_only_grow(status, old.get("status") or {})

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return template_warnings(TEMPLATE, obj["spec"]["template"]) if _generation(obj) != _generation(old) else []


def _update_strategy(path: Path, strategy: Json) -> list[FieldError]:
    kind, rolling, at = strategy.get("type", ""), strategy.get("rollingUpdate"), path / "rollingUpdate"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported(path, internal(DaemonSetUpdateStrategy, strategy), ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(at)]
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    both = (("maxUnavailable", unavailable), ("maxSurge", surge))
    errors = RULES.of(RollingUpdateDaemonSet).errors(at, rolling)
    errors += [error for field, value in both for error in at_most_100_percent(at / field, value)]
    if number(unavailable) and number(surge):
        errors.append(invalid(at / "maxSurge", shown_number(surge), "may not be set when maxUnavailable is non-zero"))
    elif not number(unavailable) and not number(surge):
        errors.append(required(at / "maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


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
        _column("Desired", "desiredNumberScheduled", "Nodes that are to run the pod."),
        _column("Current", "currentNumberScheduled", "Nodes that run the pod and are to."),
        _column("Ready", "numberReady", "Nodes on which the pod is ready."),
        _column("Up-to-date", "updatedNumberScheduled", "Nodes with a pod of the present template."),
        _column("Available", "numberAvailable", "Nodes on which the pod has been ready for long enough."),
        Column(name="Node Selector", cell=_node_selector, description="Labels of nodes that are to run the pod."),
        AGE,
        *template_columns(lambda obj: obj["spec"]["template"], lambda obj: obj["spec"].get("selector")),
    ),
    subresources=(Subresource(name="status"),),
)
