"""Define ResourcePoolStatusRequests: a question about pools that is answered once.

Errors are those of upstream's generated rules (pkg/apis/resource/validation).
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.types.resource.v1alpha3 import (
    PoolStatus,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestSpec,
    ResourcePoolStatusRequestStatus,
)
from apiserver.api.validation.changes import changes
from apiserver.api.validation.compile import Rules
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.metadata import keep_metadata_for_status
from apiserver.registry.definition.resource import Resource, Subresource, prerelease
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.conditions import validate_conditions
from apiserver.resources.devices.columns import POOL_STATUS_COLUMNS

_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_COUNTS: Final = ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")
_CHANGES: Final = changes(ResourcePoolStatusRequest)
_RULES: Final = Rules()
_RULES.set(
    PoolStatus, "driver", "poolName", "generation", "resourceSliceCount", *_COUNTS, "nodeName", "validationError"
)


def _answer(status: Json) -> list[FieldError]:
    """Validate the status, both the first one and later ones, which may not replace it."""
    return _RULES.of(ResourcePoolStatusRequestStatus).errors(_STATUS, status)


class ResourcePoolStatusRequestStrategy(Strategy):
    revalidates_metadata = False
    reset_fields = ("status",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj.pop("status", None)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _RULES.of(ResourcePoolStatusRequestSpec).errors(_SPEC, obj["spec"])

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = old["status"]

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _CHANGES.field("spec", Path(), obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        keep_metadata_for_status(obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        status, before = obj.get("status"), old.get("status")
        if before is not None:
            changed = _CHANGES.field("status", Path(), obj, old)
            return changed + _answer(status) if changed and status is not None else changed
        return (
            []
            if status is None
            else validate_conditions(_STATUS / "conditions", status.get("conditions") or []) + _answer(status)
        )


RESOURCE_POOL_STATUS_REQUESTS: Final = Resource(
    group="resource.k8s.io",
    kind="ResourcePoolStatusRequest",
    plural="resourcepoolstatusrequests",
    singular="resourcepoolstatusrequest",
    namespaced=False,
    versions=(prerelease("v1alpha3", ResourcePoolStatusRequest, (1, 36)),),
    strategy=ResourcePoolStatusRequestStrategy(),
    storage_prefix="resourcepoolstatusrequests",
    columns=POOL_STATUS_COLUMNS,
    subresources=(Subresource(name="status", tables=False),),
    delete_returns_object=True,
    unconditional_update=False,
)
