"""resource.k8s.io/v1beta1: requests are flat, devices have their properties in `basic`."""

from __future__ import annotations

from apiserver.api.schema.language import Field, Struct, When, field
from apiserver.api.types.resource.family import Family


def _numbered(struct: Struct, **numbers: int) -> tuple[Field, ...]:
    """Return fields of another version's type, with all attributes, under this version's protobuf numbers."""
    return tuple(struct.fields[name].replaced(number=number) for name, number in numbers.items())


class _Flat(Family):
    def _devices(self) -> None:
        super()._devices()
        device = self.Device
        self.Device = self._struct("Device", lambda: (
            *_numbered(device, name=1),
            field("basic", 2, self.BasicDevice, pointer=True, doc="The properties of the device."),
        ), doc="Device is one device with its properties.")
        self.BasicDevice = self._struct("BasicDevice", lambda: _numbered(device, attributes=1, capacity=2,
            consumesCounters=3, nodeName=4, nodeSelector=5, allNodes=6, taints=7, bindsToNode=8, bindingConditions=9,
            bindingFailureConditions=10, allowMultipleAllocations=11, nodeAllocatableResourceMappings=12,
        ), doc="BasicDevice holds the properties of a device.")

    def _slices(self) -> None:
        super()._slices()
        spec = self.ResourceSliceSpec
        without_pointer = ("nodeName", "allNodes")
        self.ResourceSliceSpec = self._struct("ResourceSliceSpec", lambda: tuple(
            item.replaced(pointer=False) if item.name in without_pointer else item for item in spec.declared
        ), doc="ResourceSliceSpec lists devices of one pool.")

    def _requests(self) -> None:
        super()._requests()
        request, exactly, alternative = self.DeviceRequest, self.ExactDeviceRequest, self.DeviceSubRequest
        self.DeviceRequest = self._struct("DeviceRequest", lambda: (
            *_numbered(request, name=1),
            exactly.fields["deviceClassName"].replaced(number=2, required=False, limits=None),
            *_numbered(exactly, selectors=3),
            exactly.fields["allocationMode"].replaced(number=4, fills=When("deviceClassName", None, "ExactCount")),
            exactly.fields["count"].replaced(number=5,
                fills=When("deviceClassName", None, When("allocationMode", "ExactCount", 1))),
            *_numbered(exactly, adminAccess=6),
            *_numbered(request, firstAvailable=7),
            *_numbered(exactly, tolerations=8, capacity=9),
        ), doc="DeviceRequest requests devices, either exactly in one way or as a list of alternatives.")
        self.DeviceSubRequest = self._struct("DeviceSubRequest", lambda: _numbered(alternative, name=1,
            deviceClassName=2, selectors=3, allocationMode=4, count=5, tolerations=7, capacity=8,
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
