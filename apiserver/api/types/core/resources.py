"""Resource amounts of core/v1: requests, limits, claims of containers."""

from __future__ import annotations

from apiserver.api.schema import QUANTITY, STRING, ListOf, MapOf, Struct, field

ResourceList = MapOf(QUANTITY, key="v1.ResourceName", go="v1.ResourceList")

ResourceClaim = Struct("io.k8s.api.core.v1.ResourceClaim", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("request", 2, STRING),
))
ResourceRequirements = Struct("io.k8s.api.core.v1.ResourceRequirements", lambda: (
    field("limits", 1, ResourceList),
    field("requests", 2, ResourceList),
    field("claims", 3, ListOf(ResourceClaim, "map", ("name",)), gate="DynamicResourceAllocation"),
))
VolumeResourceRequirements = Struct("io.k8s.api.core.v1.VolumeResourceRequirements", lambda: (
    field("limits", 1, ResourceList),
    field("requests", 2, ResourceList),
))
