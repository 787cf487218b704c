"""The components do their work on older releases, through the versions that these serve."""

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import PODS
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest

pytestmark = pytest.mark.integration

CLASS = {
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
}
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
TEMPLATE = {
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one"},
    "spec": {"spec": {"devices": {"requests": [REQUEST]}}},
}


def pod(name: str, **spec: Any) -> Json:
    return make_manifest(PODS, name, {"containers": [{"name": "c", "image": "i"}], **spec})


@pytest.mark.kube(own=True, emulated_version="1.33")
def test_a_pod_runs_where_no_devices_are_served(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(pod("p"))
    kube.wait("pod/p", "phase=Running")


@pytest.mark.kube(
    own=True,
    emulated_version="1.33",
    feature_gates={"DynamicResourceAllocation": True},
    runtime_config="resource.k8s.io/v1beta2=true",
)
def test_a_pod_gets_its_device_from_a_release_before_v1(kube: Kube) -> None:
    prepare(kube, "resource.k8s.io/v1beta2")


@pytest.mark.kube(own=True, emulated_version="1.34")
def test_a_pod_gets_its_device_from_the_first_release_of_v1(kube: Kube) -> None:
    prepare(kube, "resource.k8s.io/v1")


def prepare(kube: Kube, version: str) -> None:
    kube.add_node("worker", devices=2)
    kube.apply([{"apiVersion": version, **CLASS}, {"apiVersion": version, **TEMPLATE}])
    kube.apply(pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]))
    running = kube.wait("pod/p", "phase=Running")
    claim = kube.get(f"resourceclaim/{running['status']['resourceClaimStatuses'][0]['resourceClaimName']}")
    assert claim["apiVersion"] == version
    assert [result["pool"] for result in claim["status"]["allocation"]["devices"]["results"]] == ["worker"]
    kube.delete("pod/p")
    kube.wait(f"resourceclaim/{claim['metadata']['name']}", "delete")
