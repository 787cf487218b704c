"""Details of rejections, with names and amounts: the taint, the pod that uses a port, the amount left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from apiserver.api.helpers.tolerations import is_tolerated
from apiserver.api.objects import Json
from controllers.explain.amounts import amount_text
from controllers.explain.findings import plural
from controllers.explain.storage import volume_details
from controllers.explain.world import Trial, World
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.plugins.interpod import NAME as INTER_POD
from controllers.scheduler.plugins.interpod import InterPodState
from controllers.scheduler.plugins.placement import required_features
from controllers.scheduler.plugins.resources import FIT
from controllers.scheduler.plugins.spread import NAME as SPREAD
from controllers.scheduler.plugins.spread import SpreadState
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

__all__ = ["affinity_terms", "details", "insufficient_resources", "pods_with_ports", "taint_text"]

#: Names printed per line.
_NAMED: Final = 4


def details(world: World, trial: Trial, node: NodeInfo, rejection: Rejection) -> list[str]:
    """Describe the rejection of one node. Empty for rejections that the allocator explains."""
    found = _DETAILS.get(rejection.plugin)
    if found is not None:
        return list(found(world, trial, node))
    return volume_details(world, trial, node, rejection)


def shorten(names: Iterable[str]) -> str:
    """Join the first names: `a, b, c, d, …`."""
    listed = list(names)
    return ", ".join(listed[:_NAMED]) + (", …" if len(listed) > _NAMED else "")


def _cordoned(_: World, __: Trial, ___: NodeInfo) -> Iterator[str]:
    yield "the node is cordoned"


def _other_name(_: World, trial: Trial, __: NodeInfo) -> Iterator[str]:
    yield f"the pod requires node {trial.pod.spec.get('nodeName')}"


def taint_text(taint: Json) -> str:
    """Format a taint: `key=value:Effect`, or `key:Effect` without a value."""
    return (f"{taint['key']}={taint['value']}" if taint.get("value") else taint["key"]) + f":{taint['effect']}"


def _taints(world: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    taints = [
        taint_text(taint) for taint in node.taints if not is_tolerated(taint, trial.pod.tolerations, world.compares)
    ]
    yield f"untolerated taints: {', '.join(taints)}"


def affinity_terms(pod: PodInfo) -> list[Json]:
    """Return the terms of the required node affinity. A node must match one of them."""
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or ())


def _affinity(_: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    def has(key: str) -> str:
        return f"has {key}={node.labels[key]}" if key in node.labels else f"has no label {key}"

    for key, value in (trial.pod.spec.get("nodeSelector") or {}).items():
        if node.labels.get(key) != value:
            yield f"the pod requires {key}={value}, the node {has(key)}"
    for term in affinity_terms(trial.pod):
        for item in term.get("matchExpressions") or ():
            values = f" [{', '.join(item['values'])}]" if item.get("values") else ""
            requirement = f"{item['key']} {item['operator']}{values}"
            yield f"a node affinity term requires {requirement}, the node {has(item['key'])}"


def pods_with_ports(pod: PodInfo, node: NodeInfo) -> list[tuple[PodInfo, str]]:
    """List pods on the node that occupy the pod's host ports, each with the `port/protocol`."""
    found = []
    for other in node.pods.values():
        alone = NodeInfo("")
        alone.add_pod(other)
        found += [
            (other, f"{port}/{protocol}") for _, protocol, port in pod.ports if _conflict(alone, pod, port, protocol)
        ]
    return found


def _conflict(node: NodeInfo, pod: PodInfo, port: int, protocol: str) -> bool:
    return node.conflicts(tuple(each for each in pod.ports if (each[2], each[1]) == (port, protocol)))


def _ports(_: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    return (f"host port {port} is used by pod {other.key}" for other, port in pods_with_ports(trial.pod, node))


def insufficient_resources(trial: Trial, node: NodeInfo) -> list[str]:
    """List the resources that the node lacks. Extended resources served by devices are not among them."""
    rejection = trial.diagnosis.rejections[node.name]
    return [name for name in trial.pod.requests if f"Insufficient {name}" in rejection.reasons]


def _resources(_: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    if len(node.pods) + 1 > node.max_pods:
        yield f"{plural(len(node.pods), 'pod')} on the node, its maximum"
    for name in insufficient_resources(trial, node):
        request = trial.pod.requests[name]
        whole, used = node.allocatable.get(name, 0), node.requested.get(name, 0)
        requested, left, of = (amount_text(name, value) for value in (request, whole - used, whole))
        users = sorted(
            (pod for pod in node.pods.values() if pod.requests.get(name)), key=lambda pod: -pod.requests[name]
        )
        held = (
            f", used by {shorten(f'{pod.key} ({amount_text(name, pod.requests[name])})' for pod in users)}"
            if users
            else ""
        )
        size = f"{left} of {of} left{held}" if request <= whole else f"the node has {f'only {of}' if whole else 'none'}"
        yield f"{name}: {requested} requested, {size}"


def _spread(_: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    state = trial.cycle.active(SPREAD)
    if isinstance(state, SpreadState):
        yield from state.describe_violations(node)


def _inter_pod(world: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    state = trial.cycle.active(INTER_POD)
    if isinstance(state, InterPodState):
        yield from state.describe_violations(node, world.nodes)


def _features(_: World, trial: Trial, node: NodeInfo) -> Iterator[str]:
    declared = ((node.node or {}).get("status") or {}).get("declaredFeatures") or ()
    lacking = [name for name in required_features(trial.pod) if name not in declared]
    yield f"the kubelet does not declare {', '.join(lacking)}"


_DETAILS: Final[dict[str, Callable[[World, Trial, NodeInfo], Iterator[str]]]] = {
    "NodeUnschedulable": _cordoned,
    "NodeName": _other_name,
    "TaintToleration": _taints,
    "NodeAffinity": _affinity,
    "NodePorts": _ports,
    FIT: _resources,
    SPREAD: _spread,
    INTER_POD: _inter_pod,
    "NodeDeclaredFeatures": _features,
}
