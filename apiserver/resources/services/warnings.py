"""Warn the authors of services (pkg/api/service/warnings.go)."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import Path
from apiserver.api.objects import Json
from apiserver.resources.common.addresses import address_warnings, subnet_warnings

__all__ = ["warnings_of"]


_SPEC: Final = Path("spec")
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"


def warnings_of(obj: Json) -> list[str]:
    spec = obj["spec"]
    external, outside = spec.get("type") == "ExternalName", spec.get("externalIPs") or []
    headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None"
    warnings: list[str] = []
    if _HINTS in (obj["metadata"].get("annotations") or {}):
        warnings.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    if not external and not headless:
        warnings += _each("clusterIPs", spec.get("clusterIPs") or ())
    if headless:
        warnings += [
            f"spec.{name} is ignored for headless services"
            for name, there in (
                ("loadBalancerIP", spec.get("loadBalancerIP")),
                ("externalIPs", outside),
                ("SessionAffinity", spec.get("sessionAffinity") != "None"),
            )
            if there
        ]
    warnings += _each("externalIPs", outside)
    if outside and not headless and not external:
        warnings.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.get("loadBalancerIP"):
        warnings += address_warnings(_SPEC / "loadBalancerIP", spec["loadBalancerIP"])
    for index, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warnings += subnet_warnings((_SPEC / "loadBalancerSourceRanges")[index], text)
    if external and outside:
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not external and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings


def _each(field: str, addresses: Any) -> list[str]:
    path = _SPEC / field
    return [text for index, address in enumerate(addresses) for text in address_warnings(path[index], address)]
