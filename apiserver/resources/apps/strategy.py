"""Prepare any workload for storage: separate status, gates, generations, warnings (pkg/registry/apps)."""

from __future__ import annotations

from typing import ClassVar, Final

from apiserver.api.errors.field_errors import Path
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.schema.language import Struct
from apiserver.registry.definition.context import Context
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.pods.dropping import drop_disabled_in_template
from apiserver.resources.pods.template import template_warnings

__all__ = ["TEMPLATE", "WorkloadStrategy"]


TEMPLATE: Final = Path("spec.template")


class WorkloadStrategy(StatusStrategy):
    """Strategy of a kind with a pod template at spec.template."""

    status_reset_fields: tuple[str, ...] = ("spec",)
    revalidates_metadata = False
    spec_type: ClassVar[Struct]

    def drop_gated(self, ctx: Context, obj: Json, old: Json | None) -> None:
        drop_disabled_in_template(ctx, obj, old, "spec", "template")

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        super().prepare_for_status_update(ctx, obj, old)
        drop_disabled(ctx, obj, old)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return template_warnings(TEMPLATE, obj["spec"]["template"])

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        changed = obj["metadata"].get("generation") != old["metadata"].get("generation")
        return template_warnings(TEMPLATE, obj["spec"]["template"]) if changed else []
