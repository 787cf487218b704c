"""Claims on volumes, on a running control plane: bound to existing or new volumes, which are reclaimed by policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra.pytest_plugin import Kube
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration

ONCE = ["ReadWriteOnce"]


def claim(name: str, size: str = "1Gi", **spec: Any) -> Json:
    spec = {"accessModes": ONCE, "resources": {"requests": {"storage": size}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def volume(name: str, size: str = "1Gi", **spec: Any) -> Json:
    spec = {"accessModes": ONCE, "capacity": {"storage": size}, "hostPath": {"path": "/data"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def storage_class(name: str, **more: Any) -> Json:
    provisioner = {"provisioner": "volumes.kubedra.dev"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        **provisioner,
        **more,
    }


def pod(name: str, *claims: str, ephemeral: Json | None = None) -> Json:
    volumes: list[Json] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    if ephemeral is not None:
        volumes.append({"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": ephemeral}}})
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def phase(wanted: str) -> Callable[[Json], bool]:
    return lambda obj: obj.get("status", {}).get("phase") == wanted


def wait_for_event(kube: Kube, target: str, reason: str) -> None:
    """Wait for an event."""
    wait_until(lambda: reason in {event["reason"] for event in kube.events(target)}, f"{target} has event {reason}")


def test_a_pod_runs_with_volumes_that_are_made_for_it_and_go_with_their_claims(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([claim("data"), pod("p", "data", ephemeral=claim("")["spec"])])
    kube.wait("pod/p", "phase=Running")
    bound = kube.get("persistentvolumeclaim/data")
    made = kube.get(f"persistentvolume/{bound['spec']['volumeName']}")
    assert (bound["spec"]["storageClassName"], bound["status"]["capacity"]) == ("standard", {"storage": "1Gi"})
    assert made["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert kube.get("persistentvolumeclaim/p-own")["status"]["phase"] == "Bound"

    kube.patch("persistentvolumeclaim/data", {"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    kube.wait("persistentvolumeclaim/data", lambda obj: obj["status"]["capacity"] == {"storage": "3Gi"})
    assert kube.get(f"persistentvolume/{made['metadata']['name']}")["spec"]["capacity"] == {"storage": "3Gi"}

    kube.delete("persistentvolumeclaim/data")
    kube.delete("pod/p")
    for name in kube.list("persistentvolumes"):
        kube.wait(f"persistentvolume/{name['metadata']['name']}", "delete")
    assert kube.list("persistentvolumeclaims") == []


def test_a_claim_gets_the_smallest_volume_that_fits_and_a_released_one_is_not_given_again(kube: Kube) -> None:
    wide = {"accessModes": [*ONCE, "ReadOnlyMany"]}
    kube.apply([volume("large", "5Gi"), volume("small", "1Gi"), volume("middle", "3Gi"), volume("wide", "2Gi", **wide)])
    for name in ("large", "small", "middle", "wide"):
        kube.wait(f"persistentvolume/{name}", phase("Available"))
    kube.apply([claim("two", "2Gi", storageClassName="")])
    bound = kube.wait("persistentvolumeclaim/two", phase("Bound"))
    # A volume without unrequested access modes is better, although it is larger.
    assert bound["spec"]["volumeName"] == "middle"
    assert bound["status"]["capacity"] == {"storage": "3Gi"}
    kube.delete("persistentvolumeclaim/two")
    kube.wait("persistentvolume/middle", phase("Released"))
    kube.apply([claim("again", "2Gi", storageClassName="")])
    assert kube.wait("persistentvolumeclaim/again", phase("Bound"))["spec"]["volumeName"] == "large"


def test_a_claim_waits_for_a_volume_or_a_class_that_comes_later(kube: Kube) -> None:
    kube.apply([claim("free", storageClassName=""), claim("classed", storageClassName="soon")])
    kube.wait("persistentvolumeclaim/free", phase("Pending"))
    kube.apply([volume("late"), storage_class("soon", volumeBindingMode="Immediate")])
    assert kube.wait("persistentvolumeclaim/free", phase("Bound"))["spec"]["volumeName"] == "late"
    kube.wait("persistentvolumeclaim/classed", phase("Bound"))
    wait_for_event(kube, "persistentvolumeclaim/classed", "ProvisioningFailed")


@pytest.mark.parametrize(
    ("path", "policy", "becomes"),
    [("/data", "Delete", "Failed"), ("/data", "Recycle", "Failed"), ("/tmp/data", "Delete", None)],
)
def test_a_volume_without_its_claim_is_reclaimed_by_policy(
    kube: Kube, path: str, policy: str, becomes: str | None
) -> None:
    kube.apply([volume("v", hostPath={"path": path}, persistentVolumeReclaimPolicy=policy)])
    kube.apply([claim("c", storageClassName="", volumeName="v")])
    kube.wait("persistentvolumeclaim/c", phase("Bound"))
    kube.delete("persistentvolumeclaim/c")
    if becomes is None:
        kube.wait("persistentvolume/v", "delete")
    else:
        assert kube.wait("persistentvolume/v", phase(becomes))["status"]["message"]


def test_a_volume_that_is_made_for_a_place_keeps_its_pods_there(kube: Kube) -> None:
    """And while none can be made in the chosen place, the scheduler goes on looking."""
    kube.add_node("a", labels={"rack": "1"})
    local = storage_class("local", parameters={"topologyKey": "rack"}, volumeBindingMode="WaitForFirstConsumer")
    kube.apply([local, claim("data", storageClassName="local"), pod("p", "data")])
    kube.wait("pod/p", "phase=Running")
    made = kube.get(f"persistentvolume/{kube.get('persistentvolumeclaim/data')['spec']['volumeName']}")
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "rack", "operator": "In", "values": ["1"]}]

    kube.add_node("b")
    kube.patch("node/a", {"spec": {"unschedulable": True}})
    kube.apply([pod("q", "data"), claim("more", storageClassName="local"), pod("r", "more")])
    waits = kube.wait("pod/q", lambda obj: obj["status"].get("conditions"))
    assert "1 node(s) didn't match PersistentVolume's node affinity" in waits["status"]["conditions"][0]["message"]
    failed = kube.wait("pod/r", lambda obj: obj["status"].get("conditions"))
    assert 'provisioning failed for PVC "more"' in failed["status"]["conditions"][0]["message"]
