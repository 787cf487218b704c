"""The types of resource.k8s.io, written once for all its versions.

`Family("v1")` is the whole set of a version's types; v1beta2 has the same shape, v1beta1 overrides what is flat there.
Types refer to each other through the family, so an override is seen everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

from apiserver.api.limits import FIXED, Immutable, Limits
from apiserver.api.schema import (
    BOOL,
    INT64,
    NOW,
    QUANTITY,
    RAW,
    STRING,
    TIME,
    Field,
    ListOf,
    MapOf,
    Struct,
    When,
    field,
    gated,
    string,
)
from apiserver.api.types.core.scheduling import NodeSelector
from apiserver.api.types.meta import TYPE_META, UID, Condition, ObjectMeta, list_of

GROUP = "resource.k8s.io"

#: Protobuf number of the fields of KEP-5194, which upstream has not numbered. The next ones free there (2 and up in
#: ResourceClaimSpec, 6 and up in AllocationResult; 2 and 4 are retired) may come to mean something else, so ours is the
#: KEP's own: a client that does not know it skips it.
_RESERVED_FOR_WORKLOADS = 5194


#: Attributes and capacities of one device, together.
PROPERTIES = 32
#: Values of all attributes of one device: a list counts as its length.
ATTRIBUTE_VALUES = 48
#: Devices of one slice, when one has taints, counters or lists as attributes.
ADVANCED_DEVICES = 64
_IN_A_DEVICE = f"{ATTRIBUTE_VALUES} values in a device"


class Family:
    """All types of one version. Building it costs some microseconds: fields are made on first use."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.QualifiedName = string(f"{version}.QualifiedName")
        self.FullyQualifiedName = string(f"{version}.FullyQualifiedName")
        self.DeviceTaintEffect = string(f"{version}.DeviceTaintEffect", "NoExecute", "NoSchedule", "None")
        self.DeviceAllocationMode = string(f"{version}.DeviceAllocationMode", "All", "ExactCount")
        self.DeviceTolerationOperator = string(f"{version}.DeviceTolerationOperator", "Equal", "Exists")
        self.AllocationConfigSource = string(f"{version}.AllocationConfigSource", "FromClaim", "FromClass")
        self._devices()
        self._slices()
        self._requests()
        self._allocations()
        self._kinds()

    def _struct(self, name: str, build: Callable[[], tuple[Field, ...]], doc: str = "") -> Struct:
        """A struct whose empty lists and maps are kept until the object is stored: rules tell some of them from absent
        ones, and errors show all.
        """

        def fields() -> tuple[Field, ...]:
            made = build()
            for each in made:
                each.keep_empty = each.omit and isinstance(each.type, ListOf | MapOf)
            return made

        return Struct(f"io.k8s.api.resource.{self.version}.{name}", fields, doc=doc)

    def _kind(self, name: str, build: Callable[[], tuple[Field, ...]], doc: str = "") -> Struct:
        return Struct(f"io.k8s.api.resource.{self.version}.{name}", build, gvk=(GROUP, self.version, name), doc=doc)

    def _devices(self) -> None:
        """One device with what it offers."""
        self.Device = self._struct("Device", lambda: (
            field("name", 1, STRING, omit=False, required=True, limits=Limits(format="dns-label"),
                doc="Name of the device, unique in its pool."),
            field("attributes", 2, MapOf(self.DeviceAttribute, key=self.QualifiedName.go),
                limits=Limits(format="qualified-name", also=f"{PROPERTIES} with capacity"),
                doc="Properties that selectors and constraints look at."),
            field("capacity", 3, MapOf(self.DeviceCapacity, key=self.QualifiedName.go),
                limits=Limits(format="qualified-name", also=f"{PROPERTIES} with attributes"),
                doc="Amounts that the device has."),
            field("consumesCounters", 4, ListOf(self.DeviceCounterConsumption), gate="DRAPartitionableDevices",
                limits=Limits(items=2, unique="counterSet"),
                doc="What an allocation of the device takes from shared counters."),
            field("nodeName", 5, STRING, pointer=True, gate="DRAPartitionableDevices",
                doc="The one node on which the device can be used."),
            field("nodeSelector", 6, NodeSelector, pointer=True, gate="DRAPartitionableDevices",
                doc="Nodes on which the device can be used."),
            field("allNodes", 7, BOOL, pointer=True, gate="DRAPartitionableDevices",
                doc="True when the device can be used on every node."),
            field("taints", 8, ListOf(self.DeviceTaint), gate="DRADeviceTaints", limits=Limits(items=16),
                doc="Taints that the driver has put on the device."),
            field("bindsToNode", 9, BOOL, pointer=True, gate="DRADeviceBindingConditions,DRAResourceClaimDeviceStatus",
                doc="True when an allocation is only valid on the node that was chosen."),
            field("bindingConditions", 10, ListOf(STRING),
                gate="DRADeviceBindingConditions,DRAResourceClaimDeviceStatus",
                limits=Limits(items=4, format="label-key"),
                doc="Conditions that must be true before a pod with the device is bound."),
            field("bindingFailureConditions", 11, ListOf(STRING),
                gate="DRADeviceBindingConditions,DRAResourceClaimDeviceStatus",
                limits=Limits(items=4, format="label-key"),
                doc="Conditions that, when true, mean that binding has failed."),
            field("allowMultipleAllocations", 12, BOOL, pointer=True, gate="DRAConsumableCapacity",
                doc="True when several requests may share the device."),
            field("nodeAllocatableResourceMappings", 13, MapOf(self.NodeAllocatableResourceMapping,
                key="v1.ResourceName"), gate="DRANodeAllocatableResources",
                doc="How the device counts against the resources of its node."),
        ), doc="Device is one device with its properties.")
        self.DeviceAttribute = self._struct("DeviceAttribute", lambda: (
            field("int", 2, INT64, pointer=True, doc="A number."),
            field("bool", 3, BOOL, pointer=True, doc="A truth value."),
            field("string", 4, STRING, pointer=True, limits=Limits(length=64), doc="A text of at most 64 characters."),
            field("version", 5, STRING, pointer=True, limits=Limits(length=64), doc="A semantic version."),
            field("ints", 6, ListOf(INT64), gate="DRAListTypeAttributes", limits=Limits(also=_IN_A_DEVICE),
                doc="A list of numbers."),
            field("bools", 7, ListOf(BOOL), gate="DRAListTypeAttributes", limits=Limits(also=_IN_A_DEVICE),
                doc="A list of truth values."),
            field("strings", 8, ListOf(STRING), gate="DRAListTypeAttributes", limits=Limits(also=_IN_A_DEVICE),
                doc="A list of texts."),
            field("versions", 9, ListOf(STRING), gate="DRAListTypeAttributes", limits=Limits(also=_IN_A_DEVICE),
                doc="A list of semantic versions."),
        ), doc="DeviceAttribute is the value of an attribute; exactly one field is set.")
        self.DeviceCapacity = self._struct("DeviceCapacity", lambda: (
            field("value", 1, QUANTITY, omit=False, required=True, doc="How much the device has."),
            field("requestPolicy", 2, self.CapacityRequestPolicy, pointer=True, gate="DRAConsumableCapacity",
                doc="Which amounts may be asked for when the device is shared."),
        ), doc="DeviceCapacity is an amount that a device has.")
        self.CapacityRequestPolicy = self._struct("CapacityRequestPolicy", lambda: (
            field("default", 1, QUANTITY, omit=False, pointer=True,
                doc="Amount that is used by a request that names none."),
            field("validValues", 3, ListOf(QUANTITY), limits=Limits(items=10),
                doc="The amounts that may be asked for; others are rounded up to one of them."),
            field("validRange", 4, self.CapacityRequestPolicyRange, pointer=True,
                doc="Range of amounts that may be asked for."),
        ), doc="CapacityRequestPolicy rules which amounts of a capacity may be asked for.")
        self.CapacityRequestPolicyRange = self._struct("CapacityRequestPolicyRange", lambda: (
            field("min", 1, QUANTITY, pointer=True, required=True, doc="Least amount."),
            field("max", 2, QUANTITY, pointer=True, doc="Greatest amount."),
            field("step", 3, QUANTITY, pointer=True, doc="Distance between valid amounts, counted from min."),
        ), doc="CapacityRequestPolicyRange is a range of amounts.")
        self.DeviceTaint = self._struct("DeviceTaint", lambda: (
            field("key", 1, STRING, omit=False, required=True, limits=Limits(format="label-key"),
                doc="Key of the taint, in the form of a label key."),
            field("value", 2, STRING, limits=Limits(format="label-value"), doc="Value of the taint."),
            field("effect", 3, self.DeviceTaintEffect, omit=False, required=True, limits=Limits(required=True),
                doc="None, NoSchedule or NoExecute."),
            field("timeAdded", 4, TIME, pointer=True, fills=NOW, doc="When the taint was set."),
        ), doc="DeviceTaint keeps requests without a matching toleration away from a device.")
        self.NodeAllocatableResourceMapping = self._struct("NodeAllocatableResourceMapping", lambda: (
            field("capacityKey", 1, self.QualifiedName, pointer=True,
                doc="Capacity of the device whose amount counts; the device itself when not set."),
            field("allocationMultiplier", 2, QUANTITY, pointer=True, fills="1",
                doc="Factor from devices or capacity to the node's resource."),
        ), doc="NodeAllocatableResourceMapping says how a device counts against a resource of its node.")

    def _slices(self) -> None:
        """Pools of devices."""
        self.CounterSet = self._struct("CounterSet", lambda: (
            field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="dns-label"),
                doc="Name by which devices refer to the set."),
            field("counters", 2, MapOf(self.Counter), required=True,
                limits=Limits(required=True, items=32, format="dns-label"),
                doc="The counters and how much each has."),
        ), doc="CounterSet is a named set of counters.")
        self.Counter = self._struct("Counter", lambda: (
            field("value", 1, QUANTITY, omit=False, required=True, doc="How much there is."),
        ), doc="Counter is an amount.")
        self.ResourcePool = self._struct("ResourcePool", lambda: (
            field("name", 1, STRING, omit=False, required=True,
                limits=Limits(required=True, length=253, format="pool-name", immutable=FIXED),
                doc="Name of the pool; for devices of a node often the node's name."),
            field("generation", 2, INT64, omit=False, required=True,
                limits=Limits(least=0, words="must be greater than or equal to zero"),
                doc="Grows with each change of the pool; only slices of the highest generation count."),
            field("resourceSliceCount", 3, INT64, omit=False, required=True,
                limits=Limits(least=1, words="must be greater than zero"),
                doc="Number of slices that make up this generation."),
        ), doc="ResourcePool identifies a pool and one generation of it.")
        self.DeviceCounterConsumption = self._struct("DeviceCounterConsumption", lambda: (
            field("counterSet", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="dns-label"),
                doc="Name of the counter set."),
            field("counters", 2, MapOf(self.Counter), required=True,
                limits=Limits(required=True, items=32, format="dns-label"),
                doc="How much is taken from each counter."),
        ), doc="DeviceCounterConsumption says what a device takes from a counter set.")
        self.ResourceSliceSpec = self._struct("ResourceSliceSpec", lambda: (
            field("driver", 1, STRING, omit=False, required=True,
                limits=Limits(required=True, length=63, format="driver-name", immutable=FIXED),
                doc="Name of the driver that offers the devices; it cannot be changed."),
            field("pool", 2, self.ResourcePool, omit=False, required=True, doc="The pool that this slice belongs to."),
            field("nodeName", 3, STRING, pointer=True, limits=Limits(immutable=FIXED),
                doc="The one node on which the devices can be used."),
            field("nodeSelector", 4, NodeSelector, pointer=True, doc="Nodes on which the devices can be used."),
            field("allNodes", 5, BOOL, pointer=True, doc="True when the devices can be used on every node."),
            field("devices", 6, ListOf(self.Device),
                limits=Limits(items=128, unique="name",
                    also=f"{ADVANCED_DEVICES} with taints, counters or lists as attributes"),
                doc="The devices of this slice."),
            field("perDeviceNodeSelection", 7, BOOL, pointer=True, gate="DRAPartitionableDevices",
                doc="True when each device says for itself where it can be used."),
            field("sharedCounters", 8, ListOf(self.CounterSet), gate="DRAPartitionableDevices",
                limits=Limits(items=8, unique="name"),
                doc="Counters that its devices draw from."),
        ), doc="ResourceSliceSpec lists devices of one pool.")

    def _requests(self) -> None:
        """What claims ask for."""
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
        ), doc="DeviceRequest asks for devices, either exactly in one way or as a list of alternatives.")
        self.ExactDeviceRequest = self._struct("ExactDeviceRequest", lambda: (
            field("deviceClassName", 1, STRING, omit=False, required=True,
                limits=Limits(required=True, format="subdomain"),
                doc="Name of the DeviceClass whose selectors and configuration apply to this request."),
            field("selectors", 2, ListOf(self.DeviceSelector), limits=Limits(items=32),
                doc="Conditions that a device must meet, all of them, in addition to those of the class."),
            field("allocationMode", 3, self.DeviceAllocationMode, fills="ExactCount",
                doc="How many devices are wanted: ExactCount (the default) for `count` devices, All for every "
                    "matching device."),
            field("count", 4, INT64, fills=When("allocationMode", "ExactCount", 1),
                doc="Number of devices for ExactCount; 1 when not set."),
            field("adminAccess", 5, BOOL, pointer=True, gate="DRAAdminAccess",
                doc="Asks for access to devices regardless of who else uses them; needs a namespace that allows it."),
            field("tolerations", 6, ListOf(self.DeviceToleration), gate="DRADeviceTaints",
                doc="Device taints that this request puts up with."),
            field("capacity", 7, self.CapacityRequirements, pointer=True, gate="DRAConsumableCapacity",
                doc="Amounts that each allocated device must be able to give."),
        ), doc="ExactDeviceRequest asks for one or more devices of one class.")
        self.DeviceSubRequest = self._struct("DeviceSubRequest", lambda: (
            field("name", 1, STRING, omit=False, required=True, limits=Limits(format="dns-label"),
                doc="Name of this alternative; it is addressed as request/alternative."),
            field("deviceClassName", 2, STRING, omit=False, required=True,
                limits=Limits(required=True, format="subdomain"),
                doc="Name of the DeviceClass whose selectors and configuration apply to this request."),
            field("selectors", 3, ListOf(self.DeviceSelector), limits=Limits(items=32),
                doc="Conditions that a device must meet, all of them, in addition to those of the class."),
            field("allocationMode", 4, self.DeviceAllocationMode, fills="ExactCount",
                doc="How many devices are wanted: ExactCount (the default) for `count` devices, All for every "
                    "matching device."),
            field("count", 5, INT64, fills=When("allocationMode", "ExactCount", 1),
                doc="Number of devices for ExactCount; 1 when not set."),
            field("tolerations", 6, ListOf(self.DeviceToleration), gate="DRADeviceTaints",
                doc="Device taints that this request puts up with."),
            field("capacity", 7, self.CapacityRequirements, pointer=True, gate="DRAConsumableCapacity",
                doc="Amounts that each allocated device must be able to give."),
        ), doc="DeviceSubRequest is one alternative of a request.")
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
            field("value", 3, STRING, doc="Taint value for the operator Equal."),
            field("effect", 4, self.DeviceTaintEffect, doc="Taint effect; every effect when empty."),
            field("tolerationSeconds", 5, INT64, pointer=True,
                doc="How long a NoExecute taint is tolerated; forever when not set."),
        ), doc="DeviceToleration lets a request use devices with certain taints.")
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
                doc="The one user for which the claim is reserved as a whole, instead of for each pod; it is in the "
                    "claim's namespace."),
        ), doc="ResourceClaimSpec says which devices are wanted.")

    def _allocations(self) -> None:
        """What claims have got."""
        self.AllocationResult = self._struct("AllocationResult", lambda: (
            field("devices", 1, self.DeviceAllocationResult, omit=False,
                doc="The allocated devices and their configuration."),
            field("nodeSelector", 3, NodeSelector, pointer=True,
                doc="Nodes on which the devices can be used; every node when not set."),
            field("allocationTimestamp", 5, TIME, pointer=True,
                gate=gated("DRADeviceBindingConditions,DRAResourceClaimDeviceStatus", "never"),
                doc="When the allocation was made."),
            field("reservedForAnyPod", _RESERVED_FOR_WORKLOADS, BOOL, pointer=True, gate="DRAReservedForWorkloads",
                doc="True when every pod that refers to the claim may use it, without being listed in "
                    "status.reservedFor."),
        ), doc="AllocationResult says which devices a claim has and where it can be used.")
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
                doc="True when the device was given for administrative access."),
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
        ), doc="DeviceRequestAllocationResult is one device, given to one request.")
        self.DeviceAllocationConfiguration = self._struct("DeviceAllocationConfiguration", lambda: (
            field("source", 1, self.AllocationConfigSource, omit=False, required=True, limits=Limits(required=True),
                doc="FromClass or FromClaim."),
            field("requests", 2, ListOf(STRING), limits=Limits(items=32, unique="*"),
                doc="Requests that this configuration is for; all of them when empty."),
            field("", 3, self.DeviceConfiguration, inline=True),
        ), doc="DeviceAllocationConfiguration is configuration of an allocation, with where it came from.")
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
                doc="Anything that the driver wants to report, as a JSON object."),
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
                doc="Who may use the claim at the moment, usually pods."),
            field("devices", 4, ListOf(self.AllocatedDeviceStatus, "map", ("driver", "device", "pool", "shareID")),
                gate="DRAResourceClaimDeviceStatus",
                doc="What drivers report about allocated devices."),
        ), doc="ResourceClaimStatus says what a claim has got.")

    def _kinds(self) -> None:
        """The kinds and their lists."""
        self.ResourceClaimTemplateSpec = self._struct("ResourceClaimTemplateSpec", lambda: (
            field("metadata", 1, ObjectMeta, omit=False, doc="Labels and annotations for the claims."),
            field("spec", 2, self.ResourceClaimSpec, omit=False, required=True,
                doc="Spec for the claims, copied as it is."),
        ), doc="ResourceClaimTemplateSpec describes the claims that are made.")
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
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object metadata."),
            field("spec", 2, self.DeviceClassSpec, omit=False, required=True,
                doc="Which devices belong to the class and how they are configured."),
        ), doc="DeviceClass is a named kind of devices that claims ask for.")
        self.ResourceClaim = self._kind("ResourceClaim", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object metadata."),
            field("spec", 2, self.ResourceClaimSpec, omit=False, required=True, limits=Limits(immutable=FIXED),
                doc="What is asked for; it cannot be changed after creation."),
            field("status", 3, self.ResourceClaimStatus, omit=False, doc="What was allocated, and who may use it."),
        ), doc="ResourceClaim asks for devices and records which ones were given to it and who uses them.")
        self.ResourceClaimTemplate = self._kind("ResourceClaimTemplate", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object metadata."),
            field("spec", 2, self.ResourceClaimTemplateSpec, omit=False, required=True, limits=Limits(immutable=FIXED),
                doc="The claim to make; it cannot be changed after creation."),
        ), doc="ResourceClaimTemplate is the pattern for claims that are made for pods.")
        self.ResourceSlice = self._kind("ResourceSlice", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object metadata."),
            field("spec", 2, self.ResourceSliceSpec, omit=False, required=True,
                doc="The devices and where they can be used."),
        ), doc="ResourceSlice is a part of a pool of devices, published by a driver.")
        self.DeviceClassList = list_of(self.DeviceClass)
        self.ResourceClaimList = list_of(self.ResourceClaim)
        self.ResourceClaimTemplateList = list_of(self.ResourceClaimTemplate)
        self.ResourceSliceList = list_of(self.ResourceSlice)
