"""ResourceQuota and LimitRange of core/v1."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, ListOf, Struct, field, string
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
    field("scopeName", 1, ResourceQuotaScope, omit=False, required=True,
        doc="Property to compare, such as PriorityClass."),
    field("operator", 2, ScopeSelectorOperator, omit=False, required=True,
        doc="In, NotIn, Exists or DoesNotExist; scopes other than PriorityClass and VolumeAttributesClass only know "
            "Exists."),
    field("values", 3, ListOf(STRING), doc="Values to compare with: at least one for In and NotIn, none otherwise."),
), doc="ScopedResourceSelectorRequirement is one condition on the objects that a quota counts.")
ScopeSelector = Struct("io.k8s.api.core.v1.ScopeSelector", lambda: (
    field("matchExpressions", 1, ListOf(ScopedResourceSelectorRequirement), doc="Conditions of which all must hold."),
), atomic=True, doc="ScopeSelector selects the objects that a quota counts.")
ResourceQuotaSpec = Struct("io.k8s.api.core.v1.ResourceQuotaSpec", lambda: (
    field("hard", 1, ResourceList,
        doc="Greatest total of each resource, such as requests.cpu, pods or count/jobs.batch."),
    field("scopes", 2, ListOf(ResourceQuotaScope),
        doc="Properties that an object must have, all of them, to be counted; every object is when empty. Fixed after "
            "creation."),
    field("scopeSelector", 3, ScopeSelector, pointer=True,
        doc="Further conditions on the objects that are counted, with operators and values."),
), doc="ResourceQuotaSpec limits the total use of the objects of a namespace.")
ResourceQuotaStatus = Struct("io.k8s.api.core.v1.ResourceQuotaStatus", lambda: (
    field("hard", 1, ResourceList, doc="Limits that are in force."),
    field("used", 2, ResourceList, doc="Actual total of each limited resource."),
), doc="ResourceQuotaStatus compares limits and use.")
ResourceQuota = Struct("io.k8s.api.core.v1.ResourceQuota", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, ResourceQuotaSpec, omit=False, doc="The limits."),
    field("status", 3, ResourceQuotaStatus, omit=False, doc="The limits in force and the actual use."),
), gvk=("", "v1", "ResourceQuota"), doc="ResourceQuota limits the total use of the objects of a namespace.")
LimitRangeItem = Struct("io.k8s.api.core.v1.LimitRangeItem", lambda: (
    field("type", 1, LimitType, omit=False, required=True, doc="Pod, Container or PersistentVolumeClaim."),
    field("max", 2, ResourceList, doc="Greatest amount of each resource."),
    field("min", 3, ResourceList, doc="Least amount of each resource."),
    field("default", 4, ResourceList, doc="Limit that a container gets when it has none; max when not set."),
    field("defaultRequest", 5, ResourceList,
        doc="Request that a container gets when it has none; default, or else min, when not set."),
    field("maxLimitRequestRatio", 6, ResourceList,
        doc="Greatest ratio of limit to request; if set, both are required and must not be zero."),
), doc="LimitRangeItem has limits for each object of one type.")
LimitRangeSpec = Struct("io.k8s.api.core.v1.LimitRangeSpec", lambda: (
    field("limits", 1, ListOf(LimitRangeItem), omit=False, required=True, doc="Limits, one entry for each type."),
), doc="LimitRangeSpec has limits for single objects of a namespace.")
LimitRange = Struct("io.k8s.api.core.v1.LimitRange", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
    field("spec", 2, LimitRangeSpec, omit=False, doc="The limits."),
), gvk=("", "v1", "LimitRange"),
    doc="LimitRange has limits and defaults for the resources of single pods, containers and claims in a namespace.")

ResourceQuotaList = list_of(ResourceQuota)
LimitRangeList = list_of(LimitRange)
