"""Resource amounts of core/v1: requests, limits, claims of containers."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import QUANTITY, STRING, ListOf, MapOf, Struct, field

ResourceList = MapOf(QUANTITY, key="v1.ResourceName", go="v1.ResourceList")

ResourceClaim = Struct("io.k8s.api.core.v1.ResourceClaim", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of an entry in the pod's spec.resourceClaims."),
    field("request", 2, STRING,
        doc="The one request of the claim whose devices the container gets; those of all requests when empty."),
), doc="ResourceClaim lets a container use a claim of its pod.")
ResourceRequirements = Struct("io.k8s.api.core.v1.ResourceRequirements", lambda: (
    field("limits", 1, ResourceList, doc="Greatest amount of each resource that may be used."),
    field("requests", 2, ResourceList,
        doc="Amount of each resource that is set aside by the scheduler; the limit where only that is set."),
    field("claims", 3, ListOf(ResourceClaim, "map", ("name",)),
        gate=gated("DynamicResourceAllocation", "object", counts=False),
        doc="Claims of the pod whose devices are used here; only containers may set it."),
), doc="ResourceRequirements has the requests and limits of a container.")
VolumeResourceRequirements = Struct("io.k8s.api.core.v1.VolumeResourceRequirements", lambda: (
    field("limits", 1, ResourceList, doc="Greatest size that the volume may have, under the key storage."),
    field("requests", 2, ResourceList, doc="Least size that the volume must have, under the key storage."),
), doc="VolumeResourceRequirements has the size of a volume.")
