"""Define the kind CustomResourceDefinition. Facts: apiextensions-apiserver, pkg/registry/customresourcedefinition."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from apiserver.api.errors.field_errors import FieldError
from apiserver.api.objects import Json
from apiserver.api.types.apiextensions import CustomResourceDefinition
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.options import DeleteOptions
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import NAME
from apiserver.resources.customresources.coercion import coerce_defaults
from apiserver.resources.customresources.definition_rules import (
    definition_errors,
    name_errors,
    status_errors,
    update_errors,
)
from apiserver.resources.customresources.names import set_condition
from apiserver.resources.customresources.schema_walk import unknown_formats

__all__ = ["CLEANUP", "DEFINITIONS"]


#: The finalizer of a definition until all its objects are deleted.
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


def _default(obj: Json, _: datetime) -> None:
    spec = obj["spec"]
    names = spec["names"]
    if not names.get("singular") and names.get("kind"):
        names["singular"] = names["kind"].lower()
    if not names.get("listKind") and names.get("kind"):
        names["listKind"] = names["kind"] + "List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    if not obj["status"].get("storedVersions"):
        stored = next((version["name"] for version in spec.get("versions") or () if version.get("storage")), None)
        obj["status"]["storedVersions"] = None if stored is None else [stored]


def _note_stored(obj: Json) -> None:
    """Add the storage version to the stored versions."""
    stored = next((version["name"] for version in obj["spec"].get("versions") or () if version.get("storage")), None)
    known = obj["status"].get("storedVersions") or []
    if stored is not None and stored not in known:
        obj["status"]["storedVersions"] = [*known, stored]


class DefinitionStrategy(Strategy):
    checks_finalizer_names = False
    begins_with_finalizers = False
    storage_preconditions = True
    reset_fields = ("status",)
    status_reset_fields = ("spec",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
        obj["metadata"]["generation"] = 1
        _note_stored(obj)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = dict(old["status"])
        if obj["spec"] != old["spec"]:
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        _note_stored(obj)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return name_errors(obj) + definition_errors(obj, ctx.features)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return update_errors(obj, old, ctx.features)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return status_errors(obj)

    def canonicalize(self, ctx: Context, obj: Json) -> None:
        for version in obj["spec"].get("versions") or ():
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if schema is not None:
                coerce_defaults({**schema, "x-kubernetes-embedded-resource": True})

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return [f'unrecognized format "{name}"' for name in unknown_formats(obj["spec"])]

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        known = set(unknown_formats(old["spec"]))
        return [f'unrecognized format "{name}"' for name in unknown_formats(obj["spec"]) if name not in known]

    def starts_deletion(self, ctx: Context, obj: Json, options: DeleteOptions) -> bool:
        """Mark the definition as terminating on the first DELETE. It is removed after its objects."""
        metadata = obj["metadata"]
        if "deletionTimestamp" in metadata:
            return False
        metadata["deletionTimestamp"] = timestamp(ctx.now)
        if CLEANUP not in (metadata.get("finalizers") or ()):
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), CLEANUP]
        set_condition(
            obj,
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            timestamp(ctx.now),
        )
        return True


def _created(obj: Json) -> str:
    created: str = obj["metadata"].get("creationTimestamp", "")
    return created


DEFINITIONS: Final = Resource(
    group="apiextensions.k8s.io",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    singular="customresourcedefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    versions=(Version(name="v1", schema=CustomResourceDefinition, default=_default),),
    strategy=DefinitionStrategy(),
    storage_prefix="apiextensions.k8s.io/customresourcedefinitions",
    storage_version="apiextensions.k8s.io/v1beta1",
    columns=(
        NAME,
        Column(name="Created At", cell=_created, type="date", description="Creation time of the definition."),
    ),
    subresources=(Subresource(name="status", tables=False),),
    delete_returns_object=True,
    unconditional_update=False,
)
