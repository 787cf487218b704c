"""ResourceClaims: the spec never changes, the status (allocation, reservations, what drivers report) is written by
schedulers, drivers and controllers. Rules of the spec, which templates share: `claimvalidation`.

Rules: api.md 4.1 to 4.3, 5, 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apiserver.api.equality import semantic_equal
from apiserver.api.fielderrors import FieldError, Path, duplicate, forbidden, invalid
from apiserver.api.internal import internal
from apiserver.api.networks import canonical_interface
from apiserver.api.times import holds_truncated
from apiserver.api.types.resource import v1, v1beta1, v1beta2
from apiserver.api.types.resource.v1 import TYPES
from apiserver.api.validation.changes import changes
from apiserver.api.validation.compile import At
from apiserver.registry.context import Context
from apiserver.registry.metadata import keep_metadata_for_status
from apiserver.registry.resource import Resource, Subresource, Version
from apiserver.registry.strategy import Strategy
from apiserver.resources.conditions import validate_conditions
from apiserver.resources.devices import v1beta1 as flat
from apiserver.resources.devices.access import (
    admin_access_of_requests,
    admin_access_of_results,
    authorize_binding,
    authorize_devices,
    device_identity,
)
from apiserver.resources.devices.bindingconditions import CONDITIONS, binding_conditions
from apiserver.resources.devices.claimvalidation import (
    RULES,
    SPEC,
    Env,
    configuration,
    references,
    request_reference,
    validate_spec,
)
from apiserver.resources.devices.columns import CLAIM_COLUMNS
from apiserver.resources.gating import drop_disabled
from apiserver.resources.nodeselectors import validate_node_selector

if TYPE_CHECKING:
    from apiserver.api.features import Features

Json = dict[str, Any]

_STATUS: Final = Path("status")
_CHANGES: Final = changes(v1.ResourceClaim, "spec", by_rules=("status.allocation",))


# --- the status
# ----------------------------------------------------------------------------------------------------------------------


def _results(status: Json) -> list[Json]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def _drop_deallocated_devices(features: Features, status: Json, before: Json) -> None:
    """What drivers reported about a device goes when its allocation goes. Changes `status` in place."""
    if not features.enabled("DRAResourceClaimDeviceStatus") and not before.get("devices"):
        return
    gone = set(map(device_identity, _results(before))) - set(map(device_identity, _results(status)))
    kept = [device for device in status["devices"] if device_identity(device) not in gone]
    if kept:
        status["devices"] = kept
    else:
        del status["devices"]


def _authorize_status(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    """Admin access, then the permissions that parts of the status need."""
    status, before = obj["status"], old.get("status") or {}
    errors = admin_access_of_results(ctx, _results(status), _results(before), obj["metadata"].get("namespace", ""))
    if ctx.features.enabled("DRAResourceClaimGranularStatusAuthorization"):
        errors += authorize_binding(ctx, status, before)
        if (
            (status.get("devices") or before.get("devices"))
            and status.get("allocation") is not None
            and ctx.features.enabled("DRAResourceClaimDeviceStatus")
        ):
            errors += authorize_devices(ctx, status, before)
    return errors


def _devices(at: At) -> list[FieldError]:
    """Reports are about devices that are allocated, each once."""
    devices = at.value["devices"]
    seen = set()
    errors = at.field("devices", frozenset(map(device_identity, _results(at.value))))
    for index, device in enumerate(devices):
        identity = device_identity(device)
        if identity in seen:
            errors.append(duplicate((at.path / "devices")[index], _shown_identity(device)))
        seen.add(identity)
    return errors


def _reservations(at: At) -> list[FieldError]:
    reserved = at.value["reservedFor"]
    if not reserved:
        return []
    path = at.path / "reservedFor"
    if at.value.get("allocation") is None:
        return [forbidden(path, "may not be specified when `allocated` is not set")]
    known = (at.old or {}).get("reservedFor") or []
    if at.env.deleted and any(entry not in known for entry in reserved):
        return [
            forbidden(path, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
        ]
    return []


def _allocation(at: At) -> list[FieldError]:
    """An allocation is looked at once, and never changes."""
    allocation, before = at.value.get("allocation"), (at.old or {}).get("allocation")
    if allocation is None:
        return []
    if before is None:
        return at.field("allocation")
    changed = not semantic_equal(TYPES.AllocationResult, allocation, before)
    if changed or holds_truncated(allocation.get("allocationTimestamp")):
        return [invalid(at.path / "allocation", internal(TYPES.AllocationResult, allocation), "field is immutable")]
    return []


def _shown_identity(device: Json) -> Json:
    driver, pool, name, share = device_identity(device)
    return {"Driver": driver, "Pool": pool, "Device": name, "ShareID": share}


def _allocated(at: At) -> list[FieldError]:
    """(`env` are the devices that are allocated.)"""
    if device_identity(at.value) in at.env:
        return []
    return [invalid(at.path, _shown_identity(at.value), "must be an allocated device in the claim")]


def _conditions(at: At) -> list[FieldError]:
    return at.field("conditions") + validate_conditions(at.path / "conditions", at.value.get("conditions"))


def _addresses(at: At) -> list[FieldError]:
    return at.items("ips", canonical_interface)


def _node_selector(at: At) -> list[FieldError]:
    return validate_node_selector(at.path / "nodeSelector", at.value["nodeSelector"])


def _request(at: At) -> list[FieldError]:
    return request_reference(at.path / "request", at.value.get("request", ""), at.env.known)


RULES.set(
    TYPES.ResourceClaimStatus,
    "reservedFor", ("devices", _devices), ("reservedFor", _reservations), _allocation,
    by_rules=("allocation",),
)  # fmt: skip
RULES.set(
    TYPES.AllocatedDeviceStatus,
    "driver", "pool", "device", "shareID", _allocated, _conditions, "data", "networkData",
    by_rules=("conditions",),
)  # fmt: skip
RULES.set(TYPES.NetworkDeviceData, "interfaceName", "hardwareAddress", _addresses, by_rules=("ips",))
RULES.set(TYPES.AllocationResult, "devices", ("nodeSelector", _node_selector))
RULES.set(
    TYPES.DeviceRequestAllocationResult,
    _request, "driver", "pool", "device", (*CONDITIONS, binding_conditions), "shareID",
    by_rules=("tolerations",),
)  # fmt: skip
RULES.set(TYPES.DeviceAllocationConfiguration, "source", references, configuration, by_rules=("requests", "opaque"))
_STATUS_CHECKS: Final = RULES.of(TYPES.ResourceClaimStatus)


# --- the resource
# ----------------------------------------------------------------------------------------------------------------------


class ResourceClaimStrategy(Strategy):
    reset_fields = ("status",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {}
        drop_disabled(ctx, obj, None)

    def validate_first(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        if old is None:
            return admin_access_of_requests(ctx, obj["spec"], obj["metadata"].get("namespace", ""))
        return _authorize_status(ctx, obj, old) if ctx.subresource == "status" else []

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return validate_spec(ctx, obj["spec"], SPEC)

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
            _drop_deallocated_devices(ctx.features, obj["status"], old.get("status") or {})

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        env = Env(ctx.features, obj["spec"], deleted="deletionTimestamp" in obj["metadata"])
        return _STATUS_CHECKS.errors(_STATUS, obj["status"], env, old.get("status") or {})


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
