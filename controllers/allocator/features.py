"""Feature gates of the allocator.

Source of facts: Kubernetes 1.36, staging/src/k8s.io/dynamic-resource-allocation/structured/allocator.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """The enabled features. Defaults are those of release 1.36."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    """DRADeviceBindingConditions, effective only with DRAResourceClaimDeviceStatus."""
    consumable_capacity: bool = True
    list_type_attributes: bool = False

    @staticmethod
    def from_gates(enabled: Callable[[str], bool]) -> Features:
        """Return the features of a set of gates; `enabled` returns whether a gate is on."""
        return Features(
            admin_access=enabled("DRAAdminAccess"),
            prioritized_list=enabled("DRAPrioritizedList"),
            partitionable_devices=enabled("DRAPartitionableDevices"),
            device_taints=enabled("DRADeviceTaints"),
            binding_conditions=enabled("DRADeviceBindingConditions") and enabled("DRAResourceClaimDeviceStatus"),
            consumable_capacity=enabled("DRAConsumableCapacity"),
            list_type_attributes=enabled("DRAListTypeAttributes"),
        )
