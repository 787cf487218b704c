"""What happened in the cluster, as far as a waiting pod may care, and who cares.

A plugin that rejected a pod names the changes that could change its mind, each with a question (hint) about this pod,
or None for always. Changes nobody asks for cost nothing. Facts: Kubernetes 1.36, queueing hints of the default plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

from controllers.scheduler import interpod, spread
from controllers.scheduler.local import unfit
from controllers.scheduler.nodes import NodeInfo
from controllers.scheduler.podinfo import PodInfo
from controllers.scheduler.requests import pod_requests
from controllers.scheduler.terms import blocking, tolerated, untolerated

Json = dict[str, Any]


class Change(Enum):
    """Kinds of change. POD_ADD and POD_DELETE are about bound pods; POD_DELETE also is the end of one."""

    NODE_ADD = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABEL = auto()
    NODE_TAINT = auto()
    NODE_CONDITION = auto()
    NODE_ANNOTATION = auto()
    NODE_DELETE = auto()
    POD_ADD = auto()
    POD_LABEL = auto()
    POD_SCALE_DOWN = auto()
    POD_GATES_ELIMINATED = auto()
    POD_TOLERATION = auto()
    POD_GENERATED_CLAIM = auto()
    POD_OTHER = auto()
    POD_DELETE = auto()
    CLAIM_ADD = auto()
    CLAIM_UPDATE = auto()
    CLASS_ADD = auto()
    CLASS_UPDATE = auto()
    SLICE_ADD = auto()
    SLICE_UPDATE = auto()
    POD_GROUP_ADD = auto()


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `only` restricts it to pods (by uid) that it can concern at all."""

    change: Change
    old: Json | None
    new: Json | None
    only: frozenset[str] | None = None


Hint = Callable[[PodInfo, Event], bool]
Hints = Mapping[str, Mapping[Change, Hint | None]]


def _own(pod: PodInfo, event: Event) -> bool:
    return event.new is not None and event.new["metadata"]["uid"] == pod.uid


def _info(node: Json | None) -> NodeInfo | None:
    if node is None:
        return None
    info = NodeInfo(node["metadata"]["name"])
    info.set_node(node)
    return info


_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def _open_again(pod: PodInfo, event: Event) -> bool:
    def closed(node: Json | None) -> bool:
        return node is None or bool(node.get("spec", {}).get("unschedulable"))

    return closed(event.old) and (not closed(event.new) or tolerated(_UNSCHEDULABLE_TAINT, pod.tolerations))


def _tolerates_unschedulable(pod: PodInfo, event: Event) -> bool:
    return _own(pod, event) and tolerated(_UNSCHEDULABLE_TAINT, (event.new or {})["spec"].get("tolerations") or ())


def _tolerable_now(pod: PodInfo, event: Event) -> bool:
    def blocked(node: Json | None) -> bool:
        return node is None or untolerated(blocking(node.get("spec", {}).get("taints") or ()), pod.tolerations)

    return blocked(event.old) and not blocked(event.new)


def _affine_now(pod: PodInfo, event: Event) -> bool:
    try:
        return pod.node_affinity.match(event.new or {}) and not (event.old and pod.node_affinity.match(event.old))
    except ValueError:
        return True


def _frees_port(pod: PodInfo, event: Event) -> bool:
    gone = event.old
    if gone is None or not gone["spec"].get("nodeName"):
        return False
    info = NodeInfo("")
    info.add_pod(PodInfo(gone))
    return info.conflicts(pod.ports)


def _was_placed(pod: PodInfo, event: Event) -> bool:
    gone = event.old or {}
    return bool(gone.get("spec", {}).get("nodeName") or gone.get("status", {}).get("nominatedNodeName"))


def _frees_resources(pod: PodInfo, event: Event) -> bool:
    if _own(pod, event):
        return True
    if event.old is None or event.new is None or not event.new["spec"].get("nodeName"):
        return False
    before, after = pod_requests(event.old), pod_requests(event.new)
    return any(before.get(name, 0) > after.get(name, 0) for name in pod.requests)


def _fits_empty(pod: PodInfo, event: Event) -> bool:
    new, old = _info(event.new), _info(event.old)
    if new is None or unfit(pod, new) is not None:
        return False
    if old is None or new.max_pods > old.max_pods:
        return True
    return any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in pod.requests)


def _spread_pod(pod: PodInfo, event: Event) -> bool:
    if _own(pod, event):
        return True
    wanted = spread.constraints(pod, "DoNotSchedule")
    for other in (event.old, event.new):
        if other is not None and other["metadata"]["namespace"] == pod.namespace:
            labels = other["metadata"].get("labels")
            if any(constraint.selector.matches(labels) for constraint in wanted):
                return True
    return False


def _spread_node(pod: PodInfo, event: Event) -> bool:
    wanted = spread.constraints(pod, "DoNotSchedule")

    def domains(node: Json | None) -> tuple[str | None, ...] | None:
        labels = (node or {}).get("metadata", {}).get("labels") or {}
        return tuple(labels.get(c.key) for c in wanted) if all(c.key in labels for c in wanted) else None

    before, after = domains(event.old), domains(event.new)
    if event.change is Change.NODE_TAINT:
        return after is not None
    return before != after


def _interpod_pod(pod: PodInfo, event: Event) -> bool:
    other = event.new or event.old
    if other is None:
        return False
    if _own(pod, event):
        return True
    labels: Mapping[str, str] = {}
    terms = (*pod.required_affinity, *pod.required_anti_affinity)
    if any(not t.namespace_selector.nothing or t.matches(other, labels) for t in terms):
        return True
    theirs = PodInfo(other)
    return theirs.has_pod_affinity and any(
        not t.namespace_selector.nothing or t.matches(pod.pod, labels) for t in theirs.required_anti_affinity
    )


def _interpod_node(pod: PodInfo, event: Event) -> bool:
    before = (event.old or {}).get("metadata", {}).get("labels") or {}
    after = (event.new or {}).get("metadata", {}).get("labels") or {}
    keys = [term.topology_key for term in (*pod.required_affinity, *pod.required_anti_affinity)]
    return not keys or any(key in after and after[key] != before.get(key) for key in keys)


_NODE_TAINT_ALWAYS: Mapping[Change, Hint | None] = {Change.NODE_TAINT: None}

#: All but those of DynamicResources, which needs to see the claims.
HINTS: Hints = MappingProxyType(
    {
        "SchedulingGates": {Change.POD_GATES_ELIMINATED: _own},
        "NodeUnschedulable": {
            Change.NODE_ADD: _open_again,
            Change.NODE_TAINT: _open_again,
            Change.POD_TOLERATION: _tolerates_unschedulable,
        },
        "NodeName": {**_NODE_TAINT_ALWAYS, Change.NODE_ADD: None},
        "TaintToleration": {
            Change.NODE_ADD: _tolerable_now,
            Change.NODE_TAINT: _tolerable_now,
            Change.POD_TOLERATION: _own,
        },
        "NodeAffinity": {**_NODE_TAINT_ALWAYS, Change.NODE_ADD: _affine_now, Change.NODE_LABEL: _affine_now},
        "NodePorts": {**_NODE_TAINT_ALWAYS, Change.NODE_ADD: None, Change.POD_DELETE: _frees_port},
        "NodeResourcesFit": {
            **_NODE_TAINT_ALWAYS,
            Change.NODE_ADD: _fits_empty,
            Change.NODE_ALLOCATABLE: _fits_empty,
            Change.POD_DELETE: _was_placed,
            Change.POD_SCALE_DOWN: _frees_resources,
        },
        spread.NAME: {
            Change.POD_ADD: _spread_pod,
            Change.POD_LABEL: _spread_pod,
            Change.POD_DELETE: _spread_pod,
            Change.POD_TOLERATION: _own,
            Change.NODE_ADD: _spread_node,
            Change.NODE_DELETE: _spread_node,
            Change.NODE_LABEL: _spread_node,
            Change.NODE_TAINT: _spread_node,
        },
        interpod.NAME: {
            **_NODE_TAINT_ALWAYS,
            Change.POD_ADD: _interpod_pod,
            Change.POD_LABEL: _interpod_pod,
            Change.POD_DELETE: _interpod_pod,
            Change.NODE_ADD: _interpod_node,
            Change.NODE_LABEL: _interpod_node,
        },
    }
)


def node_changes(old: Json, new: Json) -> list[Change]:
    """What an update of a node amounts to."""
    changes = []
    before, after = old.get("spec") or {}, new.get("spec") or {}
    status_before, status_after = old.get("status") or {}, new.get("status") or {}
    if status_before.get("allocatable") != status_after.get("allocatable"):
        changes.append(Change.NODE_ALLOCATABLE)
    if old["metadata"].get("labels") != new["metadata"].get("labels"):
        changes.append(Change.NODE_LABEL)
    closed_before, closed_after = before.get("unschedulable"), after.get("unschedulable")
    if before.get("taints") != after.get("taints") or (closed_before and not closed_after):
        changes.append(Change.NODE_TAINT)
    if _conditions(status_before) != _conditions(status_after):
        changes.append(Change.NODE_CONDITION)
    if old["metadata"].get("annotations") != new["metadata"].get("annotations"):
        changes.append(Change.NODE_ANNOTATION)
    return changes


def _conditions(status: Json) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}


def pod_changes(old: Json, new: Json) -> list[Change]:
    """What an update of a pod amounts to."""
    changes = []
    if old["metadata"].get("labels") != new["metadata"].get("labels"):
        changes.append(Change.POD_LABEL)
    before, after = old["spec"], new["spec"]
    if before["containers"] != after["containers"] or old.get("status", {}).get("containerStatuses") != new.get(
        "status", {}
    ).get("containerStatuses"):
        was, now = pod_requests(old), pod_requests(new)
        if any(now.get(name, 0) < value for name, value in was.items()):
            changes.append(Change.POD_SCALE_DOWN)
    if before.get("schedulingGates") and not after.get("schedulingGates"):
        changes.append(Change.POD_GATES_ELIMINATED)
    if len(after.get("tolerations") or ()) > len(before.get("tolerations") or ()):
        changes.append(Change.POD_TOLERATION)
    claims = ("resourceClaimStatuses", "extendedResourceClaimStatus")
    if any(old.get("status", {}).get(field) != new.get("status", {}).get(field) for field in claims):
        changes.append(Change.POD_GENERATED_CLAIM)
    return changes or [Change.POD_OTHER]
