"""A node with two accelerators, and the driver in this process."""

import json
from pathlib import Path

import pytest
from accelerators import Accelerators

MANIFESTS = Path(__file__).parent.parent / "manifests"


class Machine:
    """The node of a test: its inventory, its driver, and its kubelet, whose containers are processes."""

    def __init__(self, kube, inventory):
        self.inventory = inventory
        self.heat(20)
        kube.apply(MANIFESTS / "class.yaml")
        kube.add_node("n1", run=True)
        self.kubelet = kube.node("n1")
        self.driver = Accelerators(inventory, self.kubelet.plugin_dir / "cdi", kube.kubeconfig)
        self.running = self.kubelet.run_driver(self.driver)

    def heat(self, celsius):
        """Set the temperature of the larger accelerator."""
        small = {"model": "A1", "memory": "16Gi", "celsius": 20}
        large = {"model": "A1", "memory": "40Gi", "celsius": celsius}
        self.inventory.write_text(json.dumps({"acc-0": small, "acc-1": large}))

    def cdi_files(self):
        return [*self.driver.cdi_dir.glob("accelerator.example.com_*.json")]


@pytest.fixture
def machine(kube, tmp_path):
    return Machine(kube, tmp_path / "inventory.json")
