"""Fields of pods that a disabled gate drops, unless the stored pod has them already (api.md 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from apiserver.registry.strategy import Context
from apiserver.resources.gating import Rule, drop, rule

__all__ = ["RULES", "drop_disabled"]

Json = dict[str, Any]

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def _has_health(pod: Json, message: bool) -> bool:
    for container in _container_statuses(pod.get("status") or {}):
        for resource in container.get("allocatedResourcesStatus") or ():
            if not message or any("message" in health for health in resource.get("resources") or ()):
                return True
    return False


def _container_statuses(status: Json) -> Iterator[Json]:
    for field in _STATUSES:
        yield from status.get(field) or ()


def _has(section: str, field: str) -> Any:
    return lambda pod: bool((pod.get(section) or {}).get(field))


_HEALTH: Final = tuple(f"status.{field}[].allocatedResourcesStatus" for field in _STATUSES)
#: Of a whole pod.
RULES: Final[tuple[Rule, ...]] = (
    rule(
        "DynamicResourceAllocation", _has("spec", "resourceClaims"),
        "spec.resourceClaims", *(f"spec.{field}[].resources.claims" for field in _CONTAINERS), "status.resourceClaimStatuses",
    ),
    rule("GenericWorkload", lambda pod: "schedulingGroup" in pod.get("spec", {}), "spec.schedulingGroup"),
    rule("DRAExtendedResource", _has("status", "extendedResourceClaimStatus"), "status.extendedResourceClaimStatus"),
    rule("DRANodeAllocatableResources", _has("status", "nodeAllocatableResourceClaimStatuses"), "status.nodeAllocatableResourceClaimStatuses"),
    rule("ResourceHealthStatus", lambda pod: _has_health(pod, message=False), *_HEALTH),
    rule("ResourceHealthStatusMessage", lambda pod: _has_health(pod, message=True), *(f"{field}[].resources[].message" for field in _HEALTH)),
)  # fmt: skip


def drop_disabled(ctx: Context, obj: Json, old: Json | None) -> None:
    """Changes `obj` in place. A section that comes from `old` has only what the stored pod uses."""
    drop(ctx, RULES, obj, "", old or {})
