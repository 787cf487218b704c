"""Emulated nodes: a Node object that the node agent takes for its own, and the ResourceSlices of its devices.

The annotation `kubedra.dev/emulated` makes the agent register the node (labels, capacity, Ready) and run its pods;
`kubedra.dev/devices` makes it publish that many example GPUs. Works against any server on which the agent runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kubedra.manifests import Manifest, load
from kubedra.profiles import load as load_profile

if TYPE_CHECKING:
    from kubedra.client import Client

Json = dict[str, Any]

EMULATED = "kubedra.dev/emulated"
DEVICES = "kubedra.dev/devices"
PROFILE = "kubedra.dev/profile"
#: Seconds that the agent has to make a node ready.
READY_TIMEOUT = 10.0

_SERVER_SET = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
    "selfLink",
)


def node_object(
    name: str,
    *,
    devices: int = 0,
    profile: str = "",
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    taints: Iterable[Json] = (),
) -> Json:
    """A Node as `kubedra node add` creates it; the agent fills in what a kubelet would."""
    annotations = {EMULATED: "true", **({DEVICES: str(devices)} if devices else {})}
    if profile:
        annotations[PROFILE] = load_profile(profile).name
    node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}}
    if labels:
        node["metadata"]["labels"] = dict(labels)
    if capacity:
        node["status"] = {"capacity": dict(capacity)}
    if taints:
        node["spec"] = {"taints": list(taints)}
    return node


def adopt(slice_: Json, node: Json) -> Json:
    """A captured slice as this server accepts it: server-set fields dropped, the Node its owner where it belongs to one
    node.
    """
    meta = {key: value for key, value in slice_.get("metadata", {}).items() if key not in _SERVER_SET}
    if slice_.get("spec", {}).get("nodeName") == node["metadata"]["name"]:
        owner = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": node["metadata"]["name"],
            "uid": node["metadata"]["uid"],
            "controller": True,
        }
        meta["ownerReferences"] = [owner]
    return {**{key: value for key, value in slice_.items() if key != "status"}, "metadata": meta}


def add_node(
    client: Client,
    name: str,
    *,
    devices: int = 0,
    profile: str = "",
    slices: Iterable[Manifest] = (),
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    taints: Iterable[Json] = (),
) -> Json:
    """Create an emulated Node with `devices` example GPUs, the hardware of a profile and the slices of the given
    manifests, wait until it is Ready, and return it.

    Raises ApiError where the server refuses an object, ValueError where there is no such profile or a manifest holds
    something else than this node's slices, TimeoutError where no agent takes the node.
    """
    published = [obj for manifest in slices for obj in load(manifest)]
    for obj in published:
        _check_slice(obj, name)
    node = client.create(
        node_object(name, devices=devices, profile=profile, labels=labels, capacity=capacity, taints=taints)
    )
    for obj in published:
        client.create(adopt(obj, node), strict=False)
    try:
        return client.wait(f"node/{name}", "condition=Ready", timeout=READY_TIMEOUT)
    except TimeoutError:
        raise TimeoutError(
            f"node {name} was created, but nothing made it ready: does the server run kubedra's node agent (`kubedra"
            " up`)?"
        ) from None


def _check_slice(obj: Json, node: str) -> None:
    name = obj.get("metadata", {}).get("name", "")
    if obj["kind"] != "ResourceSlice":
        raise ValueError(f"{obj['kind']} {name}: only ResourceSlices can be published on a node")
    pinned = obj.get("spec", {}).get("nodeName")
    if pinned and pinned != node:
        raise ValueError(f"ResourceSlice {name} belongs to node {pinned}, not {node}")
