"""A unittest suite with one control plane per class, reset before each test."""

import unittest
from pathlib import Path

from kubedra import ControlPlane
from kubedra.client.nodes import add_node

MANIFESTS = Path(__file__).parent / "manifests"


class GpuTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plane = cls.enterClassContext(ControlPlane())
        cls.kube = cls.enterClassContext(cls.plane.client())

    def setUp(self):
        self.plane.reset()

    def test_a_pod_gets_a_device(self):
        add_node(self.kube, "worker", devices=2)
        self.kube.apply(MANIFESTS)
        pod = self.kube.wait("pod/job", "phase=Running")
        self.assertEqual(pod["spec"]["nodeName"], "worker")
        (claim,) = self.kube.list("resourceclaims")
        self.assertEqual(len(claim["status"]["allocation"]["devices"]["results"]), 1)

    def test_without_a_device_it_stays_pending(self):
        add_node(self.kube, "worker")
        self.kube.apply(MANIFESTS)
        pod = self.kube.wait("pod/job", "condition=PodScheduled=False")
        self.assertEqual(pod["status"]["phase"], "Pending")


if __name__ == "__main__":
    unittest.main()
