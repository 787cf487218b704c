"""Devices, and the slices in which drivers publish them: the first half of a version's types (`Family`)."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.api.schema.language import (
    BOOL,
    INT64,
    NOW,
    QUANTITY,
    STRING,
    TIME,
    Field,
    ListOf,
    MapOf,
    Struct,
    field,
    string,
)
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.schema.markers import If, Invalid, Reference, Step, Union, equals
from apiserver.api.types.core.scheduling import NodeSelector

GROUP = "resource.k8s.io"

#: Attributes and capacities of one device, together.
PROPERTIES = 32
#: Values of all attributes of one device; a list counts its items.
ATTRIBUTE_VALUES = 48
#: Devices of one slice if any device has taints, counters or list attributes.
ADVANCED_DEVICES = 64
_NO_MAPPING = "at least one of allocationMultiplier or capacityKey must be set"
_IN_A_DEVICE = f"{ATTRIBUTE_VALUES} values in a device"


class DeviceTypes:
    """The first half of a family of types. Building one costs a few µs: fields are built on first use."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.QualifiedName = string(f"{version}.QualifiedName")
        self.FullyQualifiedName = string(f"{version}.FullyQualifiedName")
        self.DeviceTaintEffect = string(f"{version}.DeviceTaintEffect", "NoExecute", "NoSchedule", "None")
        self.DeviceAllocationMode = string(f"{version}.DeviceAllocationMode", "All", "ExactCount")
        self.DeviceTolerationOperator = string(f"{version}.DeviceTolerationOperator", "Equal", "Exists")
        self.AllocationConfigSource = string(f"{version}.AllocationConfigSource", "FromClaim", "FromClass")
        self._build()

    def _build(self) -> None:
        self._devices()
        self._slices()

    def _struct(
        self, name: str, build: Callable[[], tuple[Field, ...]], doc: str = "", rules: tuple[Step, ...] = ()
    ) -> Struct:
        """Build a struct that keeps empty lists and maps until the object is stored.

        Rules distinguish some of them from absent ones, and errors show them.
        """

        def fields() -> tuple[Field, ...]:
            made = build()
            for each in made:
                each.keep_empty = each.omit and isinstance(each.type, ListOf | MapOf)
            return made

        return Struct(f"io.k8s.api.resource.{self.version}.{name}", fields, doc=doc, rules=rules)

    def _kind(self, name: str, build: Callable[[], tuple[Field, ...]], doc: str = "") -> Struct:
        return Struct(f"io.k8s.api.resource.{self.version}.{name}", build, gvk=(GROUP, self.version, name), doc=doc)

    def _devices(self) -> None:
        """Define a device and its attributes and capacity."""
        self.Device = self._struct("Device", lambda: (
            field("name", 1, STRING, omit=False, required=True, limits=Limits(format="dns-label"),
                doc="Name of the device, unique in its pool."),
            field("attributes", 2, MapOf(self.DeviceAttribute, key=self.QualifiedName.go),
                limits=Limits(format="qualified-name", also=f"{PROPERTIES} with capacity"),
                doc="Properties for selectors and constraints."),
            field("capacity", 3, MapOf(self.DeviceCapacity, key=self.QualifiedName.go),
                limits=Limits(format="qualified-name", also=f"{PROPERTIES} with attributes"),
                doc="Amounts that the device has."),
            field("consumesCounters", 4, ListOf(self.DeviceCounterConsumption), gate="DRAPartitionableDevices",
                limits=Limits(items=2, unique="counterSet"),
                doc="Consumption of shared counters by an allocation of the device."),
            field("nodeName", 5, STRING, pointer=True, gate="DRAPartitionableDevices",
                limits=Limits(format="subdomain"),
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
                doc="Consumption of node resources by the device."),
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
            field("value", 1, QUANTITY, omit=False, required=True, doc="Amount that the device has."),
            field("requestPolicy", 2, self.CapacityRequestPolicy, pointer=True, gate="DRAConsumableCapacity",
                doc="Permitted amounts of requests when the device is shared."),
        ), doc="DeviceCapacity is an amount that a device has.")
        self.CapacityRequestPolicy = self._struct("CapacityRequestPolicy", lambda: (
            field("default", 1, QUANTITY, omit=False, pointer=True,
                doc="Default amount of a request."),
            field("validValues", 3, ListOf(QUANTITY), limits=Limits(items=10),
                doc="Permitted amounts; others are rounded up to one of them."),
            field("validRange", 4, self.CapacityRequestPolicyRange, pointer=True,
                doc="Range of permitted amounts."),
        ), doc="CapacityRequestPolicy limits the amounts of a capacity that requests may have.")
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
            field("timeAdded", 4, TIME, pointer=True, fills=NOW, doc="Time at which the taint was set."),
        ), doc="DeviceTaint keeps requests without a matching toleration away from a device.")
        self.NodeAllocatableResourceMapping = self._struct("NodeAllocatableResourceMapping", lambda: (
            field("capacityKey", 1, self.QualifiedName, pointer=True,
                doc="Capacity of the device whose amount counts; the device itself when not set."),
            field("allocationMultiplier", 2, QUANTITY, pointer=True, fills="1",
                limits=Limits(least=1, words="must be positive"),
                doc="Factor from devices or capacity to the node's resource."),
        ), doc="NodeAllocatableResourceMapping maps a device to an amount of a resource of its node.", rules=(
            Union(("allocationMultiplier", "capacityKey"), none=Invalid("", _NO_MAPPING, shown="")),
            "allocationMultiplier",
            If(
                equals("capacityKey", ""),
                (Invalid("capacityKey", "capacityKey must not be an empty string", shown=""),),
                otherwise=(Reference("capacityKey", among=lambda at: at.env),),
            ),
        ))

    def _slices(self) -> None:
        """Define slices and pools of devices."""
        self.CounterSet = self._struct("CounterSet", lambda: (
            field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="dns-label"),
                doc="Name by which devices refer to the set."),
            field("counters", 2, MapOf(self.Counter), required=True,
                limits=Limits(required=True, items=32, format="dns-label"),
                doc="The counters and how much each has."),
        ), doc="CounterSet is a named set of counters.")
        self.Counter = self._struct("Counter", lambda: (
            field("value", 1, QUANTITY, omit=False, required=True, doc="Amount of the counter."),
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
                doc="Amount taken from each counter."),
        ), doc="DeviceCounterConsumption has the amounts that a device takes from a counter set.")
        self.ResourceSliceSpec = self._struct("ResourceSliceSpec", lambda: (
            field("driver", 1, STRING, omit=False, required=True,
                limits=Limits(required=True, length=63, format="driver-name", immutable=FIXED),
                doc="Name of the driver that offers the devices; it cannot be changed."),
            field("pool", 2, self.ResourcePool, omit=False, required=True, doc="The pool that this slice belongs to."),
            field("nodeName", 3, STRING, pointer=True, limits=Limits(format="subdomain", immutable=FIXED),
                doc="The one node on which the devices can be used."),
            field("nodeSelector", 4, NodeSelector, pointer=True, doc="Nodes on which the devices can be used."),
            field("allNodes", 5, BOOL, pointer=True, doc="True when the devices can be used on every node."),
            field("devices", 6, ListOf(self.Device),
                limits=Limits(items=128, unique="name",
                    also=f"{ADVANCED_DEVICES} with taints, counters or lists as attributes"),
                doc="The devices of this slice."),
            field("perDeviceNodeSelection", 7, BOOL, pointer=True, gate="DRAPartitionableDevices",
                doc="True when each device has its own node selection."),
            field("sharedCounters", 8, ListOf(self.CounterSet), gate="DRAPartitionableDevices",
                limits=Limits(items=8, unique="name"),
                doc="Counters that its devices draw from."),
        ), doc="ResourceSliceSpec lists devices of one pool.")
