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
    required,
)
from apiserver.api.helpers.pod_lifecycle import may_restart
from apiserver.api.objects import Json
from apiserver.api.types.core.container_statuses import LinuxContainerUser, ResourceHealth
from apiserver.api.types.core.pods import PodStatus
from apiserver.api.validation.changes import changes
from apiserver.api.validation.items import each_item, each_unique
from apiserver.api.values.bounded_cache import remembered
from apiserver.api.values.names import dns_label, dns_subdomain, label_key
from apiserver.api.values.networks import ip_family, legacy_ip
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.resource_names import is_native
from apiserver.resources.pods.updates import annotation_updates

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["validate_pod_status_update"]


_CHANGES: Final = changes(PodStatus)
_STATUS: Final = Path("status")
_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_MAPPING: Final = ("containerName", "resourceName", "requestName")
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
    known = {claim.get("name", "") for claim in claims}
    for path, status, is_repeated in each_unique(_STATUS / "resourceClaimStatuses", statuses, "name"):
        name = status.get("name", "")
        if name not in known:
            errors.append(invalid(path / "name", name, "must match the name of an entry in `spec.resourceClaims`"))
        if is_repeated:
            errors.append(duplicate(path / "name", name))
        claim = status.get("resourceClaimName")
        if claim is not None:
            errors += [invalid(path / "resourceClaimName", claim, text) for text in dns_subdomain(claim)]
    return errors


def _extended(status: Json, spec: Json) -> list[FieldError]:
    path = _STATUS / "extendedResourceClaimStatus"
    mappings = status.get("requestMappings") or []
    errors = [] if mappings else [required(path / "requestMappings", "at least one request mapping is required")]
    declared = {c.get("name", ""): c for c in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))}
    for at, mapping, is_repeated in each_unique(path / "requestMappings", mappings, *_MAPPING):
        key = [mapping.get(field, "") for field in _MAPPING]
        container = declared.get(key[0])
        if container is None:
            detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(at / "containerName", key[0], detail))
        elif key[1] not in ((container.get("resources") or {}).get("requests") or {}):
            errors.append(invalid(at / "resourceName", key[1], _MAPPED))
        errors += [invalid(path / "requestName", key[2], text) for text in dns_label(key[2])]
        if is_repeated:
            errors += [duplicate(at / field, value) for field, value in zip(_MAPPING, key, strict=True)]
    name = status.get("resourceClaimName", "")
    at = path / "resourceClaimName"
    return errors + ([invalid(at, name, text) for text in dns_subdomain(name)] if name else [required(at)])


def _node_allocatable(status: Json, spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    referenced = {
        c.get("resourceClaimName")
        for c in (*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ()))
    }
    reported = status.get("nodeAllocatableResourceClaimStatuses")
    for path, claim in each_item(_STATUS / "nodeAllocatableResourceClaimStatuses", reported):
        name = claim.get("resourceClaimName", "")
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
        for at, state in each_item(_STATUS / field, status.get(field)):
            user, path = (state.get("user") or {}).get("linux"), at / "user" / "linux"
            if user is not None and windows:
                errors.append(forbidden(path, "cannot be set for a windows pod"))
            elif user is not None:
                errors += RULES.of(LinuxContainerUser).errors(path, user)
    return errors


def _health(status: Json, spec: Json) -> list[FieldError]:
    """Validate the health of devices that nodes report per container."""
    errors: list[FieldError] = []
    for field, listed in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        declared = {container.get("name", ""): container for container in spec.get(listed) or ()}
        for at, state in each_item(_STATUS / field, status.get(field)):
            for path, resource in each_item(at / "allocatedResourcesStatus", state.get("allocatedResourcesStatus")):
                errors += _resource_health(path, resource, declared.get(state.get("name", "")))
    return errors + [
        forbidden(at / "allocatedResourcesStatus", "must not be specified in container status")
        for at, state in each_item(_STATUS / "ephemeralContainerStatuses", status.get("ephemeralContainerStatuses"))
        if state.get("allocatedResourcesStatus")
    ]


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
    for at, health, is_repeated in each_unique(path / "resources", resource.get("resources"), "resourceID"):
        errors += RULES.of(ResourceHealth).errors(at, health)
        if is_repeated:
            errors.append(duplicate(at / "resourceID", Named(health.get("resourceID", ""))))
    return errors
