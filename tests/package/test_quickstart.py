"""The quickstart's manifests do what its README says, on what `kubedra up` starts."""

from pathlib import Path
from typing import Any

import pytest

from kubedra.pytest_plugin import Kube

MANIFESTS = Path(__file__).parents[2] / "examples" / "quickstart"
NAMESPACE = "quickstart"

pytestmark = [pytest.mark.integration, pytest.mark.kube(own=True, nodes=2, devices="gpu.example.com")]


def devices(claim: dict[str, Any]) -> list[str]:
    return [f"{r['pool']}/{r['device']}" for r in claim["status"]["allocation"]["devices"]["results"]]


def test_each_pod_gets_a_gpu_of_its_own(kube: Kube) -> None:
    kube.apply(MANIFESTS / "one-gpu-each.yaml")
    for name in ("trainer-a", "trainer-b"):
        kube.wait(f"pod/{name}", "condition=Ready", namespace=NAMESPACE)
    claims = kube.list("resourceclaims", namespace=NAMESPACE)
    assert len({device for claim in claims for device in devices(claim)}) == 2


def test_two_pods_share_a_pair_of_gpus_on_one_node(kube: Kube) -> None:
    kube.apply(MANIFESTS / "shared-pair.yaml")
    nodes = {
        kube.wait(f"pod/{name}", "phase=Running", namespace=NAMESPACE)["spec"]["nodeName"]
        for name in ("reader", "writer")
    }
    claim = kube.get("resourceclaim/pair", namespace=NAMESPACE)
    assert len(nodes) == 1
    assert len(claim["status"]["reservedFor"]) == 2
    assert {device.partition("/")[0] for device in devices(claim)} == nodes


def test_nine_gpus_are_too_many_and_the_pod_is_told_why(kube: Kube) -> None:
    kube.apply(MANIFESTS / "too-many.yaml")
    pod = kube.wait("pod/greedy", "condition=PodScheduled=False", namespace=NAMESPACE)
    message = next(c["message"] for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")


def test_the_class_of_the_quickstart_is_the_one_that_up_creates(kube: Kube) -> None:
    before = kube.get("deviceclass/gpu.example.com")
    kube.apply(MANIFESTS / "class.yaml")
    assert kube.get("deviceclass/gpu.example.com")["spec"] == before["spec"]


def test_a_reset_leaves_what_up_began_with(kube: Kube) -> None:
    kube.apply(MANIFESTS / "one-gpu-each.yaml")
    kube.plane.reset()
    for name in ("node-1", "node-2"):
        kube.wait(f"node/{name}", "condition=Ready")
    assert [c["metadata"]["name"] for c in kube.list("deviceclasses")] == ["gpu.example.com"]
    assert kube.list("pods", namespace=NAMESPACE) == []
