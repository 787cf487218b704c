"""The node's admission of pods: the scheduler's node checks, repeated for pods bound by other clients.

Facts: upstream's pkg/kubelet/lifecycle/predicate.go. A critical pod is rejected like any other; a kubelet would evict
pods for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from apiserver.api.helpers.pod_lifecycle import is_finished
from apiserver.api.helpers.pod_requests import is_extended
from apiserver.api.helpers.tolerations import has_untolerated
from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import InvalidNodeSelector
from controllers.kubelet.pods.sysctls import find_forbidden
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.plugins.placement import NOT_AFFINE, PORTS_TAKEN, TAINTED
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

#: Reason and message.
Refusal = tuple[str, str]
_OS: Final = "kubernetes.io/os"


class NodeAdmission:
    """The pods admitted by a node, and their resource use.

    `present` returns the pods bound to the node. Pods that had started before the first call were admitted earlier.
    """

    def __init__(self, present: Callable[[], Iterable[Json]] = tuple, comparing: bool = False) -> None:
        """Create the admission of one node. `comparing` enables numeric comparison in tolerations."""
        self._compares = comparing
        self._present, self._info = present, NodeInfo("")
        self._seeded = False

    def admit(self, pod: Json, node: Json) -> Refusal | None:
        """Admit a pod, or return the reason to reject it. Admitted pods stay admitted."""
        self._seed()
        known = self._info.pods.get(pod["metadata"]["uid"])
        if known is not None:
            if known.pod["metadata"].get("generation") != pod["metadata"].get("generation"):
                self._replace(pod)
            return None
        pod_info = PodInfo(pod)
        refusal = _check_sysctls(pod, node) or _check_os(pod, node) or self._check_predicates(pod_info, node)
        if refusal is None:
            self._info.add_pod(pod_info)
        return refusal

    def remove(self, pod: Json) -> None:
        """Free the resources of an ended or deleted pod."""
        self._info.remove_pod(pod["metadata"]["uid"])

    def _seed(self) -> None:
        if not self._seeded:
            self._seeded = True
            for pod in self._present():
                if pod.get("status", {}).get("startTime") and not is_finished(pod):
                    self._info.add_pod(PodInfo(pod))

    def _replace(self, pod: Json) -> None:
        self.remove(pod)
        self._info.add_pod(PodInfo(pod))

    def _check_predicates(self, pod_info: PodInfo, node: Json) -> Refusal | None:
        if not (node.get("status") or {}).get("allocatable"):
            # The node is not registered yet and its resources are unknown.
            return None
        info = self._info
        if info.node is not node:
            info.set_node(node)
        if short := _find_insufficient(pod_info, info):
            return short
        if not _is_affine(pod_info, node):
            return _predicate_failure(NOT_AFFINE)
        if info.conflicts(pod_info.ports):
            return _predicate_failure(PORTS_TAKEN)
        evicting = [taint for taint in info.taints if taint["effect"] == "NoExecute"]
        return (
            _predicate_failure(TAINTED)
            if evicting and has_untolerated(evicting, pod_info.tolerations, self._compares)
            else None
        )


def _check_sysctls(pod: Json, node: Json) -> Refusal | None:
    message = find_forbidden(pod, node)
    return ("SysctlForbidden", message) if message else None


def _check_os(pod: Json, node: Json) -> Refusal | None:
    """Return the refusal of a pod that requires another OS than Linux."""
    required = (pod["spec"].get("nodeSelector") or {}).get(_OS)
    system = (node["metadata"].get("labels") or {}).get(_OS, "linux")
    if required and required != system:
        message = f"Failed to admit pod as the `{_OS}` label doesn't match node label"
        return "PodOSSelectorNodeLabelDoesNotMatch", message
    if (pod["spec"].get("os") or {}).get("name", "linux") != "linux":
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    return None


def _find_insufficient(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    """Return the refusal for the first insufficient resource.

    Resources served by devices and extended resources unknown to the node are skipped.
    """
    if "pods" in node.allocatable and len(node.pods) + 1 > node.max_pods:
        return _insufficient("pods", 1, len(node.pods), node.max_pods)
    served = _served_by_devices(pod.pod)
    for name in sorted(pod.requests, key=_rank):
        requested, used, capacity = pod.requests[name], node.requested.get(name, 0), node.allocatable.get(name, 0)
        if name in served or (is_extended(name) and name not in node.allocatable):
            continue
        if requested > capacity - used:
            return _insufficient(name, requested, used, capacity)
    return None


def _rank(resource: str) -> tuple[int, str]:
    first = ("cpu", "memory", "ephemeral-storage")
    return (first.index(resource) if resource in first else len(first), resource)


def _served_by_devices(pod: Json) -> set[str]:
    found = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return {mapping["resourceName"] for mapping in found.get("requestMappings") or ()}


def _insufficient(resource: str, requested: int, used: int, capacity: int) -> Refusal:
    amounts = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {amounts}"


def _is_affine(pod: PodInfo, node: Json) -> bool:
    try:
        return pod.node_affinity.match(node)
    except InvalidNodeSelector:
        return False


def _predicate_failure(rejection: Rejection) -> Refusal:
    return rejection.plugin, f"Predicate {rejection.plugin} failed: {rejection.reasons[0]}"
