"""Taints of devices, their own and those of rules, on a running control plane."""

from pathlib import Path

import httpx
import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import DEVICE_CLASSES, DEVICE_TAINT_RULES
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLASS = make_manifest(
    DEVICE_CLASSES, "gpu", {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}
)
RULE = make_manifest(
    DEVICE_TAINT_RULES,
    "out-of-order",
    {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "broken", "effect": "NoSchedule"}},
)


def pod(name: str, *tolerations: Json) -> list[Json]:
    exactly = {"deviceClassName": "gpu", "tolerations": list(tolerations)}
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec},
    ]


@pytest.mark.kube(own=True, feature_gates={"DRADeviceTaintRules": True}, runtime_config="resource.k8s.io/v1beta2=true")
def test_a_rule_keeps_pods_off_devices_until_it_is_gone_but_for_those_that_tolerate_it(kube: Kube) -> None:
    kube.add_node("worker", devices=2)
    kube.apply([CLASS, RULE])
    kube.apply(pod("tolerant", {"key": "broken", "operator": "Exists"}))
    kube.wait("pod/tolerant", "phase=Running")
    kube.apply(pod("strict"))
    state = kube.wait("pod/strict", "condition=PodScheduled=False")
    assert next(c["message"] for c in state["status"]["conditions"]).startswith(
        "0/1 nodes are available: 1 cannot allocate all claims."
    )
    client = kube.client()
    client.request("DELETE", client.path("resource.k8s.io/v1beta2", "DeviceTaintRule", None, "out-of-order"))
    kube.wait("pod/strict", "phase=Running")


@pytest.mark.kube(own=True, feature_gates={"DRADeviceTaintRules": True}, runtime_config="resource.k8s.io/v1beta2=true")
def test_pods_that_do_not_tolerate_a_broken_device_are_evicted_as_in_the_example(kube: Kube) -> None:
    kube.add_node("node-1", devices=8)
    kube.apply(EXAMPLES / "quickstart" / "class.yaml")
    kube.apply(EXAMPLES / "device-taints" / "pods.yaml")
    for name in ("strict", "tolerant"):
        kube.wait(f"pod/{name}", "phase=Running")
    kube.apply(EXAMPLES / "device-taints" / "rule.yaml")
    kube.wait("pod/strict", "delete")
    assert kube.get("pod/tolerant")["status"]["phase"] == "Running"
    rule = kube.wait("devicetaintrule/node-1-is-broken", lambda rule: rule.get("status", {}).get("conditions"))
    (condition,) = rule["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "PodsPendingEviction",
        "1 pod needs to be evicted in 1 namespace.",
    )
    told = [("DeviceTaintManagerEviction", "Marking for deletion")]
    wait_until(
        lambda: (
            told == [(event["reason"], event["message"]) for event in kube.list("events") if "Taint" in event["reason"]]
        ),
        "the pod is told",
    )
    counted = [
        line
        for line in httpx.get(f"{kube.url}/metrics").text.splitlines()
        if line.startswith("device_taint_eviction_controller_pod_deletions_total")
    ]
    assert counted == ["device_taint_eviction_controller_pod_deletions_total 1"]
