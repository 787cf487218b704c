"""Fields of pods that a disabled gate drops, unless the stored pod has them already (api.md 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from apiserver.registry.context import Context
from apiserver.resources.gating import Rule, drop, rule

__all__ = ["SPEC_RULES", "STATUS_RULES", "drop_disabled", "drop_from_spec"]

Json = dict[str, Any]

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def _has_health(pod: Json, message: bool) -> bool:
    for container in _container_statuses(pod.get("status") or {}):
        for resource in container.get("allocatedResourcesStatus") or ():
            if not message or any("message" in health for health in resource.get("resources") or ()):
                return True
    return False


def _has_volume_status(pod: Json) -> bool:
    mounts = (
        mount for state in _container_statuses(pod.get("status") or {}) for mount in state.get("volumeMounts") or ()
    )
    return any(mount.get("volumeStatus") is not None for mount in mounts)


def _container_statuses(status: Json) -> Iterator[Json]:
    for field in _STATUSES:
        yield from status.get(field) or ()


def _has(field: str) -> Any:
    return lambda spec: bool(spec.get(field))


def _signalled(spec: Json) -> Iterator[Json]:
    """Containers that name the signal which stops them."""
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            if "stopSignal" in (container.get("lifecycle") or ()):
                yield container


def _pod_has(section: str, field: str) -> Any:
    return lambda pod: bool((pod.get(section) or {}).get(field))


_HEALTH: Final = tuple(f"status.{field}[].allocatedResourcesStatus" for field in _STATUSES)
#: Of a pod's spec, also that of a template.
SPEC_RULES: Final[tuple[Rule, ...]] = (
    rule(
        "DynamicResourceAllocation",
        _has("resourceClaims"),
        "resourceClaims",
        *(f"{field}[].resources.claims" for field in _CONTAINERS),
    ),
    rule("GenericWorkload", lambda spec: "schedulingGroup" in spec, "schedulingGroup"),
    rule(
        "ContainerStopSignals",
        lambda spec: any(_signalled(spec)),
        *(f"{field}[].lifecycle.stopSignal" for field in _CONTAINERS),
    ),
)
#: Of a whole pod, for its status.
STATUS_RULES: Final[tuple[Rule, ...]] = (
    rule("DynamicResourceAllocation", _pod_has("spec", "resourceClaims"), "status.resourceClaimStatuses"),
    rule(
        "DRAExtendedResource", _pod_has("status", "extendedResourceClaimStatus"), "status.extendedResourceClaimStatus"
    ),
    rule(
        "DRANodeAllocatableResources",
        _pod_has("status", "nodeAllocatableResourceClaimStatuses"),
        "status.nodeAllocatableResourceClaimStatuses",
    ),
    rule("ResourceHealthStatus", lambda pod: _has_health(pod, message=False), *_HEALTH),
    rule(
        "ResourceHealthStatusMessage",
        lambda pod: _has_health(pod, message=True),
        *(f"{field}[].resources[].message" for field in _HEALTH),
    ),
    rule(
        "ImageVolumeWithDigest",
        _has_volume_status,
        *(f"status.{field}[].volumeMounts[].volumeStatus" for field in _STATUSES),
    ),
)


def drop_disabled(ctx: Context, obj: Json, old: Json | None) -> None:
    """Changes `obj` in place. A section that comes from `old` has only what the stored pod uses."""
    drop_from_spec(ctx, obj["spec"], None if old is None else old["spec"], "spec")
    drop(ctx, STATUS_RULES, obj, "", old or {})


def drop_from_spec(ctx: Context, spec: Json, old: Json | None, at: str) -> None:
    """Changes a pod's spec in place; `at` is its path, `old` the stored one. A lifecycle of nothing but a dropped
    signal goes with it.
    """
    alone = [container for container in _signalled(spec) if len(container["lifecycle"]) == 1]
    drop(ctx, SPEC_RULES, spec, at, old or {})
    for container in alone:
        if not container["lifecycle"]:
            del container["lifecycle"]
