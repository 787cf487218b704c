"""Example tests of a project: real objects, a real scheduler, no cluster."""

from pathlib import Path

import pytest

MANIFESTS = Path(__file__).parent.parent / "manifests"


def devices_of(claim):
    return [(r["pool"], r["device"]) for r in claim["status"]["allocation"]["devices"]["results"]]


def test_a_pod_gets_a_device_of_its_node(kube):
    kube.add_node("worker", devices=2)
    kube.apply(MANIFESTS)
    pod = kube.wait("pod/job", "phase=Running")
    (claim,) = kube.list("resourceclaims")
    assert pod["spec"]["nodeName"] == "worker"
    assert devices_of(claim) == [("worker", "gpu-0")]


def test_a_deleted_pod_gives_its_device_back(kube):
    kube.add_node("worker", devices=1)
    kube.apply(MANIFESTS)
    kube.wait("pod/job", "phase=Running")
    (claim,) = kube.list("resourceclaims")
    kube.delete("pod/job")
    kube.wait("pod/job", "delete")
    kube.wait(f"resourceclaim/{claim['metadata']['name']}", "delete")


def test_without_a_fitting_device_the_pod_stays_pending_with_the_reason(kube):
    kube.add_node("worker")
    kube.apply(MANIFESTS)
    pod = kube.wait("pod/job", "condition=PodScheduled=False")
    (scheduled,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert scheduled["reason"] == "Unschedulable"
    assert scheduled["message"].startswith("0/1 nodes are available")


@pytest.mark.kube(own=True, emulated_version="1.35", nodes=1)
def test_an_older_release_runs_in_its_own_server(kube):
    assert kube.client().request("GET", "/version")["minor"] == "35"
    assert [node["metadata"]["name"] for node in kube.list("nodes")]
