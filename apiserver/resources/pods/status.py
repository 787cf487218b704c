"""Validate the status of a pod, as written by nodes, schedulers and controllers.

Facts: pkg/apis/core/validation, ValidatePodStatusUpdate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    internal,
    invalid,
    not_supported,
    required,
    too_long,
)
from apiserver.api.helpers.pod_lifecycle import may_restart
from apiserver.api.objects import Json
from apiserver.api.types.core.pods import PodStatus
from apiserver.api.validation.changes import changes
from apiserver.api.values.bounded_cache import remembered
from apiserver.api.values.names import dns_label, dns_subdomain, label_key
from apiserver.api.values.networks import ip_family, legacy_ip
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.resource_names import is_native
from apiserver.resources.pods.updates import annotation_updates

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["validate_pod_status_update"]


_CHANGES: Final = changes(PodStatus)
_STATUS: Final = Path("status")
_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_HEALTH: Final = ("Healthy", "Unhealthy", "Unknown")
_MESSAGE_LIMIT: Final = 1024
_STATE: Final = "may not be transitioned to non-terminated state"
_MAPPED: Final = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or"
    " spec.containers.resources.requests"
)
_CLAIM_HEALTH: Final = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>'"
    " if request is empty"
)


def validate_pod_status_update(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    spec, status, before = obj["spec"], obj.get("status") or {}, old.get("status") or {}
    errors = annotation_updates(obj, old) + _conditions(status.get("conditions") or [])
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        path = _STATUS / "nominatedNodeName"
        errors += [invalid(path, nominated, text) for text in dns_subdomain(nominated)]
        if spec.get("nodeName") and ctx.features.enabled("ClearingNominatedNodeNameAfterBinding"):
            errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))
    if status.get("observedGeneration", 0) < 0:
        errors.append(
            invalid(_STATUS / "observedGeneration", status["observedGeneration"], "must be a non-negative integer")
        )
    errors += _CHANGES.errors(_STATUS, status, before)
    errors += _transitions(spec, status, before)
    errors += _claim_statuses(status.get("resourceClaimStatuses") or [], spec.get("resourceClaims") or [])
    if status.get("extendedResourceClaimStatus") is not None:
        errors += _extended(status["extendedResourceClaimStatus"], spec)
    errors += _node_allocatable(status, spec)
    strict = ctx.features.enabled("StrictIPCIDRValidation")
    errors += _addresses(_STATUS / "podIPs", status.get("podIPs") or [], before.get("podIPs") or [], strict)
    errors += _host_addresses(status, before, strict)
    return errors + _users(status, spec) + _health(status, spec)


#: Cached, because all pods have the same few condition types.
_wrong_type: Final = remembered(1024)(label_key)


def _conditions(conditions: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, condition in enumerate(conditions):
        kind, generation = condition.get("type", ""), condition.get("observedGeneration", 0)
        if generation < 0:
            path = (_STATUS / "conditions")[index] / "observedGeneration"
            errors.append(invalid(path, generation, "must be a non-negative integer"))
        if kind not in _SYSTEM_CONDITIONS:
            path = (_STATUS / "conditions")[index] / "Type"
            errors += [invalid(path, kind, text) for text in _wrong_type(kind)]
    return errors


def _transitions(spec: Json, status: Json, before: Json) -> list[FieldError]:
    """Reject restarts of containers that ended for good."""
    errors: list[FieldError] = []
    for field, listed in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        declared = {container.get("name", ""): container for container in spec.get(listed) or ()}
        new = {state.get("name", ""): state for state in status.get(field) or ()}
        for index, state in enumerate(before.get(field) or ()):
            ended, name = (state.get("state") or {}).get("terminated"), state.get("name", "")
            if ended is None or name not in new or (new[name].get("state") or {}).get("terminated") is not None:
                continue
            if not may_restart(spec, declared.get(name, {}), ended.get("exitCode", 0)):
                errors.append(forbidden((_STATUS / field)[index] / "state", _STATE))
    return errors


# --- claims
# ----------------------------------------------------------------------------------------------------------------------


def _claim_statuses(statuses: list[Json], claims: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    known, seen = {claim.get("name", "") for claim in claims}, set()
    for index, status in enumerate(statuses):
        path, name = (_STATUS / "resourceClaimStatuses")[index], status.get("name", "")
        if name not in known:
            errors.append(invalid(path / "name", name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(duplicate(path / "name", name))
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            errors += [invalid(path / "resourceClaimName", claim, text) for text in dns_subdomain(claim)]
    return errors


def _extended(status: Json, spec: Json) -> list[FieldError]:
    path = _STATUS / "extendedResourceClaimStatus"
    mappings = status.get("requestMappings") or []
    errors = [] if mappings else [required(path / "requestMappings", "at least one request mapping is required")]
    declared = {c.get("name", ""): c for c in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))}
    seen: set[tuple[str, str, str]] = set()
    for index, mapping in enumerate(mappings):
        at = (path / "requestMappings")[index]
        key = mapping.get("containerName", ""), mapping.get("resourceName", ""), mapping.get("requestName", "")
        container = declared.get(key[0])
        if container is None:
            detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(at / "containerName", key[0], detail))
        elif key[1] not in ((container.get("resources") or {}).get("requests") or {}):
            errors.append(invalid(at / "resourceName", key[1], _MAPPED))
        errors += [invalid(path / "requestName", key[2], text) for text in dns_label(key[2])]
        if key in seen:
            errors += [
                duplicate(at / field, value)
                for field, value in zip(("containerName", "resourceName", "requestName"), key, strict=True)
            ]
        seen.add(key)
    name = status.get("resourceClaimName", "")
    at = path / "resourceClaimName"
    return errors + ([invalid(at, name, text) for text in dns_subdomain(name)] if name else [required(at)])


def _node_allocatable(status: Json, spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    referenced = {
        c.get("resourceClaimName")
        for c in (*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ()))
    }
    for index, claim in enumerate(status.get("nodeAllocatableResourceClaimStatuses") or ()):
        path, name = (_STATUS / "nodeAllocatableResourceClaimStatuses")[index], claim.get("resourceClaimName", "")
        if not name:
            errors.append(required(path / "resourceClaimName", "must not be empty"))
        if name not in referenced:
            errors.append(invalid(path / "resourceClaimName", name, "no mapping found in pod reference"))
        errors += [
            required(path / field, "must not be empty") for field in ("containers", "resources") if not claim.get(field)
        ]
        for resource, amount in (claim.get("resources") or {}).items():
            at = (path / "resources").key(resource)
            if not is_native(resource):
                errors.append(invalid(at, Named(resource), "must be a node allocatable resource name"))
            if Quantity.parse(amount).sign < 0:
                errors.append(invalid(at, amount, "must be non-negative"))
    return errors


# --- addresses and health
# --------------------------------------------------------------------------------------------------------------------


def _addresses(path: Path, addresses: list[Json], before: list[Json], strict: bool) -> list[FieldError]:
    """Validate addresses: at most one per family. Stored addresses are not validated again."""
    errors: list[FieldError] = []
    if not addresses:
        return errors
    kept = {address.get("ip", "") for address in before}
    given = [address.get("ip", "") for address in addresses]
    for index, address in enumerate(given):
        if address not in kept:
            errors += legacy_ip(path[index], address, strict)
    if len(given) < 2:
        return errors
    families = [ip_family(address) for address in given]
    if 0 in families:
        wrong = families.index(0)
        errors.append(internal(path, f"failed to check for dual stack with error:invalid IP[{wrong}]: {given[wrong]}"))
    if len(given) > 2 or set(families) != {4, 6}:
        shown = [{"IP": address.get("ip", "")} for address in addresses]
        errors.append(invalid(path, shown, "may specify no more than one IP for each IP family"))
    return errors


def _host_addresses(status: Json, before: Json, strict: bool) -> list[FieldError]:
    addresses = status.get("hostIPs") or []
    path = _STATUS / "hostIPs"
    errors: list[FieldError] = []
    if addresses and status.get("hostIP", "") != addresses[0].get("ip", ""):
        errors.append(invalid(path[0] / "ip", addresses[0].get("ip", ""), "must be equal to `hostIP`"))
    return errors + _addresses(path, addresses, before.get("hostIPs") or [], strict)


def _users(status: Json, spec: Json) -> list[FieldError]:
    """Validate the users of containers that nodes report."""
    errors: list[FieldError] = []
    windows = (spec.get("os") or {}).get("name") == "windows"
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for index, state in enumerate(status.get(field) or ()):
            user = (state.get("user") or {}).get("linux")
            if user is None:
                continue
            path = (_STATUS / field)[index] / "user" / "linux"
            if windows:
                errors.append(forbidden(path, "cannot be set for a windows pod"))
                continue
            numbers = [(path / name, user.get(name, 0)) for name in ("uid", "gid")]
            numbers += [
                ((path / "supplementalGroups")[place], number)
                for place, number in enumerate(user.get("supplementalGroups") or ())
            ]
            errors += [
                invalid(at, number, "must be between 0 and 2147483647, inclusive")
                for at, number in numbers
                if not 0 <= number < 1 << 31
            ]
    return errors


def _health(status: Json, spec: Json) -> list[FieldError]:
    """Validate the health of devices that nodes report per container."""
    errors: list[FieldError] = []
    for field, listed in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        declared = {container.get("name", ""): container for container in spec.get(listed) or ()}
        for index, state in enumerate(status.get(field) or ()):
            for position, resource in enumerate(state.get("allocatedResourcesStatus") or ()):
                path = ((_STATUS / field)[index] / "allocatedResourcesStatus")[position]
                errors += _resource_health(path, resource, declared.get(state.get("name", "")))
    for index, state in enumerate(status.get("ephemeralContainerStatuses") or ()):
        if state.get("allocatedResourcesStatus"):
            path = (_STATUS / "ephemeralContainerStatuses")[index] / "allocatedResourcesStatus"
            errors.append(forbidden(path, "must not be specified in container status"))
    return errors


def _resource_health(path: Path, resource: Json, container: Json | None) -> list[FieldError]:
    errors: list[FieldError] = []
    name = resource.get("name", "")
    if container is not None:
        resources = container.get("resources") or {}
        if name.startswith("claim:"):
            claims = resources.get("claims") or ()
            known = {f"claim:{c.get('name', '')}" + (f"/{c['request']}" if c.get("request") else "") for c in claims}
            if name not in known:
                errors.append(invalid(path / "name", Named(name), _CLAIM_HEALTH))
        elif name not in (resources.get("requests") or {}):
            errors.append(invalid(path / "name", Named(name), "must match one of the container's resource requests"))
    seen: set[str] = set()
    for index, health in enumerate(resource.get("resources") or ()):
        at, value, message, identity = (
            (path / "resources")[index],
            health.get("health", ""),
            health.get("message"),
            health.get("resourceID", ""),
        )
        if value not in _HEALTH:
            errors.append(not_supported(at / "health", Named(value), _HEALTH))
        if message == "":
            errors.append(required(at / "message", "must be non-empty if specified"))
        elif message is not None and len(message.encode()) > _MESSAGE_LIMIT:
            errors.append(too_long(at / "message", _MESSAGE_LIMIT))
        if identity in seen:
            errors.append(duplicate(at / "resourceID", Named(identity)))
        seen.add(identity)
    return errors
