"""HorizontalPodAutoscalers (autoscaling). Rules: pkg/apis/autoscaling, pkg/registry/autoscaling."""

from __future__ import annotations

from typing import ClassVar, Final

from apiserver.api.errors.field_errors import FieldError
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.types import autoscaling as v1
from apiserver.api.types import autoscaling_v2 as v2
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.autoscaling.conversion import from_hub, to_hub
from apiserver.resources.autoscaling.defaults import default
from apiserver.resources.autoscaling.validation import validate_spec, validate_status
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.status import StatusStrategy

__all__ = ["HORIZONTAL_POD_AUTOSCALERS"]


_SHOWN: Final = 2
_UNKNOWN: Final = "<unknown>"
#: The field of its source by metric type.
_SOURCES: Final = {
    "External": "external", "Pods": "pods", "Object": "object", "Resource": "resource",
    "ContainerResource": "containerResource",
}  # fmt: skip


class AutoscalerStrategy(StatusStrategy):
    new_status: ClassVar[Json] = {"desiredReplicas": 0, "currentMetrics": None}
    revalidates_metadata = False
    status_reset_fields = ("spec",)

    def drop_gated(self, ctx: Context, obj: Json, old: Json | None) -> None:
        drop_disabled(ctx, obj, old)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return validate_spec(obj["spec"], None, ctx.features)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return validate_spec(obj["spec"], old["spec"], ctx.features)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return validate_status(obj["status"])


def _percent(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value}%"


def _metric(spec: Json, status: Json) -> str:
    """Format a metric's current and target value."""
    field = _SOURCES.get(spec.get("type", ""))
    if field is None:
        return "<unknown type>"
    source = spec.get(field) or {}
    target, current = source.get("target") or {}, (status.get(field) or {}).get("current") or {}
    average = target.get("averageValue")
    if field in ("resource", "containerResource"):
        if average is not None:
            shown = f"{current.get('averageValue', _UNKNOWN)}/{average}"
        else:
            used, wanted = current.get("averageUtilization"), target.get("averageUtilization")
            shown = f"{_percent(used, _UNKNOWN)}/{_percent(wanted, '<auto>')}"
        return f"{source.get('name', '')}: {shown}"
    if average is None:
        return f"{current.get('value', _UNKNOWN)}/{target.get('value', '0')}"
    return f"{current.get('averageValue', _UNKNOWN)}/{average}" + ("" if field == "pods" else " (avg)")


def _targets(obj: Json) -> str:
    specs, found = obj["spec"].get("metrics") or [], (obj.get("status") or {}).get("currentMetrics") or []
    if not specs:
        return "<none>"
    shown = [_metric(spec, found[index] if index < len(found) else {}) for index, spec in enumerate(specs)]
    return ", ".join(shown[:_SHOWN]) + (f" + {len(shown) - _SHOWN} more..." if len(shown) > _SHOWN else "")


def _reference(obj: Json) -> str:
    target = obj["spec"].get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


HORIZONTAL_POD_AUTOSCALERS: Final = Resource(
    group="autoscaling", kind="HorizontalPodAutoscaler", plural="horizontalpodautoscalers",
    singular="horizontalpodautoscaler", namespaced=True, short_names=("hpa",), categories=("all",),
    versions=(
        Version(name="v2", schema=v2.HorizontalPodAutoscaler, default=default),
        Version(name="v1", schema=v1.HorizontalPodAutoscaler, to_hub=to_hub, from_hub=from_hub),
    ),
    strategy=AutoscalerStrategy(), storage_prefix="horizontalpodautoscalers",
    columns=name_and_age(
        Column(name="Reference", cell=_reference, description="The scaled object."),
        Column(name="Targets", cell=_targets, description="Current and target values of the first metrics."),
        Column(name="MinPods", cell=lambda obj: str(obj["spec"].get("minReplicas", "<unset>")),
            description="Minimum pods."),
        Column(name="MaxPods", cell=lambda obj: obj["spec"].get("maxReplicas", 0), description="Maximum pods."),
        Column(name="Replicas", cell=lambda obj: (obj.get("status") or {}).get("currentReplicas", 0),
            description="Last observed number of pods."),
    ),
    subresources=(Subresource(name="status"),),
)  # fmt: skip
