"""Define ResourceClaimTemplates: immutable, with the rules of the generated claim (pkg/apis/resource/validation)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden
from apiserver.api.helpers import flat_devices as flat
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.types.meta import ObjectMeta
from apiserver.api.types.resource import v1
from apiserver.api.validation.changes import changes
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Resource
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.template_metadata import validate_labels_and_annotations
from apiserver.resources.devices import claimvalidation
from apiserver.resources.devices.claims import admin_access_of_requests
from apiserver.resources.devices.versions import versions_of

_CHANGES: Final = changes(v1.ResourceClaimTemplate)


_METADATA: Final = Path("spec.metadata")
_SPEC: Final = Path("spec.spec")
_ALLOWED: Final = ("labels", "annotations")
#: Go field names with a lower-case first letter that differ from the JSON names.
_GO_NAMES: Final = {"uid": "uID"}


def _template_metadata(metadata: Json) -> list[FieldError]:
    """Validate labels and annotations of generated claims, and reject all other metadata."""
    errors = validate_labels_and_annotations(metadata, _METADATA)
    for field, item in ObjectMeta.fields.items():
        value = metadata.get(field)
        # A pointer to zero counts as set.
        if field not in _ALLOWED and (value or (value == 0 and item.pointer)):
            errors.append(forbidden(_METADATA / _GO_NAMES.get(field, field), "cannot be set"))
    return errors


class ResourceClaimTemplateStrategy(Strategy):
    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        drop_disabled(ctx, obj, None)

    def validate_first(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        return (
            admin_access_of_requests(ctx, obj["spec"].get("spec") or {}, obj["metadata"].get("namespace", ""))
            if old is None
            else []
        )

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec = obj["spec"]
        return _template_metadata(spec.get("metadata") or {}) + claimvalidation.validate_spec(
            ctx, spec.get("spec") or {}, _SPEC
        )

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        drop_disabled(ctx, obj, old)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj) + _CHANGES.errors(Path(), obj, old)


RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    group="resource.k8s.io",
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    singular="resourceclaimtemplate",
    namespaced=True,
    versions=versions_of("ResourceClaimTemplate", to_hub=flat.template_to_hub, from_hub=flat.template_from_hub),
    strategy=ResourceClaimTemplateStrategy(),
    storage_prefix="resourceclaimtemplates",
    columns=name_and_age(),
    delete_returns_object=True,
)
