"""resource.k8s.io/v1, the hub of the group."""

from __future__ import annotations

from apiserver.api.types.resource.family import Family

TYPES = Family("v1")

DeviceClass = TYPES.DeviceClass
DeviceClassList = TYPES.DeviceClassList
ResourceClaim = TYPES.ResourceClaim
ResourceClaimList = TYPES.ResourceClaimList
ResourceClaimTemplate = TYPES.ResourceClaimTemplate
ResourceClaimTemplateList = TYPES.ResourceClaimTemplateList
ResourceSlice = TYPES.ResourceSlice
ResourceSliceList = TYPES.ResourceSliceList
