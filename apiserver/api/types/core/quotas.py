"""ResourceQuota and LimitRange of core/v1."""

from __future__ import annotations

from apiserver.api.schema import STRING, ListOf, Struct, field, string
from apiserver.api.types.core.resources import ResourceList
from apiserver.api.types.meta import TYPE_META, ObjectMeta, list_of

ResourceQuotaScope = string(
    "v1.ResourceQuotaScope", "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating",
        "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)
ScopeSelectorOperator = string("v1.ScopeSelectorOperator", "DoesNotExist", "Exists", "In", "NotIn")
LimitType = string("v1.LimitType")

ScopedResourceSelectorRequirement = Struct("io.k8s.api.core.v1.ScopedResourceSelectorRequirement", lambda: (
    field("scopeName", 1, ResourceQuotaScope, omit=False, required=True),
    field("operator", 2, ScopeSelectorOperator, omit=False, required=True),
    field("values", 3, ListOf(STRING)),
))
ScopeSelector = Struct("io.k8s.api.core.v1.ScopeSelector", lambda: (
    field("matchExpressions", 1, ListOf(ScopedResourceSelectorRequirement)),
), atomic=True)
ResourceQuotaSpec = Struct("io.k8s.api.core.v1.ResourceQuotaSpec", lambda: (
    field("hard", 1, ResourceList),
    field("scopes", 2, ListOf(ResourceQuotaScope)),
    field("scopeSelector", 3, ScopeSelector, pointer=True),
))
ResourceQuotaStatus = Struct("io.k8s.api.core.v1.ResourceQuotaStatus", lambda: (
    field("hard", 1, ResourceList),
    field("used", 2, ResourceList),
))
ResourceQuota = Struct("io.k8s.api.core.v1.ResourceQuota", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, ResourceQuotaSpec, omit=False),
    field("status", 3, ResourceQuotaStatus, omit=False),
), gvk=("", "v1", "ResourceQuota"))
LimitRangeItem = Struct("io.k8s.api.core.v1.LimitRangeItem", lambda: (
    field("type", 1, LimitType, omit=False, required=True),
    field("max", 2, ResourceList),
    field("min", 3, ResourceList),
    field("default", 4, ResourceList),
    field("defaultRequest", 5, ResourceList),
    field("maxLimitRequestRatio", 6, ResourceList),
))
LimitRangeSpec = Struct("io.k8s.api.core.v1.LimitRangeSpec", lambda: (
    field("limits", 1, ListOf(LimitRangeItem), omit=False, required=True),
))
LimitRange = Struct("io.k8s.api.core.v1.LimitRange", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, LimitRangeSpec, omit=False),
), gvk=("", "v1", "LimitRange"))

ResourceQuotaList = list_of(ResourceQuota)
LimitRangeList = list_of(LimitRange)
