"""Whether a node takes a pod that names it: the scheduler asked the same of the pods that it bound, nobody of others.

Facts: upstream's pkg/kubelet/lifecycle/predicate.go. A pod that is critical is refused like any other, where a kubelet
would evict others for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from apiserver.api.helpers.pod_lifecycle import is_finished
from apiserver.api.helpers.pod_requests import is_extended
from apiserver.api.helpers.tolerations import untolerated
from apiserver.api.selectors.node_selectors import InvalidNodeSelector
from controllers.kubelet.pods.sysctls import forbidden
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.plugins.placement import NOT_AFFINE, PORTS_TAKEN, TAINTED
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

Json = dict[str, Any]
#: Reason and message.
Refusal = tuple[str, str]
_OS: Final = "kubernetes.io/os"


class Room:
    """The pods that a node has taken, and what they use of it. `present` gives the pods that name the node: those that
    had begun before the first is asked about were taken earlier.
    """

    def __init__(self, present: Callable[[], Iterable[Json]] = tuple, comparing: bool = False) -> None:
        """`comparing`: whether tolerations compare numbers."""
        self._compares = comparing
        self._present, self._info = present, NodeInfo("")
        self._seeded = False

    def take(self, pod: Json, node: Json) -> Refusal | None:
        """Why the node does not take the pod; it counts from now on if it does. One that was taken stays so."""
        self._seed()
        known = self._info.pods.get(pod["metadata"]["uid"])
        if known is not None:
            if known.pod["metadata"].get("generation") != pod["metadata"].get("generation"):
                self._replace(pod)
            return None
        wanted = PodInfo(pod)
        refusal = _unsafe(pod, node) or _wrong_system(pod, node) or self._refusal(wanted, node)
        if refusal is None:
            self._info.add_pod(wanted)
        return refusal

    def leave(self, pod: Json) -> None:
        """The pod has ended, or is gone."""
        self._info.remove_pod(pod["metadata"]["uid"])

    def _seed(self) -> None:
        if not self._seeded:
            self._seeded = True
            for pod in self._present():
                if pod.get("status", {}).get("startTime") and not is_finished(pod):
                    self._info.add_pod(PodInfo(pod))

    def _replace(self, pod: Json) -> None:
        self.leave(pod)
        self._info.add_pod(PodInfo(pod))

    def _refusal(self, wanted: PodInfo, node: Json) -> Refusal | None:
        if not (node.get("status") or {}).get("allocatable"):
            # It has not been registered yet: nothing is known of it.
            return None
        info = self._info
        if info.node is not node:
            info.set_node(node)
        if short := _short(wanted, info):
            return short
        if not _is_affine(wanted, node):
            return _said(NOT_AFFINE)
        if info.conflicts(wanted.ports):
            return _said(PORTS_TAKEN)
        evicting = [taint for taint in info.taints if taint["effect"] == "NoExecute"]
        return _said(TAINTED) if evicting and untolerated(evicting, wanted.tolerations, self._compares) else None


def _unsafe(pod: Json, node: Json) -> Refusal | None:
    message = forbidden(pod, node)
    return ("SysctlForbidden", message) if message else None


def _wrong_system(pod: Json, node: Json) -> Refusal | None:
    """Nodes run Linux."""
    wanted = (pod["spec"].get("nodeSelector") or {}).get(_OS)
    system = (node["metadata"].get("labels") or {}).get(_OS, "linux")
    if wanted and wanted != system:
        message = f"Failed to admit pod as the `{_OS}` label doesn't match node label"
        return "PodOSSelectorNodeLabelDoesNotMatch", message
    if (pod["spec"].get("os") or {}).get("name", "linux") != "linux":
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    return None


def _short(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    """The first resource that does not suffice. What devices serve, and extended ones that the node does not list, are
    not its business.
    """
    if "pods" in node.allocatable and len(node.pods) + 1 > node.max_pods:
        return _lacking("pods", 1, len(node.pods), node.max_pods)
    served = _served_by_devices(pod.pod)
    for name in sorted(pod.requests, key=_rank):
        wanted, used, capacity = pod.requests[name], node.requested.get(name, 0), node.allocatable.get(name, 0)
        if name in served or (is_extended(name) and name not in node.allocatable):
            continue
        if wanted > capacity - used:
            return _lacking(name, wanted, used, capacity)
    return None


def _rank(resource: str) -> tuple[int, str]:
    first = ("cpu", "memory", "ephemeral-storage")
    return (first.index(resource) if resource in first else len(first), resource)


def _served_by_devices(pod: Json) -> set[str]:
    found = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return {mapping["resourceName"] for mapping in found.get("requestMappings") or ()}


def _lacking(resource: str, wanted: int, used: int, capacity: int) -> Refusal:
    amounts = f"requested: {wanted}, used: {used}, capacity: {capacity}"
    return f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {amounts}"


def _is_affine(pod: PodInfo, node: Json) -> bool:
    try:
        return pod.node_affinity.match(node)
    except InvalidNodeSelector:
        return False


def _said(rejection: Rejection) -> Refusal:
    return rejection.plugin, f"Predicate {rejection.plugin} failed: {rejection.reasons[0]}"
