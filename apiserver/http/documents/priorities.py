"""The order of the groups and versions that this server itself serves, the highest priority first.

Facts: pkg/controlplane/apiserver (aggregator.go), and for custom ones pkg/controlplane/controller/crdregistration.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FIRST", "builtin", "group_priority", "version_priority"]

#: The group of API services, listed before all others.
FIRST: Final = "apiregistration.k8s.io"
#: Priorities of groups and their versions, the highest first.
_PRIORITIES: Final[dict[str, tuple[int, dict[str, int]]]] = {
    "": (18000, {"v1": 1}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15}),
    "authentication.k8s.io": (17700, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "authorization.k8s.io": (17600, {"v1": 15}),
    "autoscaling": (17500, {"v1": 15, "v2": 30}),
    "batch": (17400, {"v1": 15}),
    "certificates.k8s.io": (17300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "networking.k8s.io": (17200, {"v1": 15, "v1beta1": 9}),
    "policy": (17100, {"v1": 15}),
    "rbac.authorization.k8s.io": (17000, {"v1": 15}),
    "storage.k8s.io": (16800, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "apiextensions.k8s.io": (16700, {"v1": 15}),
    "admissionregistration.k8s.io": (16700, {"v1": 15, "v1beta1": 12, "v1alpha1": 9}),
    "scheduling.k8s.io": (16600, {"v1": 15, "v1alpha2": 2}),
    "coordination.k8s.io": (16500, {"v1": 15, "v1beta1": 13, "v1alpha2": 12}),
    "node.k8s.io": (16300, {"v1": 15}),
    "discovery.k8s.io": (16200, {"v1": 15}),
    "resource.k8s.io": (16200, {"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1": 21}),
    "internal.apiserver.k8s.io": (16000, {"v1alpha1": 9}),
    "storagemigration.k8s.io": (15800, {"v1beta1": 9}),
    # metrics-server's APIService
    "metrics.k8s.io": (100, {"v1beta1": 100}),
}
_CUSTOM: Final = (1000, 100)


def builtin(group: str, version: str) -> bool:
    """Return whether this is a version of one of Kubernetes' own groups with an API service."""
    return version in _PRIORITIES.get(group, (0, {}))[1]


def group_priority(group: str) -> int:
    return _PRIORITIES[group][0] if group in _PRIORITIES else _CUSTOM[0]


def version_priority(group: str, version: str) -> int:
    return _PRIORITIES.get(group, (0, {}))[1].get(version, _CUSTOM[1])
