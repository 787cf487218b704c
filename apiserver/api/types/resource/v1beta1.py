"""resource.k8s.io/v1beta1: requests are flat there, devices have their properties under `basic`."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT64, STRING, ListOf, MapOf, When, field
from apiserver.api.types.core.scheduling import NodeSelector
from apiserver.api.types.resource.family import Family


class _Flat(Family):
    def _devices(self) -> None:
        super()._devices()
        self.Device = self._struct("Device", lambda: (
            field("name", 1, STRING, omit=False, required=True, doc="Name of the device, unique in its pool."),
            field("basic", 2, self.BasicDevice, pointer=True, doc="The properties of the device."),
        ), doc="Device is one device with its properties.")
        self.BasicDevice = self._struct("BasicDevice", lambda: (
            field("attributes", 1, MapOf(self.DeviceAttribute, key=self.QualifiedName.go),
                doc="Properties that selectors and constraints look at."),
            field("capacity", 2, MapOf(self.DeviceCapacity, key=self.QualifiedName.go),
                doc="Amounts that the device has."),
            field("consumesCounters", 3, ListOf(self.DeviceCounterConsumption), gate="DRAPartitionableDevices",
                doc="What an allocation of the device takes from shared counters."),
            field("nodeName", 4, STRING, pointer=True, gate="DRAPartitionableDevices",
                doc="The one node on which the device can be used."),
            field("nodeSelector", 5, NodeSelector, pointer=True, doc="Nodes on which the device can be used."),
            field("allNodes", 6, BOOL, pointer=True, gate="DRAPartitionableDevices",
                doc="True when the device can be used on every node."),
            field("taints", 7, ListOf(self.DeviceTaint), gate="DRADeviceTaints",
                doc="Taints that the driver has put on the device."),
            field("bindsToNode", 8, BOOL, pointer=True, gate="DRADeviceBindingConditions,DRAResourceClaimDeviceStatus",
                doc="True when an allocation is only valid on the node that was chosen."),
            field("bindingConditions", 9, ListOf(STRING), keep_empty=True,
                gate="DRADeviceBindingConditions,DRAResourceClaimDeviceStatus",
                doc="Conditions that must be true before a pod with the device is bound."),
            field("bindingFailureConditions", 10, ListOf(STRING), keep_empty=True,
                gate="DRADeviceBindingConditions,DRAResourceClaimDeviceStatus",
                doc="Conditions that, when true, mean that binding has failed."),
            field("allowMultipleAllocations", 11, BOOL, pointer=True, gate="DRAConsumableCapacity",
                doc="True when several requests may share the device."),
            field("nodeAllocatableResourceMappings", 12, MapOf(self.NodeAllocatableResourceMapping,
                key="v1.ResourceName"), gate="DRANodeAllocatableResources",
                doc="How the device counts against the resources of its node."),
        ), doc="BasicDevice holds the properties of a device.")

    def _slices(self) -> None:
        super()._slices()
        self.ResourceSliceSpec = self._struct("ResourceSliceSpec", lambda: (
            field("driver", 1, STRING, omit=False, required=True,
                doc="Name of the driver that offers the devices; it cannot be changed."),
            field("pool", 2, self.ResourcePool, omit=False, required=True, doc="The pool that this slice belongs to."),
            field("nodeName", 3, STRING, doc="The one node on which the devices can be used."),
            field("nodeSelector", 4, NodeSelector, pointer=True, doc="Nodes on which the devices can be used."),
            field("allNodes", 5, BOOL, doc="True when the devices can be used on every node."),
            field("devices", 6, ListOf(self.Device), keep_empty=True, doc="The devices of this slice."),
            field("perDeviceNodeSelection", 7, BOOL, pointer=True, gate="DRAPartitionableDevices",
                doc="True when each device says for itself where it can be used."),
            field("sharedCounters", 8, ListOf(self.CounterSet), keep_empty=True, gate="DRAPartitionableDevices",
                doc="Counters that its devices draw from."),
        ), doc="ResourceSliceSpec lists devices of one pool.")

    def _requests(self) -> None:
        super()._requests()
        self.DeviceRequest = self._struct("DeviceRequest", lambda: (
            field("name", 1, STRING, omit=False, required=True,
                doc="Name by which constraints, configuration and containers refer to this request."),
            field("deviceClassName", 2, STRING, omit=False,
                doc="Name of the DeviceClass whose selectors and configuration apply to this request."),
            field("selectors", 3, ListOf(self.DeviceSelector),
                doc="Conditions that a device must meet, all of them, in addition to those of the class."),
            field("allocationMode", 4, self.DeviceAllocationMode, fills=When("deviceClassName", None, "ExactCount"),
                doc="How many devices are wanted: ExactCount (the default) for `count` devices, All for every "
                    "matching device."),
            field("count", 5, INT64, fills=When("deviceClassName", None, When("allocationMode", "ExactCount", 1)),
                doc="Number of devices for ExactCount; 1 when not set."),
            field("adminAccess", 6, BOOL, pointer=True, gate="DRAAdminAccess",
                doc="Asks for access to devices regardless of who else uses them; needs a namespace that allows it."),
            field("firstAvailable", 7, ListOf(self.DeviceSubRequest), gate="DRAPrioritizedList",
                doc="Alternatives in order of preference; the first that can be satisfied is taken."),
            field("tolerations", 8, ListOf(self.DeviceToleration), gate="DRADeviceTaints",
                doc="Device taints that this request puts up with."),
            field("capacity", 9, self.CapacityRequirements, pointer=True, gate="DRAConsumableCapacity",
                doc="Amounts that each allocated device must be able to give."),
        ), doc="DeviceRequest asks for devices, either exactly in one way or as a list of alternatives.")
        self.DeviceSubRequest = self._struct("DeviceSubRequest", lambda: (
            field("name", 1, STRING, omit=False, required=True,
                doc="Name of this alternative; it is addressed as request/alternative."),
            field("deviceClassName", 2, STRING, omit=False, required=True,
                doc="Name of the DeviceClass whose selectors and configuration apply to this request."),
            field("selectors", 3, ListOf(self.DeviceSelector),
                doc="Conditions that a device must meet, all of them, in addition to those of the class."),
            field("allocationMode", 4, self.DeviceAllocationMode, fills="ExactCount",
                doc="How many devices are wanted: ExactCount (the default) for `count` devices, All for every "
                    "matching device."),
            field("count", 5, INT64, fills=When("allocationMode", "ExactCount", 1),
                doc="Number of devices for ExactCount; 1 when not set."),
            field("tolerations", 7, ListOf(self.DeviceToleration), gate="DRADeviceTaints",
                doc="Device taints that this request puts up with."),
            field("capacity", 8, self.CapacityRequirements, pointer=True, gate="DRAConsumableCapacity",
                doc="Amounts that each allocated device must be able to give."),
        ), doc="DeviceSubRequest is one alternative of a request.")


TYPES = _Flat("v1beta1")

DeviceClass = TYPES.DeviceClass
DeviceClassList = TYPES.DeviceClassList
ResourceClaim = TYPES.ResourceClaim
ResourceClaimList = TYPES.ResourceClaimList
ResourceClaimTemplate = TYPES.ResourceClaimTemplate
ResourceClaimTemplateList = TYPES.ResourceClaimTemplateList
ResourceSlice = TYPES.ResourceSlice
ResourceSliceList = TYPES.ResourceSliceList
