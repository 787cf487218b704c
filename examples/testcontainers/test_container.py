"""A test with a control plane in a container: KUBEDRA_IMAGE=kubedra:local pytest."""

import os

import pytest
from kubedra_container import KubedraContainer

from kubedra import Client


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    with KubedraContainer(*filter(None, [os.environ.get("KUBEDRA_IMAGE")])) as container:
        path = container.write_kubeconfig(tmp_path_factory.mktemp("kubedra") / "kubeconfig")
        with Client.from_kubeconfig(path) as connected:
            yield connected


def test_a_pod_runs_on_an_emulated_node(client):
    pod = {"spec": {"containers": [{"name": "main", "image": "registry.example.com/main"}]}}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job"}, **pod})
    assert client.wait("pod/job", "phase=Running", timeout=60)["spec"]["nodeName"].startswith("node-")
