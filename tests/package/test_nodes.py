"""Nodes that are added by hand, and slices captured elsewhere."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra.cli import main
from kubedra.client.nodes import Captured, adopt, node_object
from kubedra.pytest_plugin import Kube
from kubedra.runtime import process
from tests.support.patience import run_command

pytestmark = pytest.mark.integration

NODE = {"metadata": {"name": "n1", "uid": "node-uid"}}


def captured(node: str | None = "n1") -> Json:
    spec = {"driver": "d", **({"nodeName": node} if node else {"allNodes": True})}
    meta = {
        "name": "n1-d-x",
        "uid": "old",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "labels": {"a": "b"},
    }
    return {
        "kind": "ResourceSlice",
        "metadata": {**meta, "ownerReferences": [{"kind": "Node", "name": "n1"}]},
        "spec": spec,
    }


def test_an_adopted_slice_loses_what_the_other_server_set_and_is_owned_by_the_node() -> None:
    meta = adopt(captured(), NODE)["metadata"]
    assert meta == {
        "name": "n1-d-x",
        "labels": {"a": "b"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": True}],
    }


@pytest.mark.parametrize(
    ("text", "renamed"),
    [("n1-d-x", "n2-d-x"), ("n1", "n2"), ("d.n1", "d.n2"), ("gen10", "n2-gen10"), ("n12-d", "n2-n12-d")],
)
def test_an_adopted_slice_and_its_pool_get_the_new_nodes_name_for_the_old_one(text: str, renamed: str) -> None:
    slice_ = captured()
    slice_["metadata"]["name"] = text
    slice_["spec"]["pool"] = {"name": text}
    made = adopt(slice_, {"metadata": {"name": "n2", "uid": "node-uid"}})
    assert (made["metadata"]["name"], made["spec"]["pool"]["name"]) == (renamed, renamed)


def test_a_slice_for_all_nodes_belongs_to_no_node() -> None:
    assert "ownerReferences" not in adopt(captured(node=None), NODE)["metadata"]


def test_adopting_leaves_the_captured_slice_as_it_was() -> None:
    slice_ = captured()
    adopt(slice_, NODE)
    assert slice_ == captured()


def test_a_node_says_that_it_is_emulated_and_how_many_devices_it_has() -> None:
    annotations = node_object("n1", devices=4)["metadata"]["annotations"]
    assert annotations == {"kubedra.dev/emulated": "true", "kubedra.dev/devices": "4"}


@pytest.mark.parametrize(
    "options",
    [{"labels": {"zone": "a"}}, {"capacity": {"cpu": "2"}}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}],
)
def test_what_is_not_given_is_left_to_the_agent(options: dict[str, Any]) -> None:
    plain = node_object("n1")
    assert set(plain) == {"apiVersion", "kind", "metadata"}
    assert node_object("n1", **options) != plain


def dumped() -> list[Json]:
    """Return a dump of a cluster with two nodes, a slice for all nodes and another kind."""

    def of(name: str, **spec: Any) -> Json:
        meta = {"name": f"{name}-d-x", "uid": "old", "resourceVersion": "7"}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "pool": pool, "devices": [{"name": "dev"}], **spec}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec}

    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {}}
    return [of("big-1", nodeName="big-1"), of("big-2", nodeName="big-2"), of("net", allNodes=True), claim]


def published(kube: Kube) -> dict[str, tuple[str | None, str]]:
    return {
        slice_["metadata"]["name"]: (slice_["spec"].get("nodeName"), slice_["spec"]["pool"]["name"])
        for slice_ in kube.list("resourceslices")
    }


@pytest.fixture
def node_add(kube: Kube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return `kubedra node add` on a dump, with the server of $KUBECONFIG."""
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": dumped()}))
    monkeypatch.setenv("KUBECONFIG", f"/no/such/file:{kube.kubeconfig}")
    monkeypatch.chdir(tmp_path)
    return lambda *args: main(["node", "add", *args, "--slices", str(file)])


def test_a_dump_of_a_cluster_makes_the_nodes_that_it_names(
    kube: Kube, node_add: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert node_add() == 0
    assert capsys.readouterr().out == "node/big-1 created\nnode/big-2 created\n"
    assert published(kube) == {
        "big-1-d-x": ("big-1", "big-1"),
        "big-2-d-x": ("big-2", "big-2"),
        "net-d-x": (None, "net"),
    }


def test_a_named_node_takes_what_fits_it_and_may_get_another_name(kube: Kube, node_add: Callable[..., int]) -> None:
    assert node_add("big-2", "--as", "mine") == 0
    assert published(kube) == {"mine-d-x": ("mine", "mine"), "net-d-x": (None, "net")}
    assert [node["metadata"]["name"] for node in kube.list("nodes")] == ["mine"]


def test_a_node_that_no_slice_names_is_an_error_that_says_which_there_are(tmp_path: Path) -> None:
    pinned = [obj for obj in dumped() if "nodeName" in obj["spec"]]
    with pytest.raises(ValueError, match=r"the given slices have none of node n1: found slices of big-1, big-2"):
        Captured([pinned]).of("n1")
    with pytest.raises(ValueError, match="found ResourceClaim"):
        Captured([dumped()[3:]]).of("n1")


def test_a_new_name_needs_one_node(node_add: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert node_add("--as", "x") == 2
    assert "the slices have nodes big-1, big-2" in capsys.readouterr().err


def test_a_node_without_a_name_and_slices_is_refused(capsys: pytest.CaptureFixture[str], kube: Kube) -> None:
    assert main(["node", "add", "--kubeconfig", str(kube.kubeconfig)]) == 2
    assert "no node name" in capsys.readouterr().err


def test_health_heeds_the_kubeconfig_of_the_environment(
    kube: Kube, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig))
    assert main(["health"]) == 0
    assert capsys.readouterr().out == "ok\n"


def test_help_of_up_shows_the_defaults_of_up() -> None:
    def shown(command: str) -> str:
        done = run_command(
            [sys.executable, "-m", "kubedra", command, "--help-all"], env=process.environment(), text=True
        )
        return " ".join(done.stdout.split())

    assert "emulated nodes to create at start (default 2)" in shown("up")
    assert "-NAME to exclude one (default *)" in shown("up")
    assert "emulated nodes to create at start (default 0)" in shown("serve")
