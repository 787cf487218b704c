"""Define PodTemplates: standalone templates of pods. Rules: pkg/registry/core/podtemplate."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.selectors.selectors import format_object
from apiserver.api.types.core.pods import PodTemplateSpec
from apiserver.api.types.core.replication import PodTemplate
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import NAME
from apiserver.resources.pods.dropping import drop_disabled_in_template
from apiserver.resources.pods.gates import pod_gates
from apiserver.resources.pods.template import (
    default_template,
    template_to_hub,
    template_warnings,
    validate_template,
)

_TEMPLATE: Final = Path("template")


def default(obj: Json, now: datetime) -> None:
    default_template(obj["template"])


def to_hub(obj: Json) -> Json:
    template_to_hub(obj["template"])
    return obj


class PodTemplateStrategy(Strategy):
    revalidates_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1
        drop_disabled_in_template(ctx, obj, None, "template")

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        drop_disabled_in_template(ctx, obj, old, "template")
        if not semantic_equal(PodTemplateSpec, obj["template"], old["template"]):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return validate_template(_TEMPLATE, obj["template"], gates=pod_gates(ctx, None))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        gates = pod_gates(ctx, old["template"]["spec"])
        return validate_template(_TEMPLATE, obj["template"], gates=gates)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return template_warnings(_TEMPLATE, obj["template"])

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        changed = obj["metadata"].get("generation") != old["metadata"].get("generation")
        return self.warnings_on_create(ctx, obj) if changed else []


def _listed(field: str) -> Any:
    return lambda obj: ",".join(
        container.get(field, "") for container in obj["template"]["spec"].get("containers") or ()
    )


def _labels(obj: Json) -> str:
    return format_object({"matchLabels": obj["template"]["metadata"].get("labels") or {}})


POD_TEMPLATES: Final = Resource(
    group="", kind="PodTemplate", plural="podtemplates", singular="podtemplate", namespaced=True,
    versions=(Version(name="v1", schema=PodTemplate, default=default, to_hub=to_hub),),
    strategy=PodTemplateStrategy(), storage_prefix="podtemplates",
    columns=(
        NAME,
        Column(name="Containers", cell=_listed("name"), description="Names of the containers."),
        Column(name="Images", cell=_listed("image"), description="Images of the containers."),
        Column(name="Pod Labels", cell=_labels, description="Labels of the pods."),
    ),
    delete_returns_object=True,
)  # fmt: skip
