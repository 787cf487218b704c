"""What a node's own state decides: filters and scores that look at one node and one pod only.

Filters in upstream's order, the first no wins: NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts,
NodeResourcesFit. Scores: NodeResourcesFit (least allocated over cpu and memory), NodeResourcesBalancedAllocation, and
the raw values of TaintToleration and NodeAffinity. All are functions of the pod's shape and the node's state;
`evaluate.py` keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apiserver.api.nodeselector import InvalidNodeSelector
from controllers.scheduler.nodes import NodeInfo
from controllers.scheduler.podinfo import PodInfo
from controllers.scheduler.status import Code, Rejection, SchedulingError
from controllers.scheduler.terms import tolerated, untolerated

UNSCHEDULABLE = Rejection("NodeUnschedulable", ("node(s) were unschedulable",))
OTHER_NAME = Rejection("NodeName", ("node(s) didn't match the requested node name",))
TAINTED = Rejection("TaintToleration", ("node(s) had untolerated taint(s)",))
NOT_AFFINE = Rejection("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))
PORTS_TAKEN = Rejection(
    "NodePorts", ("node(s) didn't have free ports for the requested pod ports",), Code.UNSCHEDULABLE
)
_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_MAX = 100


@dataclass(frozen=True, slots=True)
class LocalScores:
    """What a node that fits is worth, before normalisation."""

    resources: int = 0
    """NodeResourcesFit and NodeResourcesBalancedAllocation together: both have weight 1 and no normalisation."""
    taints: int = 0
    """PreferNoSchedule taints that the pod does not tolerate."""
    preference: int = 0
    """Weights of the preferred node affinity terms that match."""


def rejection(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """The first filter that says no. Raises SchedulingError for a selector that cannot be read."""
    if node.unschedulable and not tolerated(_UNSCHEDULABLE_TAINT, pod.tolerations):
        return UNSCHEDULABLE
    wanted = pod.spec.get("nodeName")
    if wanted and wanted != node.name:
        return OTHER_NAME
    if node.taints and untolerated(node.taints, pod.tolerations):
        return TAINTED
    affinity = pod.node_affinity
    if affinity.labels or affinity.selector is not None:
        try:
            if not affinity.match(node.node or {}):
                return NOT_AFFINE
        except InvalidNodeSelector as error:
            raise SchedulingError(f'running "NodeAffinity" filter plugin: {error}') from error
    if pod.ports and node.conflicts(pod.ports):
        return PORTS_TAKEN
    return unfit(pod, node)


def unfit(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """NodeResourcesFit: every resource that is short is named."""
    short: list[str] = []
    unresolvable = False
    if len(node.pods) + 1 > node.max_pods:
        short.append("Too many pods")
    allocatable, requested = node.allocatable, node.requested
    for name, value in pod.requests.items():
        capacity = allocatable.get(name, 0)
        if value > capacity - requested.get(name, 0):
            short.append(f"Insufficient {name}")
            unresolvable |= value > capacity
    if not short:
        return None
    if len(short) > 1:
        short.sort(key=_order)
    return Rejection("NodeResourcesFit", tuple(short), Code.UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE)


_FIRST = ("Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage")


def _order(reason: str) -> tuple[int, str]:
    return (_FIRST.index(reason) if reason in _FIRST else len(_FIRST), reason)


def resources_score(pod: PodInfo, node: NodeInfo) -> int:
    """Least allocated, and how far the pod balances the node; the latter not for pods that ask for nothing."""
    cpu, memory = pod.assumed_requests
    score = _least_allocated(((node.assumed_cpu + cpu, node.cpu), (node.assumed_memory + memory, node.memory)))
    requests = pod.requests
    cpu, memory = requests.get("cpu", 0), requests.get("memory", 0)
    if cpu or memory:
        used_cpu, used_memory = node.requested.get("cpu", 0), node.requested.get("memory", 0)
        before = _balance(((used_cpu, node.cpu), (used_memory, node.memory)))
        after = _balance(((used_cpu + cpu, node.cpu), (used_memory + memory, node.memory)))
        score += _MAX // 2 + (_MAX // 2 + after - before) // 2
    return score


def _least_allocated(resources: tuple[tuple[int, int], ...]) -> int:
    total = weights = 0
    for used, capacity in resources:
        if capacity:
            weights += 1
            if used <= capacity:
                total += (capacity - used) * _MAX // capacity
    return total // weights if weights else 0


def _balance(resources: tuple[tuple[int, int], ...]) -> int:
    fractions = [min(1.0, used / capacity) for used, capacity in resources if capacity]
    deviation = abs(fractions[0] - fractions[1]) / 2 if len(fractions) == 2 else 0.0
    return int((1 - deviation) * _MAX)


def local_scores(pod: PodInfo, node: NodeInfo) -> LocalScores:
    """The scores of a node that fits. Raises SchedulingError for preferences that cannot be read."""
    taints = 0
    if node.preferring:
        tolerations = [t for t in pod.tolerations if t.get("effect", "") in ("", "PreferNoSchedule")]
        taints = sum(1 for taint in node.preferring if not tolerated(taint, tolerations))
    try:
        preferred = pod.preferred_nodes
    except InvalidNodeSelector as error:
        raise SchedulingError(f'running PreScore plugin "NodeAffinity": {error}') from error
    preference = preferred.score(node.node or {}) if preferred is not None else 0
    return LocalScores(resources_score(pod, node), taints, preference)


_MB = 1024 * 1024
_FEWEST_BYTES, _MOST_BYTES = 23 * _MB, 1000 * _MB


def image_score(pod: PodInfo, node: NodeInfo, image_nodes: Mapping[str, int], nodes: int) -> int:
    """ImageLocality: the bytes of the pod's images that the node has, less for images that few nodes have."""
    total = sum(int(node.images[name] * (image_nodes[name] / nodes)) for name in pod.images if name in node.images)
    most = _MOST_BYTES * (len(pod.spec.get("initContainers") or ()) + len(pod.spec["containers"]))
    return _MAX * (min(max(total, _FEWEST_BYTES), most) - _FEWEST_BYTES) // (most - _FEWEST_BYTES)


def normalized(raw: list[int], reverse: bool = False) -> list[int]:
    """Raw values scaled so that the highest is 100; reversed, so that it is 0."""
    highest = max(raw, default=0)
    if not highest:
        return [_MAX] * len(raw) if reverse else raw
    return [_MAX - _MAX * value // highest if reverse else _MAX * value // highest for value in raw]
