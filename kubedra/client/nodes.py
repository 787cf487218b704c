"""Emulated nodes: a Node that the node agent runs, and the ResourceSlices of its devices.

The annotation `kubedra.dev/emulated` makes the agent register the node (labels, capacity, Ready) and run its pods.
`kubedra.dev/devices` makes it publish that many example GPUs. This works with any server where the agent runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from kubedra import profiles
from kubedra.client.manifests import Manifest, load
from kubedra.client.responses import ApiError
from kubedra.client.steps import Steps
from kubedra.profiles.node_names import replace_node_name
from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True

EMULATED = "kubedra.dev/emulated"
DEVICES = "kubedra.dev/devices"
PROFILE = "kubedra.dev/profile"
JOBS_EXIT_AFTER = "kubedra.dev/jobs-exit-after"
#: Default timeout for the agent to make a node Ready, in seconds.
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
    jobs_exit_after: str = "",
) -> Json:
    """Return the Node that `kubedra node add` creates. The agent sets the rest, as a kubelet would."""
    if devices < 0:
        raise ValueError(f"devices {devices}: cannot be negative")
    annotations = {EMULATED: "true", **({DEVICES: str(devices)} if devices else {})}
    if profile:
        annotations[PROFILE] = profiles.annotation_value(profile)
    if jobs_exit_after:
        annotations[JOBS_EXIT_AFTER] = jobs_exit_after
    node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}}
    if labels:
        node["metadata"]["labels"] = dict(labels)
    if capacity:
        node["status"] = {"capacity": dict(capacity)}
    if taints:
        node["spec"] = {"taints": list(taints)}
    return node


def adopt(slice_: Json, node: Json) -> Json:
    """Return a captured slice as this server accepts it, owned by `node` if it belongs to one node.

    Fields that the server sets are dropped. If the node had another name, the slice and its pool are renamed.
    """
    name, spec = node["metadata"]["name"], dict(slice_.get("spec", {}))
    meta = {key: value for key, value in slice_.get("metadata", {}).items() if key not in _SERVER_SET}
    captured = spec.get("nodeName")
    if captured:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"], "controller": True}
        meta["ownerReferences"] = [owner]
    if captured and captured != name:
        spec["nodeName"] = name
        # Pools are usually named after their node, and each node needs its own pools of a driver.
        pool = spec.get("pool", {})
        if pool.get("name"):
            spec["pool"] = {**pool, "name": _rename(pool["name"], captured, name)}
        meta["name"] = _rename(meta["name"], captured, name)
    return {**{key: value for key, value in slice_.items() if key != "status"}, "metadata": meta, "spec": spec}


def _rename(text: str, old: str, new: str) -> str:
    replaced = replace_node_name(text, old, new)
    return f"{new}-{text}" if replaced == text else replaced


class Captured:
    """The ResourceSlices in manifests, of one node or of a whole cluster. Other kinds are ignored."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        objects = [obj for manifest in manifests for obj in load(manifest)]
        self._slices = [obj for obj in objects if obj["kind"] == "ResourceSlice"]
        self._kinds = sorted({obj["kind"] for obj in objects})
        #: The names of the slices' nodes, sorted.
        self.nodes = sorted({name for obj in self._slices if (name := obj.get("spec", {}).get("nodeName"))})

    def of(self, node: str) -> list[Json]:
        """Return the slices of a node and those of no single node. Raises ValueError if there are none."""
        fitting = [obj for obj in self._slices if obj.get("spec", {}).get("nodeName") in (None, "", node)]
        if fitting:
            return fitting
        found = f"slices of {', '.join(self.nodes)}" if self.nodes else ", ".join(self._kinds) or "nothing"
        raise ValueError(f"the given slices have none of node {node}: found {found}")


class NodeAdder(Protocol):
    """A client that adds nodes."""

    @property
    def add_node(self) -> Callable[..., Json]: ...


class NodeWriter(Protocol):
    """The client methods that adding a node uses."""

    default_timeout: Callable[[float], float]

    def create(self, obj: Json, *, strict: bool = True) -> Steps[Json]: ...

    def wait(self, target: str, until: str, *, timeout: float) -> Steps[Json]: ...


def add_node(client: NodeAdder, name: str, **options: Any) -> Json:
    """Call `client.add_node(name, …)`."""
    return client.add_node(name, **options)


def create_node(
    methods: NodeWriter,
    name: str,
    *,
    devices: int,
    profile: str,
    slices: Iterable[Manifest] | Captured,
    slices_of: str,
    labels: Mapping[str, str] | None,
    capacity: Mapping[str, str] | None,
    taints: Iterable[Json],
    jobs_exit_after: str,
) -> Steps[Json]:
    """Run `Methods.add_node`, as steps."""
    captured = slices if isinstance(slices, Captured) else Captured(manifests) if (manifests := [*slices]) else None
    published = captured.of(slices_of or name) if captured else []
    node = yield from methods.create(
        node_object(
            name,
            devices=devices,
            profile=profile,
            labels=labels,
            capacity=capacity,
            taints=taints,
            jobs_exit_after=jobs_exit_after,
        )
    )
    for obj in published:
        yield from _publish(methods, adopt(obj, node))
    timeout = methods.default_timeout(READY_TIMEOUT)
    try:
        return (yield from methods.wait(f"node/{name}", "condition=Ready", timeout=timeout))
    except TimeoutError:
        raise TimeoutError(
            f"node {name} was created but did not become Ready within {timeout:g} s; run kubedra's node agent"
            " (`kubedra up`)"
        ) from None


def _publish(methods: NodeWriter, slice_: Json) -> Steps[None]:
    # Slices of another release may have fields that this one does not know.
    try:
        yield from methods.create(slice_, strict=False)
    except ApiError as error:
        # A slice that belongs to no single node exists already if another node was added before.
        if error.reason != "AlreadyExists" or slice_["spec"].get("nodeName"):
            raise
