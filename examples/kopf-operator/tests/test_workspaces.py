"""The operator as a process, against a control plane with scheduler, devices and garbage collection."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent


@pytest.fixture
def operator(kube, tmp_path):
    """Run the operator, with one node of four GPUs."""
    kube.add_node("worker", devices=4)
    kube.apply(PROJECT / "manifests")
    command = [sys.executable, "-m", "kopf", "run", "workspaces.py", "--namespace=default", "--standalone"]
    with (tmp_path / "log").open("w") as log:
        environment = {**os.environ, "KUBECONFIG": str(kube.kubeconfig)}
        process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=log)
    yield process
    process.terminate()
    process.wait()
    print((tmp_path / "log").read_text())  # pytest shows it with a failing test


def workspace(name, gpus):
    return {"apiVersion": "example.com/v1", "kind": "Workspace", "metadata": {"name": name}, "spec": {"gpus": gpus}}


def is_running(pod):
    return lambda found: found.get("status", {}).get("pod") == pod and found["status"]["phase"] == "Running"


def devices(kube, claim):
    return len(kube.get(f"resourceclaim/{claim}")["status"]["allocation"]["devices"]["results"])


def test_a_workspace_gets_its_gpus_another_number_after_a_change_and_leaves_nothing(kube, operator):
    kube.create(workspace("ada", gpus=1))
    kube.wait("workspace/ada", is_running("ada-1"))
    assert devices(kube, "ada-1") == 1
    kube.patch("workspace/ada", {"spec": {"gpus": 4}})  # only free when the first pod has ended
    kube.wait("workspace/ada", is_running("ada-2"))
    assert devices(kube, "ada-2") == 4
    kube.delete("workspace/ada")
    kube.wait("pod/ada-2", "delete")
    kube.wait("resourceclaim/ada-2", "delete")
    assert kube.list("resourceclaims") == []


def test_a_refused_request_is_tried_again_without_a_second_pod(kube, operator):
    with kube.fault(verb="create", resource="pods", status=500, count=1) as fault:
        kube.create(workspace("bob", gpus=2))
        kube.wait("workspace/bob", is_running("bob-1"))
    assert fault.fired() == 1
    assert [pod["metadata"]["name"] for pod in kube.list("pods")] == ["bob-1"]


def test_a_workspace_without_gpus_is_refused_by_its_schema(kube):
    kube.apply(PROJECT / "manifests")
    with pytest.raises(Exception, match=r"spec\.gpus: Invalid value: 0: .*greater than or equal to 1"):
        kube.create(workspace("eve", gpus=0))
