"""Manifests of a cluster can be applied to another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubedra.cli import main
from kubedra.client.client import Client
from kubedra.cluster_copy.adapt import adapt_definition
from kubedra.cluster_copy.exporting import export_objects
from tests.cluster_copy.sources import cluster, production, write_config

Json = dict[str, Any]


@pytest.fixture(scope="module")
def source() -> Iterator[Client]:
    objects = production()
    assert adapt_definition(objects[0])  # its webhook cannot be reached
    with cluster(objects=objects) as (_, client):
        yield client


def test_manifests_apply_and_export_the_same_again(source: Client) -> None:
    manifests, _ = export_objects(source, with_secrets=True)
    with cluster() as (_, other):
        other.apply(manifests, force=True)
        again, _ = export_objects(other, with_secrets=True)
    assert again == manifests


def test_fields_of_the_server_and_objects_of_controllers_are_left_out(source: Client) -> None:
    manifests, copy = export_objects(source)
    found = {(each["kind"], each["metadata"]["name"]): each for each in manifests}
    assert {kind for kind, _ in found} == {
        "CustomResourceDefinition", "Namespace", "DeviceClass", "ConfigMap", "Node", "ResourceSlice", "ResourceClaim",
        "Deployment", "Rack", "Pod",
    }  # fmt: skip
    assert ("Pod", "training") in found
    assert ("Pod", "payroll-9f55f9956-2pf4d") not in found
    for each in manifests:
        assert set(each["metadata"]) <= {"name", "namespace", "labels", "annotations"}
        assert each["kind"] == "Node" or "status" not in each
    assert copy.problems == []
    assert copy.notes == ["left out 2 Secrets; --with-secrets writes them with their values"]


def test_the_parts_that_servers_add_are_removed(source: Client) -> None:
    with cluster() as (_, client):
        client.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}
        )
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        client.apply(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
        )
        pod = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod})
        manifests, _ = export_objects(client, ["default"])
        found = {each["kind"]: each for each in manifests}
        assert not {"clusterIP", "clusterIPs"} & set(found["Service"]["spec"])
        assert "selector" not in found["Job"]["spec"]
        assert not {"nodeName", "priority", "tolerations", "serviceAccount"} & set(found["Pod"]["spec"])
        for each in found.values():
            client.delete(f"{each['kind']}/{each['metadata']['name']}", grace_period=0)
        client.apply(manifests)


def test_the_command_writes_one_stream(source: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, source.url)
    assert main(["export", f"--kubeconfig={config}", "--namespace=acme", "--kind=cm,deploy"]) == 0
    printed = capsys.readouterr()
    assert [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(printed.out)] == [
        ("ConfigMap", "settings"), ("Deployment", "payroll"),
    ]  # fmt: skip
    assert main(["export", f"--kubeconfig={config}", "-o", str(tmp_path / "none" / "x")]) == 2
    assert capsys.readouterr().err == f"kubedra export: {tmp_path}/none/x: no such file or directory\n"
