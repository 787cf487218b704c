"""Define Workloads: immutable templates of pod groups."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, required, too_many
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.types.scheduling import Workload, WorkloadSpec
from apiserver.api.validation.changes import changes
from apiserver.api.validation.compile import most_items
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.scheduling.groupvalidation import RULES

_SPEC: Final = Path("spec")
_CHANGES: Final = changes(WorkloadSpec)


class WorkloadStrategy(Strategy):
    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        drop_disabled(ctx, obj, None)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return RULES.of(WorkloadSpec).errors(_SPEC, obj["spec"])

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        drop_disabled(ctx, obj, old)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        errors = _CHANGES.field("controllerRef", _SPEC, obj["spec"], old["spec"])
        if templates := _CHANGES.field("podGroupTemplates", _SPEC, obj["spec"], old["spec"]):
            errors += templates + _size(_SPEC / "podGroupTemplates", obj["spec"].get("podGroupTemplates") or [])
        return errors


def _size(path: Path, templates: list[Json]) -> list[FieldError]:
    """Validate the number of templates, also of changed ones."""
    if not templates:
        return [required(path)]
    most = most_items(WorkloadSpec, "podGroupTemplates")
    return [too_many(path, len(templates), most)] if len(templates) > most else []


WORKLOADS: Final = Resource(
    group="scheduling.k8s.io",
    kind="Workload",
    plural="workloads",
    singular="workload",
    namespaced=True,
    gate="GenericWorkload",
    versions=(Version(name="v1alpha2", schema=Workload, on_by_default=False),),
    strategy=WorkloadStrategy(),
    storage_prefix="workloads",
    columns=name_and_age(),
)
