"""Nodes that are added by hand, and slices captured elsewhere."""

import pytest

from kubedra.nodes import adopt, node_object

NODE = {"metadata": {"name": "n1", "uid": "node-uid"}}


def captured(node: str | None = "n1") -> dict:
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


def test_an_adopted_slice_loses_what_the_other_server_set_and_is_owned_by_the_node():
    meta = adopt(captured(), NODE)["metadata"]
    assert meta == {
        "name": "n1-d-x",
        "labels": {"a": "b"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": True}],
    }


def test_a_slice_for_all_nodes_belongs_to_no_node():
    assert "ownerReferences" not in adopt(captured(node=None), NODE)["metadata"]


def test_adopting_leaves_the_captured_slice_as_it_was():
    slice_ = captured()
    adopt(slice_, NODE)
    assert slice_ == captured()


def test_a_node_says_that_it_is_emulated_and_how_many_devices_it_has():
    annotations = node_object("n1", devices=4)["metadata"]["annotations"]
    assert annotations == {"kubedra.dev/emulated": "true", "kubedra.dev/devices": "4"}


@pytest.mark.parametrize(
    "options",
    [{"labels": {"zone": "a"}}, {"capacity": {"cpu": "2"}}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}],
)
def test_what_is_not_given_is_left_to_the_agent(options):
    plain = node_object("n1")
    assert set(plain) == {"apiVersion", "kind", "metadata"}
    assert node_object("n1", **options) != plain
