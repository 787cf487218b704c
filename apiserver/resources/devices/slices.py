"""Define ResourceSlices: a driver's devices, selectable by driver and node (pkg/registry/resource/resourceslice)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError
from apiserver.api.helpers import flat_devices as flat
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.resource import v1
from apiserver.api.values.times import has_truncated
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Resource
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.devices.columns import SLICE_COLUMNS
from apiserver.resources.devices.slicevalidation import validate_slice_spec
from apiserver.resources.devices.versions import versions_of


class ResourceSliceStrategy(Strategy):
    revalidates_metadata = False

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1
        drop_disabled(ctx, obj, None)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return validate_slice_spec(obj["spec"], None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        """Increase the generation if the sent spec changed, then drop disabled fields."""
        taints = [device.get("taints") for device in obj["spec"].get("devices") or ()]
        if not semantic_equal(v1.TYPES.ResourceSliceSpec, obj["spec"], old["spec"]) or has_truncated(taints):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        drop_disabled(ctx, obj, old)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return validate_slice_spec(obj["spec"], old["spec"])

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        driver = obj["spec"].get("driver", "")
        if driver == driver.lower():
            return []
        return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return self.warnings_on_create(ctx, obj)


RESOURCE_SLICES: Final = Resource(
    group="resource.k8s.io",
    kind="ResourceSlice",
    plural="resourceslices",
    singular="resourceslice",
    namespaced=False,
    versions=versions_of("ResourceSlice", to_hub=flat.slice_to_hub, from_hub=flat.slice_from_hub),
    strategy=ResourceSliceStrategy(),
    storage_prefix="resourceslices",
    columns=SLICE_COLUMNS,
    field_labels={
        "spec.nodeName": lambda obj: obj["spec"].get("nodeName") or "",
        "spec.driver": lambda obj: obj["spec"].get("driver", ""),
    },
    field_error_style="kind",
    delete_returns_object=True,
)
