"""Nodes and the pods on them, updated by events; pods that are about to be bound count already (assumed).

Every change of a node is logged, so that cached results for the other nodes stay valid. The list of nodes is
round-robin over zones, and in order of addition within a zone, as in upstream's snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from apiserver.api.helpers.pod_requests import Amounts, amounts
from apiserver.api.objects import Json
from controllers.scheduler.state.affected_nodes import TouchLog
from controllers.scheduler.state.pod_info import PodInfo, Port
from controllers.scheduler.state.terms import blocking_taints, preferring

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the wire's word for every address


class NodeInfo:
    """One node. `node` is None while only pods of it are known."""

    __slots__ = (
        "_ports", "allocatable", "assumed_cpu", "assumed_memory", "cpu", "images", "labels", "max_pods",
        "memory", "name", "node", "pods", "preferring", "requested", "taints", "unschedulable", "with_affinity",
        "with_anti_affinity", "zone",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Json | None = None
        self.labels: Mapping[str, str] = {}
        self.zone = ""
        self.allocatable: Amounts = {}
        self.cpu = self.memory = self.max_pods = 0
        self.requested: Amounts = {}
        self.assumed_cpu = self.assumed_memory = 0
        self.unschedulable = False
        self.taints: tuple[Json, ...] = ()
        self.preferring: tuple[Json, ...] = ()
        self.images: dict[str, int] = {}
        self.pods: dict[str, PodInfo] = {}
        self.with_affinity: dict[str, PodInfo] = {}
        self.with_anti_affinity: dict[str, PodInfo] = {}
        self._ports: dict[Port, int] = {}

    def set_node(self, node: Json) -> None:
        spec, status = node.get("spec") or {}, node.get("status") or {}
        self.node = node
        self.labels = node["metadata"].get("labels") or {}
        region = self.labels.get("topology.kubernetes.io/region", "")
        zone = self.labels.get("topology.kubernetes.io/zone", "")
        self.zone = f"{region}:\x00:{zone}" if region or zone else ""
        self.allocatable = amounts(status.get("allocatable"))
        self.cpu, self.memory = self.allocatable.get("cpu", 0), self.allocatable.get("memory", 0)
        self.max_pods = self.allocatable.get("pods", 0)
        self.unschedulable = bool(spec.get("unschedulable"))
        taints = spec.get("taints") or ()
        self.taints, self.preferring = blocking_taints(taints), preferring(taints)
        self.images = {
            name: image.get("sizeBytes", 0) for image in status.get("images") or () for name in image.get("names") or ()
        }

    def add_pod(self, pod: PodInfo) -> None:
        self.pods[pod.uid] = pod
        self._count(pod, 1)
        if pod.has_pod_affinity:
            self.with_affinity[pod.uid] = pod
            if pod.required_anti_affinity:
                self.with_anti_affinity[pod.uid] = pod

    def remove_pod(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._count(pod, -1)
            self.with_affinity.pop(uid, None)
            self.with_anti_affinity.pop(uid, None)

    def _count(self, pod: PodInfo, sign: int) -> None:
        for name, value in pod.requests.items():
            self.requested[name] = self.requested.get(name, 0) + sign * value
        cpu, memory = pod.assumed_requests
        self.assumed_cpu += sign * cpu
        self.assumed_memory += sign * memory
        for port in pod.ports:
            count = self._ports.get(port, 0) + sign
            if count:
                self._ports[port] = count
            else:
                self._ports.pop(port, None)

    def conflicts(self, ports: tuple[Port, ...]) -> bool:
        """Return whether a host port is in use; the address 0.0.0.0 overlaps with all."""
        if not self._ports:
            return False
        for address, protocol, port in ports:
            for used_address, used_protocol, used in self._ports:
                overlap = address in (used_address, ANY_ADDRESS) or used_address == ANY_ADDRESS
                if overlap and used == port and used_protocol == protocol:
                    return True
        return False

    def copy(self) -> NodeInfo:
        """Return a copy, from which pods can be removed in a simulation."""
        other = NodeInfo(self.name)
        if self.node is not None:
            other.set_node(self.node)
        for pod in self.pods.values():
            other.add_pod(pod)
        return other


@dataclass(frozen=True, slots=True)
class _PlacedPod:
    info: PodInfo
    node: str
    assumed: bool


class Cache:
    """All nodes and the pods on them."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.with_affinity: dict[str, NodeInfo] = {}
        """Nodes that run a pod with any inter-pod term."""
        self.with_anti_affinity: dict[str, NodeInfo] = {}
        self.image_nodes: dict[str, int] = {}
        """The number of nodes with an image."""
        self.image_sizes: dict[str, int] = {}
        """The size of an image in bytes, as the first of these nodes reported it."""
        self.log = TouchLog()
        """The changed nodes."""
        self._placed: dict[str, _PlacedPod] = {}
        self._hidden: set[str] = set()
        self._order: list[NodeInfo] | None = None
        self._positions: dict[str, int] = {}

    def list(self) -> list[NodeInfo]:
        """Return the nodes in the order of evaluation. Callers must not change the list."""
        if self._order is None:
            zones: dict[str, list[NodeInfo]] = {}
            for info in self.nodes.values():
                if info.node is not None:
                    zones.setdefault(info.zone, []).append(info)
            rounds = zip_longest(*zones.values())
            self._order = [info for group in rounds for info in group if info is not None]
            self._positions = {info.name: position for position, info in enumerate(self._order)}
        return self._order

    def position(self, name: str) -> int | None:
        """Return the index of a node in the last list that `list` returned."""
        return self._positions.get(name)

    def set_node(self, node: Json) -> None:
        """Add or update a node."""
        name = node["metadata"]["name"]
        info = self.nodes.get(name) or self._create(name)
        zone, known = info.zone, info.node is not None
        self._count_images(info, -1)
        info.set_node(node)
        self._count_images(info, 1)
        if not known or zone != info.zone:
            self._order = None
        self._touch(info)

    def remove_node(self, name: str) -> None:
        info = self.nodes.get(name)
        if info is None:
            return
        self._count_images(info, -1)
        info.node = None
        self._order = None
        self._touch(info)
        if not info.pods:
            del self.nodes[name]

    def is_assumed(self, uid: str) -> bool:
        placed = self._placed.get(uid)
        return placed is not None and placed.assumed

    def assume(self, info: PodInfo, node: str) -> None:
        """Add a pod that is about to be bound to the node."""
        self._place(info, node, assumed=True)

    def forget(self, uid: str) -> None:
        """Remove a pod that will not be bound after all."""
        if self.is_assumed(uid):
            self._remove(uid)

    def set_pod(self, info: PodInfo, node: str) -> None:
        """Add or update a bound pod; confirm an assumed one."""
        self._place(info, node, assumed=False)

    def remove_pod(self, uid: str) -> None:
        self._remove(uid)

    @property
    def counts(self) -> tuple[int, int]:
        """Return the number of pods on nodes, and how many of them are assumed."""
        return len(self._placed), sum(placed.assumed for placed in self._placed.values())

    def node_of(self, uid: str) -> str | None:
        placed = self._placed.get(uid)
        return placed.node if placed is not None else None

    def pods(self) -> Iterator[PodInfo]:
        return (placed.info for uid, placed in self._placed.items() if uid not in self._hidden)

    def hide(self, uid: str) -> None:
        """Remove a pod from its node in a simulation, until `unhide`."""
        placed = self._placed.get(uid)
        if placed is not None and uid not in self._hidden:
            self._withdraw(placed)
        self._hidden.add(uid)

    def unhide(self, uid: str) -> None:
        """Add a hidden pod again, if it still exists."""
        placed = self._placed.get(uid)
        if placed is not None and uid in self._hidden:
            self._put(placed)
        self._hidden.discard(uid)

    def _place(self, info: PodInfo, node: str, assumed: bool) -> None:
        before = self._placed.get(info.uid)
        if before is not None and not assumed and before.node == node:
            # The pod is confirmed or its status changed: mostly its resources stay the same.
            self._placed[info.uid] = _PlacedPod(info, node, assumed=False)
            if info.uid in self._hidden:
                return
            target = self.nodes[node]
            if before.info.counts_as(info):
                target.pods[info.uid] = info
                for group in (target.with_affinity, target.with_anti_affinity):
                    if info.uid in group:
                        group[info.uid] = info
                return
        self._remove(info.uid)
        placed = self._placed[info.uid] = _PlacedPod(info, node, assumed)
        if info.uid not in self._hidden:
            self._put(placed)

    def _put(self, placed: _PlacedPod) -> None:
        target = self.nodes.get(placed.node) or self._create(placed.node)
        target.add_pod(placed.info)
        self._touch(target)

    def _remove(self, uid: str) -> None:
        placed = self._placed.pop(uid, None)
        if placed is not None and uid not in self._hidden:
            self._withdraw(placed)

    def _withdraw(self, placed: _PlacedPod) -> None:
        info = self.nodes[placed.node]
        info.remove_pod(placed.info.uid)
        self._touch(info)
        if info.node is None and not info.pods:
            del self.nodes[info.name]

    def _create(self, name: str) -> NodeInfo:
        info = self.nodes[name] = NodeInfo(name)
        return info

    def _touch(self, info: NodeInfo) -> None:
        self.log.touch(info.name)
        for group, members in (
            (self.with_affinity, info.with_affinity),
            (self.with_anti_affinity, info.with_anti_affinity),
        ):
            if members and info.node is not None:
                group[info.name] = info
            else:
                group.pop(info.name, None)

    def _count_images(self, info: NodeInfo, sign: int) -> None:
        if info.node is None:
            return
        for name, size in info.images.items():
            count = self.image_nodes.get(name, 0) + sign
            if count:
                self.image_nodes[name] = count
                self.image_sizes.setdefault(name, size)
            else:
                del self.image_nodes[name], self.image_sizes[name]


class Nominator:
    """Nominated pods by node: they count there for pods of no higher priority."""

    def __init__(self) -> None:
        self.waiting: dict[str, dict[str, PodInfo]] = {}
        self._nodes: dict[str, str] = {}

    def add(self, pod: PodInfo, node: str) -> None:
        """Nominate the pod to a node; "" removes the nomination."""
        self.remove(pod.uid)
        if node:
            self.waiting.setdefault(node, {})[pod.uid] = pod
            self._nodes[pod.uid] = node

    def node_of(self, pod: PodInfo) -> str:
        """Return the node that the pod is nominated to, "" for none.

        The pod's status has it only after a write and a watch event. Its victims may be gone before.
        """
        known = self._nodes.get(pod.uid) if self._nodes else None
        return known or (pod.pod.get("status") or {}).get("nominatedNodeName") or ""

    def before(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Return the pods nominated to the node that have at least the pod's priority."""
        others = self.waiting.get(node) if self.waiting else None
        return [p for p in others.values() if p.uid != pod.uid and p.priority >= pod.priority] if others else []

    def remove(self, uid: str) -> None:
        """Remove the pod's nomination."""
        node = self._nodes.pop(uid, None)
        if node is not None:
            del self.waiting[node][uid]
            if not self.waiting[node]:
                del self.waiting[node]
