"""ResourceClaims: the spec never changes, the status is written by schedulers, drivers and controllers.

Rules: api.md 4.1 to 4.3, 5, 7.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Path
from apiserver.api.types.resource import v1, v1beta1, v1beta2
from apiserver.api.validation.changes import changes
from apiserver.registry.context import Context
from apiserver.registry.metadata import keep_metadata_for_status
from apiserver.registry.resource import Resource, Subresource, Version
from apiserver.registry.strategy import Strategy
from apiserver.resources.devices import claimstatus, claimvalidation
from apiserver.resources.devices import v1beta1 as flat
from apiserver.resources.devices.access import admin_access_of_requests
from apiserver.resources.devices.columns import CLAIM_COLUMNS
from apiserver.resources.gating import drop_disabled

Json = dict[str, Any]

_CHANGES: Final = changes(v1.ResourceClaim, "spec", by_rules=("status.allocation",))


class ResourceClaimStrategy(Strategy):
    reset_fields = ("status",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {}
        drop_disabled(ctx, obj, None)

    def validate_first(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        if old is None:
            return admin_access_of_requests(ctx, obj["spec"], obj["metadata"].get("namespace", ""))
        return claimstatus.authorize(ctx, obj, old) if ctx.subresource == "status" else []

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return claimvalidation.validate_spec(ctx, obj["spec"], claimvalidation.SPEC)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old.get("status", {})
        drop_disabled(ctx, obj, old)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _CHANGES.errors(Path(), obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        obj.setdefault("status", {})
        keep_metadata_for_status(obj, old)
        drop_disabled(ctx, obj, old)
        if obj["status"].get("devices"):
            claimstatus.drop_deallocated_devices(ctx.features, obj["status"], old.get("status") or {})

    validate_status_update = staticmethod(claimstatus.validate)


RESOURCE_CLAIMS: Final = Resource(
    group="resource.k8s.io",
    kind="ResourceClaim",
    plural="resourceclaims",
    singular="resourceclaim",
    namespaced=True,
    versions=(
        Version(name="v1", schema=v1.ResourceClaim, introduced=(1, 34)),
        Version(
            name="v1beta2",
            schema=v1beta2.ResourceClaim,
            introduced=(1, 33),
            deprecated=(1, 36),
            removed=(1, 39),
            on_by_default=False,
        ),
        Version(
            name="v1beta1",
            schema=v1beta1.ResourceClaim,
            introduced=(1, 32),
            deprecated=(1, 35),
            removed=(1, 38),
            on_by_default=False,
            to_hub=flat.claim_to_hub,
            from_hub=flat.claim_from_hub,
        ),
    ),
    strategy=ResourceClaimStrategy(),
    storage_prefix="resourceclaims",
    columns=CLAIM_COLUMNS,
    subresources=(Subresource(name="status", tables=False),),
    delete_returns_object=True,
)
