"""Volumes and claims on them, on a running control plane: deleted ones stay while they are used."""

from functools import partial
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import PODS, VOLUME_CLAIMS, VOLUMES
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest

pytestmark = pytest.mark.integration

CLAIM = make_manifest(
    VOLUME_CLAIMS,
    "data",
    {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
)
VOLUME = make_manifest(
    VOLUMES, "disk", {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}
)


def pod(name: str, claim: str = "data", **spec: Any) -> Json:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return make_manifest(PODS, name, {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, **spec})


def test_a_claim_goes_with_the_last_pod_on_a_node_that_uses_it(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([CLAIM, pod("a", nodeName="worker"), pod("nowhere", schedulingGates=[{"name": "example.com/wait"}])])
    kube.delete("persistentvolumeclaim/data")
    kube.apply([{**CLAIM, "metadata": {"name": "unused"}}])
    kube.delete("persistentvolumeclaim/unused")
    kube.wait("persistentvolumeclaim/unused", "delete")
    assert kube.get("persistentvolumeclaim/data")["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    kube.delete("pod/a")
    kube.wait("persistentvolumeclaim/data", "delete")
    assert kube.get("pod/nowhere")["status"]["phase"] == "Pending"


def test_a_claim_for_a_pods_own_volume_does_not_wait_for_a_pod_that_its_node_is_done_with(kube: Kube) -> None:
    kube.add_node("worker")
    kept = pod(
        "a", nodeName="worker", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM["spec"]}}}]
    )
    kube.apply([{**kept, "metadata": {"name": "a", "finalizers": ["example.com/keep"]}}])
    kube.wait("persistentvolumeclaim/a-v", lambda claim: claim["metadata"]["ownerReferences"])
    kube.delete("persistentvolumeclaim/a-v")
    kube.delete("pod/a")
    kube.wait("persistentvolumeclaim/a-v", "delete")
    assert kube.get("pod/a")["metadata"]["finalizers"] == ["example.com/keep"]


def test_a_volume_stays_while_it_is_bound(kube: Kube) -> None:
    kube.apply([VOLUME, CLAIM])
    kube.wait("persistentvolume/disk", lambda volume: volume["status"].get("phase") == "Bound")
    kube.delete("persistentvolume/disk")
    kube.apply([{**VOLUME, "metadata": {"name": "free"}}])
    kube.delete("persistentvolume/free")
    kube.wait("persistentvolume/free", "delete")
    assert kube.get("persistentvolume/disk")["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    kube.delete("persistentvolumeclaim/data")
    kube.wait("persistentvolume/disk", "delete")


def has_only(finalizer: str, obj: Json) -> bool:
    found: list[str] | None = obj["metadata"].get("finalizers")
    return found == [finalizer]


def test_volumes_and_claims_get_back_a_finalizer_that_was_removed(kube: Kube) -> None:
    kube.apply([VOLUME, CLAIM])
    for name, finalizer in (
        ("persistentvolume/disk", "kubernetes.io/pv-protection"),
        ("persistentvolumeclaim/data", "kubernetes.io/pvc-protection"),
    ):
        kube.patch(name, {"metadata": {"finalizers": None}})
        kube.wait(name, partial(has_only, finalizer))


def test_a_class_of_attributes_stays_while_a_claim_names_it(kube: Kube) -> None:
    def attributes_class(name: str) -> Json:
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass"}
        return {**kind, "metadata": {"name": name}, "driverName": "csi.example.com", "parameters": {"iops": "1"}}

    kube.apply([attributes_class("free"), attributes_class("named")])
    kube.apply([{**CLAIM, "spec": {**CLAIM["spec"], "volumeAttributesClassName": "named"}}])
    for name in ("named", "free"):
        kube.delete(f"volumeattributesclass/{name}")
    kube.wait("volumeattributesclass/free", "delete")
    assert kube.get("volumeattributesclass/named")["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
    kube.delete("persistentvolumeclaim/data")
    kube.wait("volumeattributesclass/named", "delete")
