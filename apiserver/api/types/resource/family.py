"""The types of resource.k8s.io, written once for all its versions.

`Family("v1")` has all types of a version. v1beta2 has the same shape; v1beta1 overrides the types that are flat there.
Types refer to each other through the family, so an override applies everywhere.
"""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import BOOL, INT64, QUANTITY, RAW, STRING, TIME, ListOf, MapOf, When, field
from apiserver.api.schema.limits import FIXED, Immutable, Limits
from apiserver.api.schema.markers import If, Invalid, Required, Union, UntilError, equals, is_set
from apiserver.api.types.core.scheduling import NodeSelector
from apiserver.api.types.meta import TYPE_META, UID, Condition, ObjectMeta, list_of
from apiserver.api.types.resource.device_types import DeviceTypes

#: Protobuf number of the fields of KEP-5194, which upstream has not numbered. Upstream may assign the next free numbers
#: (2 and up in ResourceClaimSpec, 6 and up in AllocationResult; 2 and 4 are retired) to other fields. Ours is therefore
#: the KEP's number; clients that do not know it skip the field.
_RESERVED_FOR_WORKLOADS = 5194
_ONE_WAY = "exactly one of `exactly` or `firstAvailable` is required"
_NO_COUNT = "must not be specified when allocationMode is 'All'"
_COUNT = If(
    equals("allocationMode", "ExactCount"),
    ("count",),
    otherwise=(UntilError(("allocationMode", Invalid("count", _NO_COUNT, when=is_set("count")))),),
)


class Family(DeviceTypes):
    """All types of one version."""

    def _build(self) -> None:
        super()._build()
        self._requests()
        self._allocations()
        self._kinds()

    def _requests(self) -> None:
        """Define device requests of claims."""
        self.DeviceClaim = self._struct("DeviceClaim", lambda: (
            field("requests", 1, ListOf(self.DeviceRequest), omit=False, limits=Limits(items=32, unique="name"),
                doc="Requests for devices; each must be satisfied for the claim to be allocated."),
            field("constraints", 2, ListOf(self.DeviceConstraint), limits=Limits(items=32),
                doc="Rules that the devices of several requests must satisfy together."),
            field("config", 3, ListOf(self.DeviceClaimConfiguration), limits=Limits(items=32),
                doc="Configuration that is handed to drivers, for some or all requests."),
        ), doc="DeviceClaim holds device requests together with constraints and configuration.")
        self.DeviceRequest = self._struct("DeviceRequest", lambda: (
            field("name", 1, STRING, omit=False, required=True, limits=Limits(format="dns-label"),
                doc="Name by which constraints, configuration and containers refer to this request."),
            field("exactly", 2, self.ExactDeviceRequest, pointer=True, doc="The one way to satisfy this request."),
            field("firstAvailable", 3, ListOf(self.DeviceSubRequest), gate="DRAPrioritizedList",
                limits=Limits(items=8, unique="name"),
                doc="Alternatives in order of preference; the first that can be satisfied is taken."),
        ), doc="DeviceRequest requests devices, either exactly in one way or as a list of alternatives.", rules=(
            "name",
            UntilError((
                Union(("exactly", "firstAvailable"), none=Required("", _ONE_WAY),
                    many=Invalid("", f"{_ONE_WAY}, but multiple fields are set", shown=None)),
                "exactly",
                "firstAvailable",
            )),
        ))
        self.ExactDeviceRequest = self._struct("ExactDeviceRequest", lambda: (
            field("deviceClassName", 1, STRING, omit=False, required=True,
                limits=Limits(required=True, format="subdomain"),
                doc="Name of the DeviceClass whose selectors and configuration apply to this request."),
            field("selectors", 2, ListOf(self.DeviceSelector), limits=Limits(items=32),
                doc="Conditions that a device must meet, all of them, in addition to those of the class."),
            field("allocationMode", 3, self.DeviceAllocationMode, fills="ExactCount", limits=Limits(empty=True),
                doc="Number of devices: ExactCount (the default) for `count` devices, All for every matching device."),
            field("count", 4, INT64, fills=When("allocationMode", "ExactCount", 1),
                limits=Limits(least=1, words="must be greater than zero"),
                doc="Number of devices for ExactCount; 1 when not set."),
            field("adminAccess", 5, BOOL, pointer=True, gate="DRAAdminAccess",
                doc="True for administrative access to devices regardless of other users; needs a namespace that "
                    "allows it."),
            field("tolerations", 6, ListOf(self.DeviceToleration), gate="DRADeviceTaints",
                doc="Device taints that this request tolerates."),
            field("capacity", 7, self.CapacityRequirements, pointer=True, gate="DRAConsumableCapacity",
                doc="Amounts that each allocated device must be able to give."),
        ), doc="ExactDeviceRequest requests one or more devices of one class.",
            rules=("deviceClassName", "selectors", _COUNT, "tolerations"))
        self.DeviceSubRequest = self._struct("DeviceSubRequest", lambda: (
            field("name", 1, STRING, omit=False, required=True, limits=Limits(format="dns-label"),
                doc="Name of this alternative; it is addressed as request/alternative."),
            field("deviceClassName", 2, STRING, omit=False, required=True,
                limits=Limits(required=True, format="subdomain"),
                doc="Name of the DeviceClass whose selectors and configuration apply to this request."),
            field("selectors", 3, ListOf(self.DeviceSelector), limits=Limits(items=32),
                doc="Conditions that a device must meet, all of them, in addition to those of the class."),
            field("allocationMode", 4, self.DeviceAllocationMode, fills="ExactCount", limits=Limits(empty=True),
                doc="Number of devices: ExactCount (the default) for `count` devices, All for every matching device."),
            field("count", 5, INT64, fills=When("allocationMode", "ExactCount", 1),
                limits=Limits(least=1, words="must be greater than zero"),
                doc="Number of devices for ExactCount; 1 when not set."),
            field("tolerations", 6, ListOf(self.DeviceToleration), gate="DRADeviceTaints",
                doc="Device taints that this request tolerates."),
            field("capacity", 7, self.CapacityRequirements, pointer=True, gate="DRAConsumableCapacity",
                doc="Amounts that each allocated device must be able to give."),
        ), doc="DeviceSubRequest is one alternative of a request.",
            rules=("name", "deviceClassName", "selectors", _COUNT, "tolerations"))
        self.CapacityRequirements = self._struct("CapacityRequirements", lambda: (
            field("requests", 1, MapOf(QUANTITY, key=self.QualifiedName.go),
                doc="Amount needed of each named capacity."),
        ), doc="CapacityRequirements lists amounts that a device must provide.")
        self.DeviceSelector = self._struct("DeviceSelector", lambda: (
            field("cel", 1, self.CELDeviceSelector, pointer=True, doc="A CEL expression that decides about a device."),
        ), doc="DeviceSelector is one condition on a device.")
        self.CELDeviceSelector = self._struct("CELDeviceSelector", lambda: (
            field("expression", 1, STRING, omit=False, required=True, limits=Limits(length=10240),
                doc="Expression over `device` that is true for suitable devices."),
        ), doc="CELDeviceSelector holds a CEL expression.")
        self.DeviceConstraint = self._struct("DeviceConstraint", lambda: (
            field("requests", 1, ListOf(STRING), limits=Limits(items=32, unique="*"),
                doc="Requests that are bound by this rule; all of them when empty."),
            field("matchAttribute", 2, self.FullyQualifiedName, pointer=True,
                limits=Limits(format="fully-qualified-name"),
                doc="Fully qualified attribute that must have the same value on all devices."),
            field("distinctAttribute", 3, self.FullyQualifiedName, pointer=True, gate="DRAConsumableCapacity",
                limits=Limits(format="fully-qualified-name"),
                doc="Fully qualified attribute that must have a different value on each device."),
        ), doc="DeviceConstraint relates the devices of several requests.")
        self.DeviceToleration = self._struct("DeviceToleration", lambda: (
            field("key", 1, STRING, limits=Limits(format="label-key"),
                doc="Taint key; every key when empty (only with Exists)."),
            field("operator", 2, self.DeviceTolerationOperator, default="Equal", limits=Limits(required=True),
                doc="How values are compared: Equal (the default), or Exists for any value."),
            field("value", 3, STRING, limits=Limits(format="label-value"), doc="Taint value for the operator Equal."),
            field("effect", 4, self.DeviceTaintEffect, doc="Taint effect; every effect when empty."),
            field("tolerationSeconds", 5, INT64, pointer=True,
                doc="How long a NoExecute taint is tolerated; forever when not set."),
        ), doc="DeviceToleration lets a request use devices with certain taints.", rules=(
            "key",
            UntilError(("operator", If(
                equals("operator", "Exists"),
                (Invalid("value", "must be empty for operator `Exists`", when=is_set("value")),),
                otherwise=("value",),
            ))),
            "effect",
        ))
        self.DeviceConfiguration = self._struct("DeviceConfiguration", lambda: (
            field("opaque", 1, self.OpaqueDeviceConfiguration, pointer=True,
                doc="Parameters that only the driver understands."),
        ), doc="DeviceConfiguration holds configuration in one of several forms.")
        self.OpaqueDeviceConfiguration = self._struct("OpaqueDeviceConfiguration", lambda: (
            field("driver", 1, STRING, omit=False, required=True,
                limits=Limits(required=True, length=63, format="driver-name"),
                doc="Name of the driver that the parameters are for."),
            field("parameters", 2, RAW, omit=False, required=True, limits=Limits(required=True, length=10240),
                doc="The driver's parameters, any JSON object."),
        ), doc="OpaqueDeviceConfiguration is a driver's own configuration.")
        self.DeviceClaimConfiguration = self._struct("DeviceClaimConfiguration", lambda: (
            field("requests", 1, ListOf(STRING), limits=Limits(items=32, unique="*"),
                doc="Requests that this configuration is for; all of them when empty."),
            field("", 2, self.DeviceConfiguration, inline=True),
        ), doc="DeviceClaimConfiguration is driver configuration in a claim.")
        self.ResourceClaimSpec = self._struct("ResourceClaimSpec", lambda: (
            field("devices", 1, self.DeviceClaim, omit=False,
                doc="The requested devices, rules between them and configuration for them."),
            field("reservedFor", _RESERVED_FOR_WORKLOADS, self.ResourceClaimConsumerReference, pointer=True,
                gate="DRAReservedForWorkloads",
                doc="The one consumer that the claim is reserved for, instead of each pod; it is in the claim's "
                    "namespace."),
        ), doc="ResourceClaimSpec describes the requested devices.")

    def _allocations(self) -> None:
        """Define allocation results and statuses of claims."""
        self.AllocationResult = self._struct("AllocationResult", lambda: (
            field("devices", 1, self.DeviceAllocationResult, omit=False,
                doc="The allocated devices and their configuration."),
            field("nodeSelector", 3, NodeSelector, pointer=True,
                doc="Nodes on which the devices can be used; every node when not set."),
            field("allocationTimestamp", 5, TIME, pointer=True,
                gate=gated("DRADeviceBindingConditions,DRAResourceClaimDeviceStatus", "never"),
                doc="Time of the allocation."),
            field("reservedForAnyPod", _RESERVED_FOR_WORKLOADS, BOOL, pointer=True, gate="DRAReservedForWorkloads",
                doc="True when every pod that refers to the claim may use it, without being listed in "
                    "status.reservedFor."),
        ), doc="AllocationResult has the allocated devices and the nodes that can use them.")
        self.DeviceAllocationResult = self._struct("DeviceAllocationResult", lambda: (
            field("results", 1, ListOf(self.DeviceRequestAllocationResult), limits=Limits(items=32),
                doc="One entry for each allocated device."),
            field("config", 2, ListOf(self.DeviceAllocationConfiguration), limits=Limits(items=64),
                doc="Configuration from class and claim, in the order in which drivers apply it."),
        ), doc="DeviceAllocationResult holds devices and configuration of an allocation.")
        self.DeviceRequestAllocationResult = self._struct("DeviceRequestAllocationResult", lambda: (
            field("request", 1, STRING, omit=False, required=True,
                doc="The request, or request/alternative, that this device satisfies."),
            field("driver", 2, STRING, omit=False, required=True,
                limits=Limits(required=True, length=63, format="driver-name"),
                doc="Driver of the device."),
            field("pool", 3, STRING, omit=False, required=True,
                limits=Limits(required=True, length=253, format="pool-name"),
                doc="Pool of the device."),
            field("device", 4, STRING, omit=False, required=True, limits=Limits(format="dns-label"),
                doc="Name of the device in its pool."),
            field("adminAccess", 5, BOOL, pointer=True, gate=gated("DRAAdminAccess", "object"),
                doc="True when the device was allocated for administrative access."),
            field("tolerations", 6, ListOf(self.DeviceToleration), gate=gated("DRADeviceTaints", "never"),
                doc="Tolerations of the request at the time of allocation."),
            field("bindingConditions", 7, ListOf(STRING), gate="DRADeviceBindingConditions",
                limits=Limits(items=4, format="label-key"),
                doc="Conditions that must be true in status.devices before the pod is bound."),
            field("bindingFailureConditions", 8, ListOf(STRING), gate="DRADeviceBindingConditions",
                limits=Limits(items=4, format="label-key"),
                doc="Conditions that, when true, mean that binding has failed."),
            field("shareID", 9, UID, pointer=True, gate=gated("DRAConsumableCapacity", "object"),
                limits=Limits(format="uid"),
                doc="Identity of this share of a device that may be allocated several times."),
            field("consumedCapacity", 10, MapOf(QUANTITY, key=self.QualifiedName.go),
                gate=gated("DRAConsumableCapacity", "object"),
                doc="Amounts of the device's capacity that this share uses."),
        ), doc="DeviceRequestAllocationResult is one device that was allocated for one request.")
        self.DeviceAllocationConfiguration = self._struct("DeviceAllocationConfiguration", lambda: (
            field("source", 1, self.AllocationConfigSource, omit=False, required=True, limits=Limits(required=True),
                doc="FromClass or FromClaim."),
            field("requests", 2, ListOf(STRING), limits=Limits(items=32, unique="*"),
                doc="Requests that this configuration is for; all of them when empty."),
            field("", 3, self.DeviceConfiguration, inline=True),
        ), doc="DeviceAllocationConfiguration is configuration of an allocation and its source.")
        self.ResourceClaimConsumerReference = self._struct("ResourceClaimConsumerReference", lambda: (
            field("apiGroup", 1, STRING, doc="Group of the consumer's resource; empty for the core group."),
            field("resource", 3, STRING, omit=False, required=True, limits=Limits(required=True),
                doc="Plural resource name of the consumer, such as pods."),
            field("name", 4, STRING, omit=False, required=True, limits=Limits(required=True),
                doc="Name of the consumer."),
            field("uid", 5, UID, omit=False, required=True, limits=Limits(required=True), doc="UID of the consumer."),
        ), doc="ResourceClaimConsumerReference names a user of a claim, in the claim's namespace.")
        self.AllocatedDeviceStatus = self._struct("AllocatedDeviceStatus", lambda: (
            field("driver", 1, STRING, omit=False, required=True,
                limits=Limits(required=True, length=63, format="driver-name"),
                doc="Driver of the device."),
            field("pool", 2, STRING, omit=False, required=True,
                limits=Limits(required=True, length=253, format="pool-name"),
                doc="Pool of the device."),
            field("device", 3, STRING, omit=False, required=True, limits=Limits(format="dns-label"),
                doc="Name of the device in its pool."),
            field("shareID", 7, STRING, pointer=True, gate=gated("DRAConsumableCapacity", "object"),
                limits=Limits(format="uid"),
                doc="The share of the device, when it is shared."),
            field("conditions", 4, ListOf(Condition, "map", ("type",)), omit=False, limits=Limits(items=8),
                doc="Latest conditions of the device."),
            field("data", 5, RAW, pointer=True, limits=Limits(length=10240),
                doc="Further report of the driver as a JSON object."),
            field("networkData", 6, self.NetworkDeviceData, pointer=True, doc="Network facts about the device."),
        ), doc="AllocatedDeviceStatus is a driver's report about an allocated device.")
        self.NetworkDeviceData = self._struct("NetworkDeviceData", lambda: (
            field("interfaceName", 1, STRING, limits=Limits(length=256),
                doc="Name of the interface inside of the pod."),
            field("ips", 2, ListOf(STRING), limits=Limits(items=16, unique="*"),
                doc="Addresses of the interface in CIDR notation."),
            field("hardwareAddress", 3, STRING, limits=Limits(length=128),
                doc="Hardware address, such as a MAC address."),
        ), doc="NetworkDeviceData describes a network device.")
        self.ResourceClaimStatus = self._struct("ResourceClaimStatus", lambda: (
            field("allocation", 1, self.AllocationResult, pointer=True,
                limits=Limits(immutable=Immutable(once=True, removable=True)),
                doc="The result of allocation; set while the claim has devices."),
            field("reservedFor", 2, ListOf(self.ResourceClaimConsumerReference, "map", ("uid",), merge_key="uid"),
                limits=Limits(items=256, unique="uid"),
                doc="Current consumers of the claim, usually pods."),
            field("devices", 4, ListOf(self.AllocatedDeviceStatus, "map", ("driver", "device", "pool", "shareID")),
                gate="DRAResourceClaimDeviceStatus",
                doc="Reports of drivers about allocated devices."),
        ), doc="ResourceClaimStatus has the allocation and the users of a claim.")

    def _kinds(self) -> None:
        """Define the kinds and their lists."""
        self.ResourceClaimTemplateSpec = self._struct("ResourceClaimTemplateSpec", lambda: (
            field("metadata", 1, ObjectMeta, omit=False, doc="Labels and annotations for the claims."),
            field("spec", 2, self.ResourceClaimSpec, omit=False, required=True,
                doc="Spec for the claims, copied as it is."),
        ), doc="ResourceClaimTemplateSpec describes the created claims.")
        self.DeviceClassConfiguration = self._struct("DeviceClassConfiguration", lambda: (
            field("", 1, self.DeviceConfiguration, inline=True),
        ), doc="DeviceClassConfiguration is driver configuration in a class.")
        self.DeviceClassSpec = self._struct("DeviceClassSpec", lambda: (
            field("selectors", 1, ListOf(self.DeviceSelector), limits=Limits(items=32),
                doc="Conditions that every device of the class meets."),
            field("config", 2, ListOf(self.DeviceClassConfiguration), limits=Limits(items=32),
                doc="Configuration for each device that is allocated through the class."),
            field("extendedResourceName", 4, STRING, pointer=True, gate="DRAExtendedResource",
                doc="Extended resource name under which pods may ask for devices of the class."),
        ), doc="DeviceClassSpec defines a device class.")
        self.DeviceClass = self._kind("DeviceClass", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
            field("spec", 2, self.DeviceClassSpec, omit=False, required=True,
                doc="Selectors and configuration of the class."),
        ), doc="DeviceClass is a named kind of devices for claims.")
        self.ResourceClaim = self._kind("ResourceClaim", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
            field("spec", 2, self.ResourceClaimSpec, omit=False, required=True, limits=Limits(immutable=FIXED),
                doc="The requested devices; it cannot be changed after creation."),
            field("status", 3, self.ResourceClaimStatus, omit=False, doc="Allocation and consumers."),
        ), doc="ResourceClaim requests devices and records the allocated devices and their users.")
        self.ResourceClaimTemplate = self._kind("ResourceClaimTemplate", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
            field("spec", 2, self.ResourceClaimTemplateSpec, omit=False, required=True, limits=Limits(immutable=FIXED),
                doc="The claim to make; it cannot be changed after creation."),
        ), doc="ResourceClaimTemplate is the template of claims that are created for pods.")
        self.ResourceSlice = self._kind("ResourceSlice", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
            field("spec", 2, self.ResourceSliceSpec, omit=False, required=True,
                doc="The devices and their nodes."),
        ), doc="ResourceSlice is a part of a pool of devices, published by a driver.")
        self.DeviceClassList = list_of(self.DeviceClass)
        self.ResourceClaimList = list_of(self.ResourceClaim)
        self.ResourceClaimTemplateList = list_of(self.ResourceClaimTemplate)
        self.ResourceSliceList = list_of(self.ResourceSlice)
