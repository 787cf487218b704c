"""A profile of kube-scheduler: where pods with GPUs go, compared with the default."""

from pathlib import Path

import pytest

CONFIGURATION = Path(__file__).parent.parent / "packing.yaml"
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}},
}


def pod(name, scheduler):
    resources = {"claims": [{"name": "gpu"}], "requests": {"cpu": "1"}}
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "main", "image": "registry.example.com/main", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.kube(own=True, args=[f"--config={CONFIGURATION}"])
def test_the_profile_fills_one_node_where_the_default_spreads(kube):
    for name in ("left", "right"):
        kube.add_node(name, devices=4, capacity={"cpu": "16"})
    kube.create(TEMPLATE)
    for scheduler, nodes in (("packing", 1), ("default-scheduler", 2)):
        used = set()
        for number in range(4):
            kube.create(pod(f"{scheduler}-{number}", scheduler))
            used.add(kube.wait(f"pod/{scheduler}-{number}", "phase=Running")["spec"]["nodeName"])
        assert len(used) == nodes, scheduler
        for number in range(4):
            kube.delete(f"pod/{scheduler}-{number}", grace_period=0)
            kube.wait(f"pod/{scheduler}-{number}", "delete")
