"""ControllerRevisions of apps/v1: a controller's history of an object. Their data is immutable."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, required
from apiserver.api.objects import Json
from apiserver.api.types.apps import ControllerRevision
from apiserver.api.validation.changes import changes
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES

__all__ = ["CONTROLLER_REVISIONS"]


_CHANGES: Final = changes(ControllerRevision)
_DATA: Final = Path("data")


class ControllerRevisionStrategy(Strategy):
    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors = RULES.of(ControllerRevision).at(Path(), obj).field("revision")
        if obj.get("data") is None:
            errors.append(required(_DATA, "data is mandatory"))
        elif not isinstance(obj["data"], dict):
            errors.append(required(_DATA, "data must be a valid JSON object"))
        return errors

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return RULES.of(ControllerRevision).at(Path(), obj).field("revision") + _CHANGES.errors(Path(), obj, old)


def _controller(obj: Json) -> str:
    owner = next((owner for owner in obj["metadata"].get("ownerReferences") or () if owner.get("controller")), None)
    if owner is None:
        return "<none>"
    group = owner.get("apiVersion", "").rpartition("/")[0]
    kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
    return f"{kind.lower()}/{owner.get('name', '')}"


CONTROLLER_REVISIONS: Final = Resource(
    group="apps",
    kind="ControllerRevision",
    plural="controllerrevisions",
    singular="controllerrevision",
    namespaced=True,
    versions=(Version(name="v1", schema=ControllerRevision),),
    strategy=ControllerRevisionStrategy(),
    storage_prefix="controllerrevisions",
    columns=name_and_age(
        Column(name="Controller", cell=_controller, description="Controller of the revision."),
        Column(name="Revision", cell=lambda obj: obj.get("revision", 0), description="Revision number."),
    ),
)
