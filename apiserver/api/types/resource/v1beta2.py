"""resource.k8s.io/v1beta2: the four kinds of v1 with all their fields, and DeviceTaintRule."""

from __future__ import annotations

from apiserver.api.types.resource.taint_rules import TaintRules

TYPES = TaintRules("v1beta2")

DeviceClass = TYPES.DeviceClass
DeviceClassList = TYPES.DeviceClassList
ResourceClaim = TYPES.ResourceClaim
ResourceClaimList = TYPES.ResourceClaimList
ResourceClaimTemplate = TYPES.ResourceClaimTemplate
ResourceClaimTemplateList = TYPES.ResourceClaimTemplateList
ResourceSlice = TYPES.ResourceSlice
ResourceSliceList = TYPES.ResourceSliceList
DeviceTaintRule = TYPES.DeviceTaintRule
DeviceTaintRuleList = TYPES.DeviceTaintRuleList
