"""The example driver's devices on a node, and the DeviceClass that selects them.

The values are those of the DRA example driver's `gpu` profile, so that its manifests work here.
"""

from __future__ import annotations

from uuid import NAMESPACE_DNS, uuid5

from apiserver.api.objects import Json


def example_class(driver: str) -> Json:
    """Build the DeviceClass that is named after a driver and selects all its devices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]},
    }


def example_device(node: str, index: int) -> Json:
    """Build one GPU; its uuid depends on node and index only."""
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "index": {"int": index},
            "uuid": {"string": f"gpu-{uuid5(NAMESPACE_DNS, f'{index}.{node}')}"},
            "model": {"string": "LATEST-GPU-MODEL"},
            "driverVersion": {"version": "1.0.0"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }
