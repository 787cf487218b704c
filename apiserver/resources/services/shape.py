"""Interpret the parts of a service's spec, and set its defaults."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from apiserver.api.objects import Json

__all__ = [
    "default",
    "externally_accessible",
    "has_addresses",
    "is_headless",
    "needs_health_check",
    "node_ports",
    "same_fields",
    "takes_node_ports",
]


_AFFINITY_SECONDS: Final = 10800


def externally_accessible(spec: Json) -> bool:
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Json) -> bool:
    """Return whether a load balancer probes the nodes for local pods."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def has_addresses(spec: Json) -> bool:
    return spec.get("type") != "ExternalName"


def takes_node_ports(spec: Json) -> bool:
    """Return whether ports get node ports without requesting them."""
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def is_headless(spec: Json) -> bool:
    addresses: list[str] | None = spec.get("clusterIPs")
    return addresses == ["None"]


def node_ports(spec: Json) -> list[int]:
    return [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]


def same_fields(left: Json, right: Json, *names: str) -> bool:
    """Return whether two specs are equal in these fields. Empty and absent are equal."""
    return all((left.get(name) or None) == (right.get(name) or None) for name in names)


def default(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    _default_affinity(spec)
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _default_affinity(spec: Json) -> None:
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif (
        affinity == "ClientIP"
        and ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") is None
    ):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
