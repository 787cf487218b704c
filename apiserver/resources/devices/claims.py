"""Define ResourceClaims. `claimvalidation` validates spec and status; this module has the permissions.

The spec is immutable. Schedulers, drivers and controllers write the status (allocation, reservations, device reports).
Admin access requires a label of the namespace. Parts of the status require additional permissions.

Rules: pkg/apis/resource/validation, pkg/registry/resource/resourceclaim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, internal
from apiserver.api.errors.status import qualified
from apiserver.api.helpers import flat_devices as flat
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.resource import v1
from apiserver.api.types.resource.v1 import TYPES
from apiserver.api.validation.changes import changes
from apiserver.api.values.names import dns_subdomain
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Resource, Subresource
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.devices.claimvalidation import (
    SPEC,
    STATUS_CHECKS,
    Env,
    device_identity,
    results_of,
    validate_spec,
)
from apiserver.resources.devices.columns import CLAIM_COLUMNS
from apiserver.resources.devices.versions import versions_of

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features


_STATUS: Final = Path("status")
_CHANGES: Final = changes(v1.ResourceClaim, "spec", by_rules=("status.allocation",))

_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_ADMIN: Final = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
)
_GROUP: Final = "resource.k8s.io"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


# --- permissions
# ----------------------------------------------------------------------------------------------------------------------


def _namespace_allows(ctx: Context, path: Path, namespace: str) -> list[FieldError]:
    found = ctx.lookup("", "namespaces", "", namespace)
    if found is None:
        return [
            internal(path, f'could not retrieve namespace to verify admin access: namespaces "{namespace}" not found')
        ]
    labels = found["metadata"].get("labels") or {}
    return [] if labels.get(_ADMIN_LABEL) == "true" else [forbidden(path, _ADMIN)]


def admin_access_of_requests(ctx: Context, spec: Json, namespace: str) -> list[FieldError]:
    """Check the first request for admin access. The path omits `exactly`, also for templates."""
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return _namespace_allows(ctx, Path("spec.devices.requests")[index] / "adminAccess", namespace)
    return []


def admin_access_of_results(ctx: Context, results: list[Json], before: list[Json], namespace: str) -> list[FieldError]:
    if any(result.get("adminAccess") for result in before):
        return []
    for index, result in enumerate(results):
        if result.get("adminAccess"):
            return _namespace_allows(ctx, Path("status.allocation.devices.results")[index] / "adminAccess", namespace)
    return []


def authorize_binding(ctx: Context, status: Json, before: Json) -> list[FieldError]:
    """Require a cluster-wide permission to change allocation and reservations."""
    types, same = TYPES.ResourceClaimStatus.fields, True
    for field in ("allocation", "reservedFor"):
        same = same and semantic_equal(types[field].type, status.get(field), before.get(field))
    if same:
        return []
    verb = ctx.verb
    if ctx.authorize(verb, _GROUP, "resourceclaims", "binding", "", ""):
        return []
    inner = _denied(ctx, verb, "binding", "", "")
    detail = (
        f'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="{verb}"'
        f" permission: {inner}"
    )
    return [forbidden(Path("status.allocation"), detail)]


def _denied(ctx: Context, verb: str, subresource: str, namespace: str, name: str) -> str:
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    subject = qualified("resourceclaims", _GROUP) + (f' "{name}"' if name else "")
    return (
        f'{subject} is forbidden: User "{ctx.user.name}" cannot {verb} resource "resourceclaims/{subresource}" in API'
        f' group "{_GROUP}" {where}'
    )


def _changed_drivers(devices: list[Json], before: list[Json]) -> list[str]:
    kind = TYPES.AllocatedDeviceStatus
    new = {device_identity(device): device for device in devices}
    old = {device_identity(device): device for device in before}
    drivers = {
        device.get("driver", "")
        for key, device in new.items()
        if key not in old or not semantic_equal(kind, device, old[key])
    }
    return sorted(drivers | {device.get("driver", "") for key, device in old.items() if key not in new})


def _node_of_allocation(allocation: Json) -> str:
    """Return the node that the allocation names; "" if it does not name exactly one."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields = terms[0].get("matchFields") or []
    if len(fields) != 1:
        return ""
    (requirement,) = fields
    values = requirement.get("values") or []
    fits = requirement.get("key") == "metadata.name" and requirement.get("operator") == "In" and len(values) == 1
    return values[0] if fits else ""


def _is_on_node(ctx: Context, node: str) -> bool:
    """Return whether the caller is a service account whose token names this node."""
    if not node or not ctx.user.name.startswith(_SERVICE_ACCOUNT) or ctx.user.name.count(":") != 3:
        return False
    nodes = ctx.user.extra.get(_NODE_NAME, ())
    return len(nodes) == 1 and nodes[0] == node and not dns_subdomain(node)


def authorize_devices(ctx: Context, status: Json, before: Json) -> list[FieldError]:
    """Require a permission per driver whose device status changes. One of the verbs is enough."""
    drivers = _changed_drivers(status.get("devices") or [], before.get("devices") or [])
    if not drivers:
        return []
    verb = ctx.verb
    verbs = [f"arbitrary-node:{verb}"]
    if _is_on_node(ctx, _node_of_allocation(status["allocation"])):
        verbs.insert(0, f"associated-node:{verb}")
    errors = []
    for driver in drivers:
        if any(ctx.authorize(each, _GROUP, "resourceclaims", "driver", ctx.namespace, driver) for each in verbs):
            continue
        inner = _denied(ctx, verbs[0], "driver", ctx.namespace, driver)
        detail = (
            f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission:'
            f" {inner}"
        )
        errors.append(forbidden(Path("status.devices"), detail))
    return errors


def _authorize_status(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    """Check admin access, and the permissions for parts of the status."""
    status, before = obj["status"], old.get("status") or {}
    errors = admin_access_of_results(ctx, results_of(status), results_of(before), obj["metadata"].get("namespace", ""))
    if ctx.features.enabled("DRAResourceClaimGranularStatusAuthorization"):
        errors += authorize_binding(ctx, status, before)
        if (
            (status.get("devices") or before.get("devices"))
            and status.get("allocation") is not None
            and ctx.features.enabled("DRAResourceClaimDeviceStatus")
        ):
            errors += authorize_devices(ctx, status, before)
    return errors


# --- the resource
# ----------------------------------------------------------------------------------------------------------------------


def _drop_deallocated_devices(features: Features, status: Json, before: Json) -> None:
    """Drop the device reports of removed allocations from `status` in place."""
    if not features.enabled("DRAResourceClaimDeviceStatus") and not before.get("devices"):
        return
    gone = set(map(device_identity, results_of(before))) - set(map(device_identity, results_of(status)))
    kept = [device for device in status["devices"] if device_identity(device) not in gone]
    if kept:
        status["devices"] = kept
    else:
        del status["devices"]


class ResourceClaimStrategy(StatusStrategy):
    keeps_metadata = True
    asks_authorizer = True

    def drop_gated(self, ctx: Context, obj: Json, old: Json | None) -> None:
        drop_disabled(ctx, obj, old)

    def validate_first(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        if old is None:
            return admin_access_of_requests(ctx, obj["spec"], obj["metadata"].get("namespace", ""))
        return _authorize_status(ctx, obj, old) if ctx.subresource == "status" else []

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return validate_spec(ctx, obj["spec"], SPEC)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _CHANGES.errors(Path(), obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        super().prepare_for_status_update(ctx, obj, old)
        obj.setdefault("status", {})
        drop_disabled(ctx, obj, old)
        if obj["status"].get("devices"):
            _drop_deallocated_devices(ctx.features, obj["status"], old.get("status") or {})

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        env = Env(ctx.features, obj["spec"], deleted="deletionTimestamp" in obj["metadata"])
        return STATUS_CHECKS.errors(_STATUS, obj["status"], env, old.get("status") or {})


RESOURCE_CLAIMS: Final = Resource(
    group="resource.k8s.io",
    kind="ResourceClaim",
    plural="resourceclaims",
    singular="resourceclaim",
    namespaced=True,
    versions=versions_of("ResourceClaim", to_hub=flat.claim_to_hub, from_hub=flat.claim_from_hub),
    strategy=ResourceClaimStrategy(),
    storage_prefix="resourceclaims",
    columns=CLAIM_COLUMNS,
    subresources=(Subresource(name="status", tables=False),),
    delete_returns_object=True,
)
