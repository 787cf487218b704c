"""Share the strategy of kinds with a status that only the endpoint /status writes."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, ClassVar

from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.registry.definition.metadata import keep_metadata_for_status
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.workloads import count_generation

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["StatusStrategy"]


class StatusStrategy(Strategy):
    """Strategy of a kind whose status is written apart from its spec.

    `new_status` is the status of a new object. `spec_type` is the type of the spec if the kind counts generations.
    `keeps_metadata`: a status update changes almost no metadata.
    """

    reset_fields: tuple[str, ...] = ("status",)
    new_status: ClassVar[Json] = {}
    spec_type: ClassVar[Struct | None] = None
    keeps_metadata: ClassVar[bool] = False

    def drop_gated(self, ctx: Context, obj: Json, old: Json | None) -> None:
        """Remove the fields of disabled gates, before generations are counted."""

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = deepcopy(self.new_status)
        if self.spec_type is not None:
            obj["metadata"]["generation"] = 1
        self.drop_gated(ctx, obj, None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old.get("status", {})
        self.drop_gated(ctx, obj, old)
        if self.spec_type is not None:
            count_generation(self.spec_type, obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        if self.keeps_metadata:
            keep_metadata_for_status(obj, old)
