"""A pod on a node gets the node's zone and region."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

PODS = "/api/v1/namespaces/default/pods"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def serve_nodes(directory: Any, *flags: str) -> Iterator[Wire]:
    """Serve with one node in a zone and a region, with another label as well, and one plain node."""
    with Child(directory, *flags) as child:
        wire = child.wire()
        for name, labels in (("zoned", {ZONE: "a", REGION: "r", "disk": "ssd"}), ("plain", {"disk": "ssd"})):
            wire.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        yield wire


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    yield from serve_nodes(tmp_path_factory.mktemp("topology"))


def pod(name: str, labels: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def bind_pod(wire: Wire, name: str, node: str, labels: Json | None = None, kind: str = "Node") -> Json:
    """Create and bind a pod; return its labels."""
    wire.create(PODS, pod(name, labels))
    body = {"metadata": {"name": name}, "target": {"kind": kind, "name": node}}
    wire.create(f"{PODS}/{name}/binding", body)
    return dict(wire.get(f"{PODS}/{name}").json["metadata"].get("labels", {}))


def test_a_bound_pod_gets_the_zone_and_region_of_its_node_and_keeps_its_own_labels(wire: Wire) -> None:
    assert bind_pod(wire, "a", "zoned", {"app": "x", ZONE: "mine"}) == {"app": "x", ZONE: "a", REGION: "r"}


def test_a_pod_that_is_made_on_a_node_gets_them_too(wire: Wire) -> None:
    made = wire.post(PODS, pod("b", nodeName="zoned"))
    assert made.json["metadata"]["labels"] == {ZONE: "a", REGION: "r"}


@pytest.mark.parametrize(("name", "node"), [("c", "plain"), ("d", "unknown")])
def test_a_node_without_zone_or_a_missing_node_changes_nothing(wire: Wire, name: str, node: str) -> None:
    assert bind_pod(wire, name, node, {"app": "x"}) == {"app": "x"}


def test_a_target_of_no_kind_is_not_taken_for_a_node(wire: Wire) -> None:
    assert bind_pod(wire, "e", "zoned", kind="") == {}


def test_without_the_gate_a_pod_keeps_its_labels(tmp_path: Any) -> None:
    for wire in serve_nodes(tmp_path, "--feature-gates", "PodTopologyLabelsAdmission=false"):
        assert bind_pod(wire, "a", "zoned", {"app": "x"}) == {"app": "x"}
        body = {"metadata": {"name": "b", "labels": {"given": "1"}}, "target": {"kind": "Node", "name": "zoned"}}
        wire.create(PODS, pod("b"))
        wire.create(f"{PODS}/b/binding", body)
        assert "labels" not in wire.get(f"{PODS}/b").json["metadata"]
