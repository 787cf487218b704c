"""Who may ask for what: admin access by the namespace's label, parts of a claim's status by permissions of their own
(api.md 7.1, 7.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apiserver.api.equality import semantic_equal
from apiserver.api.fielderrors import FieldError, Path, forbidden, internal
from apiserver.api.names import dns_subdomain
from apiserver.api.status import qualified
from apiserver.api.types.resource.v1 import TYPES

if TYPE_CHECKING:
    from apiserver.registry.context import Context

__all__ = [
    "admin_access_of_requests",
    "admin_access_of_results",
    "authorize_binding",
    "authorize_devices",
    "device_identity",
]

Json = dict[str, Any]
Identity = tuple[str, str, str, str]

ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_ADMIN: Final = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
)
_GROUP: Final = "resource.k8s.io"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


def _namespace_allows(ctx: Context, path: Path, namespace: str) -> list[FieldError]:
    found = ctx.lookup("", "namespaces", "", namespace)
    if found is None:
        return [
            internal(path, f'could not retrieve namespace to verify admin access: namespaces "{namespace}" not found')
        ]
    labels = found["metadata"].get("labels") or {}
    return [] if labels.get(ADMIN_LABEL) == "true" else [forbidden(path, _ADMIN)]


def admin_access_of_requests(ctx: Context, spec: Json, namespace: str) -> list[FieldError]:
    """The first request for admin access decides. (The path leaves out `exactly`, for templates too.)"""
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


def device_identity(device: Json) -> Identity:
    """What makes an allocated device this one."""
    return device.get("driver", ""), device.get("pool", ""), device.get("device", ""), device.get("shareID") or ""


def authorize_binding(ctx: Context, status: Json, before: Json) -> list[FieldError]:
    """Allocation and reservations need their own permission, cluster-wide."""
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
    """The one node that the allocation names, if it does."""
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
    """The caller is a service account whose token names this node."""
    if not node or not ctx.user.name.startswith(_SERVICE_ACCOUNT) or ctx.user.name.count(":") != 3:
        return False
    nodes = ctx.user.extra.get(_NODE_NAME, ())
    return len(nodes) == 1 and nodes[0] == node and not dns_subdomain(node)


def authorize_devices(ctx: Context, status: Json, before: Json) -> list[FieldError]:
    """Device status needs a permission for each driver whose entries change; any of the verbs will do."""
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
