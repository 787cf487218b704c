"""resource.k8s.io/v1alpha3: DeviceTaintRule and ResourcePoolStatusRequest. It serves no other kinds."""

from __future__ import annotations

from apiserver.api.schema.language import INT32, INT64, STRING, ListOf, Struct, field
from apiserver.api.schema.limits import FIXED_UNSHOWN, Immutable, Limits
from apiserver.api.types.meta import TYPE_META, Condition, ObjectMeta, list_of
from apiserver.api.types.resource.taint_rules import TaintRules

TYPES = TaintRules("v1alpha3")

DeviceTaintRule = TYPES.DeviceTaintRule
DeviceTaintRuleList = TYPES.DeviceTaintRuleList

PoolStatus = Struct("io.k8s.api.resource.v1alpha3.PoolStatus", lambda: (
    field("driver", 1, STRING, required=True, limits=Limits(required=True, format="caseless-subdomain"),
        doc="Driver of the pool."),
    field("poolName", 2, STRING, required=True, limits=Limits(required=True, length=253, format="resource-pool-name"),
        doc="Name of the pool."),
    field("generation", 9, INT64, omit=False, required=True, limits=Limits(required=True, least=0),
        doc="Generation that the figures are for."),
    field("resourceSliceCount", 8, INT32, pointer=True, limits=Limits(least=1), doc="Number of slices of the pool."),
    field("totalDevices", 4, INT32, pointer=True, limits=Limits(least=0), doc="Number of devices."),
    field("allocatedDevices", 5, INT32, pointer=True, limits=Limits(least=0),
        doc="Number of devices that are allocated."),
    field("availableDevices", 6, INT32, pointer=True, limits=Limits(least=0),
        doc="Number of devices that could be allocated."),
    field("unavailableDevices", 7, INT32, pointer=True, limits=Limits(least=0),
        doc="Number of devices that cannot be allocated."),
    field("nodeName", 3, STRING, pointer=True, limits=Limits(format="long-name"), doc="Node that the pool belongs to."),
    field("validationError", 10, STRING, pointer=True, limits=Limits(length=256),
        doc="Reason that the pool cannot be used."),
), doc="PoolStatus has the figures of one pool.")
ResourcePoolStatusRequestSpec = Struct("io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequestSpec", lambda: (
    field("driver", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="caseless-subdomain"),
        doc="Pools of this driver."),
    field("poolName", 2, STRING, pointer=True, limits=Limits(length=253, format="resource-pool-name"),
        doc="The one pool of this name."),
    field("limit", 3, INT32, pointer=True, default=100, limits=Limits(required=True, least=1, most=1000),
        doc="Greatest number of pools in the answer."),
), doc="ResourcePoolStatusRequestSpec selects pools.")
ResourcePoolStatusRequestStatus = Struct("io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequestStatus", lambda: (
    field("poolCount", 6, INT32, pointer=True, required=True, limits=Limits(required=True, least=0),
        doc="Number of pools that match, those beyond the limit included."),
    field("pools", 2, ListOf(PoolStatus), limits=Limits(items=1000), doc="Figures of each pool."),
    field("conditions", 3, ListOf(Condition, "map", ("type",), merge_key="type"),
        limits=Limits(items=10, unique="type", whole=True),
        doc="Whether the request is complete or has failed."),
), doc="ResourcePoolStatusRequestStatus has the figures of the selected pools.")
ResourcePoolStatusRequest = Struct("io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequest", lambda: (
    TYPE_META,
    field("metadata", 1, ObjectMeta, omit=False, required=True, doc="Standard object's metadata."),
    field("spec", 2, ResourcePoolStatusRequestSpec, omit=False, required=True, limits=Limits(immutable=FIXED_UNSHOWN),
        doc="Selection of pools."),
    field("status", 3, ResourcePoolStatusRequestStatus, pointer=True, limits=Limits(immutable=Immutable(once=True)),
        doc="The answer."),
), gvk=("resource.k8s.io", "v1alpha3", "ResourcePoolStatusRequest"),
    doc="ResourcePoolStatusRequest requests figures about resource pools once.")
ResourcePoolStatusRequestList = list_of(ResourcePoolStatusRequest)
