"""A node with two accelerators, and the driver in this process."""

import json
import tempfile
from pathlib import Path

import pytest
from accelerators import Accelerators

MANIFESTS = Path(__file__).parent.parent / "manifests"


class Machine:
    """The node of a test: its inventory, its driver, and its kubelet `kube.node("n1")`."""

    def __init__(self, kube, directory):
        self.kube, self.directory, self.inventory = kube, directory, directory / "inventory.json"
        self.heat(20)
        kube.apply(MANIFESTS / "class.yaml")

    def heat(self, celsius):
        """Set the temperature of the larger accelerator."""
        small = {"model": "A1", "memory": "16Gi", "celsius": 20}
        large = {"model": "A1", "memory": "40Gi", "celsius": celsius}
        self.inventory.write_text(json.dumps({"acc-0": small, "acc-1": large}))

    def start(self, *, run=False):
        """Start the kubelet and the driver. With `run`, containers are processes of this machine."""
        self.kube.add_node("n1", run=run, plugin_dir=self.directory)
        kubelet = self.kube.node("n1")
        self.driver = Accelerators(self.inventory, kubelet.plugin_dir / "cdi", self.kube.kubeconfig)
        self.running = kubelet.run_driver(self.driver)
        return kubelet

    def cdi_files(self):
        return [*self.driver.cdi_dir.glob("accelerator.example.com_*.json")]


@pytest.fixture
def machine(kube):
    with tempfile.TemporaryDirectory(prefix="acc-") as short:  # the path of a socket has at most 107 bytes
        yield Machine(kube, Path(short))
