"""Prepare any workload for storage: separate status, gates, generations, warnings (pkg/registry/apps)."""

from __future__ import annotations

from typing import ClassVar, Final

from apiserver.api.errors.field_errors import Path
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.schema.language import Struct
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.workloads import count_generation
from apiserver.resources.pods.dropping import drop_disabled_in_template
from apiserver.resources.pods.template import template_warnings

__all__ = ["TEMPLATE", "WorkloadStrategy"]


TEMPLATE: Final = Path("spec.template")


class WorkloadStrategy(Strategy):
    """Strategy of a kind with a pod template at spec.template.

    `spec_type` is the type of its spec, `new_status` the status of a new object.
    """

    reset_fields = ("status",)
    status_reset_fields: tuple[str, ...] = ("spec",)
    revalidates_metadata = False
    spec_type: ClassVar[Struct]
    new_status: ClassVar[Json] = {}

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = dict(self.new_status)
        obj["metadata"]["generation"] = 1
        drop_disabled_in_template(ctx, obj, None, "spec", "template")

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old.get("status", {})
        drop_disabled_in_template(ctx, obj, old, "spec", "template")
        count_generation(self.spec_type, obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        drop_disabled(ctx, obj, old)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return template_warnings(TEMPLATE, obj["spec"]["template"])

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        changed = obj["metadata"].get("generation") != old["metadata"].get("generation")
        return template_warnings(TEMPLATE, obj["spec"]["template"]) if changed else []
