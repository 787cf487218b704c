"""metrics.k8s.io: the usage that annotations set, for `kubectl top` and other readers."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from apiserver.api.objects import Json
from apiserver.api.protobuf.decoding import decode
from apiserver.api.protobuf.encoding import encode
from apiserver.api.types.metrics import NodeMetrics
from apiserver.api.values.durations import format_duration, parse_duration
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from apiserver.registry.catalog.served import RuntimeConfigError, select_served
from apiserver.resources import catalog_of
from kubedra import ApiError, Client, ControlPlane
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_annotations, pod_manifest

pytestmark = pytest.mark.integration

METRICS = "/apis/metrics.k8s.io/v1beta1"
KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(nodes=2, runtime_config="metrics.k8s.io/v1beta1=true") as made:
        with made.client() as client:
            usage = make_annotations(usage__cpu="250m", usage__memory="1Gi")
            for name, annotations in (("busy", usage), ("idle", {})):
                pod = pod_manifest(name, annotations, nodeName="node-1")
                client.apply({**pod, "metadata": {**pod["metadata"], "labels": {"app": name}}})
                client.wait(f"pod/{name}", "phase=Running")
            client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
            # Not running: it uses nothing.
            client.create(
                {**pod_manifest("late", usage, nodeName="gone"), "metadata": {"name": "late", "annotations": usage}}
            )
        yield made


@pytest.fixture
def client(plane: ControlPlane) -> Iterator[Client]:
    with plane.client() as made:
        yield made


def names(listed: Json) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def test_pods_with_an_annotation_are_listed_by_namespace_and_label(client: Client) -> None:
    listed = client.request("GET", f"{METRICS}/pods")
    assert (listed["kind"], names(listed)) == ("PodMetricsList", ["busy"])
    assert names(client.request("GET", f"{METRICS}/namespaces/other/pods")) == []
    assert names(client.request("GET", f"{METRICS}/pods", params={"labelSelector": "app=idle"})) == []
    found = client.request("GET", f"{METRICS}/namespaces/default/pods/busy")
    assert [container["usage"] for container in found["containers"]] == [{"cpu": "250m", "memory": "1Gi"}]
    assert (found["metadata"]["labels"], found["window"]) == ({"app": "busy"}, "15s")
    with pytest.raises(ApiError, match=r'^podmetrics\.metrics\.k8s\.io "idle" not found$'):
        client.request("GET", f"{METRICS}/namespaces/default/pods/idle")


def test_every_node_is_listed_with_the_sum_of_its_pods(client: Client) -> None:
    listed = client.request("GET", f"{METRICS}/nodes")
    assert {item["metadata"]["name"]: item["usage"]["cpu"] for item in listed["items"]} == {
        "node-1": "250m", "node-2": "0",
    }  # fmt: skip


def test_the_table_has_a_column_per_resource(client: Client, plane: ControlPlane) -> None:
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    table = httpx.get(f"{plane.url}{METRICS}/pods", headers={"Accept": accept}).json()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    assert [row["cells"] for row in table["rows"]] == [["busy", "250m", "1Gi", "15s"]]


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("nodes", [["node-1", "250m", "0%", "1024Mi", "0%"], ["node-2", "0m", "0%", "0Mi", "0%"]]),
        ("pods", [["busy", "250m", "1024Mi"]]),
        ("pods -A", [["default", "busy", "250m", "1024Mi"]]),
        ("pods --containers", [["busy", "c", "250m", "1024Mi"]]),
        ("pod busy", [["busy", "250m", "1024Mi"]]),
    ],
)
def test_kubectl_top_shows_the_usage(plane: ControlPlane, tmp_path: Path, command: str, lines: list[list[str]]) -> None:
    top = [str(KUBECTL), "--kubeconfig", str(plane.kubeconfig), "top", *command.split(), "--no-headers"]
    done = subprocess.run(top, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert [line.split() for line in done.stdout.splitlines()] == lines, done.stderr


def test_the_group_is_served_only_if_it_is_named(kube: Kube) -> None:
    """kube-apiserver does not have it, so that `api/all` does not include it."""
    with pytest.raises(ApiError) as caught:
        kube.client().request("GET", METRICS)
    assert caught.value.code == 404
    assert all(group["name"] != "metrics.k8s.io" for group in kube.client().request("GET", "/apis")["groups"])
    with ControlPlane(controllers=False, runtime_config="api/all=true") as other, other.client() as client:
        assert all(group["name"] != "metrics.k8s.io" for group in client.request("GET", "/apis")["groups"])


def test_an_unknown_version_of_the_group_is_refused() -> None:
    settings = read(["--runtime-config=metrics.k8s.io/v1=true"])
    with pytest.raises(RuntimeConfigError, match="has not been registered"):
        select_served(catalog_of(settings.runtime_config), settings.features, settings.runtime_config)
    with pytest.raises(SettingsError, match="not a duration"):
        read(["--jobs-exit-after=soon"])


@pytest.mark.parametrize("text", ["0s", "15s", "1m30s", "1h0m0s", "250ms", "1.5s", "2h0m0.25s"])
def test_durations_have_gos_form_also_in_protobuf(text: str) -> None:
    assert format_duration(parse_duration(text)) == text
    obj = {"metadata": {"name": "n"}, "timestamp": "2026-01-01T00:00:00Z", "window": text, "usage": {"cpu": "1"}}
    assert decode(NodeMetrics, encode(NodeMetrics, obj))["window"] == text
