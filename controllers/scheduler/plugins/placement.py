"""Plugins that compare a pod with fields of one node.

NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, NodeDeclaredFeatures.
"""

from __future__ import annotations

from typing import Any

from apiserver.api.helpers.tolerations import has_untolerated, is_tolerated
from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import InvalidNodeSelector, NodeSelector, PreferredTerms
from controllers.scheduler.config.arguments import DEFAULTS, Arguments
from controllers.scheduler.framework.events import ClusterEvent, Event, is_own, is_placed
from controllers.scheduler.framework.framework import SKIP, Plugin, PluginError, PodField, Reads, node_field, pod_field
from controllers.scheduler.framework.scores import normalized_reverse, normalized_up
from controllers.scheduler.framework.status import Code, Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo, Port
from controllers.scheduler.state.terms import blocking_taints

UNSCHEDULABLE = Rejection("NodeUnschedulable", ("node(s) were unschedulable",))
OTHER_NAME = Rejection("NodeName", ("node(s) didn't match the requested node name",))
TAINTED = Rejection("TaintToleration", ("node(s) had untolerated taint(s)",))
NOT_AFFINE = Rejection("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))
NOT_ENFORCED = Rejection("NodeAffinity", ("node(s) didn't match scheduler-enforced node affinity",))
CONFLICT = Rejection("NodeAffinity", ("pod affinity terms conflict",))
PORTS_TAKEN = Rejection(
    "NodePorts", ("node(s) didn't have free ports for the requested pod ports",), Code.UNSCHEDULABLE
)
_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
TOLERATIONS = pod_field("spec", "tolerations")


# NodeUnschedulable


def _closed_to(pod: PodInfo, _: None, node: NodeInfo) -> Rejection | None:
    if node.unschedulable and not is_tolerated(_UNSCHEDULABLE_TAINT, pod.tolerations, comparing=False):
        return UNSCHEDULABLE
    return None


def _open_again(pod: PodInfo, event: Event) -> bool:
    def is_closed(node: Json | None) -> bool:
        return node is None or bool(node.get("spec", {}).get("unschedulable"))

    return is_closed(event.old) and (
        not is_closed(event.new) or is_tolerated(_UNSCHEDULABLE_TAINT, pod.tolerations, comparing=False)
    )


def _tolerates_unschedulable(pod: PodInfo, event: Event) -> bool:
    return is_own(pod, event) and is_tolerated(
        _UNSCHEDULABLE_TAINT, (event.new or {})["spec"].get("tolerations") or (), comparing=False
    )


NODE_UNSCHEDULABLE = Plugin(
    name="NodeUnschedulable",
    reads=Reads(pod=(TOLERATIONS,), node=(node_field("spec", "unschedulable"),)),
    filter=_closed_to,
    hints={
        ClusterEvent.NODE_ADD: _open_again,
        ClusterEvent.NODE_TAINT: _open_again,
        ClusterEvent.POD_TOLERATION: _tolerates_unschedulable,
    },
)


# NodeName


def _other_name(_: PodInfo, name: str, node: NodeInfo) -> Rejection | None:
    return None if node.name == name else OTHER_NAME


NODE_NAME = Plugin(
    name="NodeName",
    reads=Reads(pod=(pod_field("spec", "nodeName"),), node=(node_field("metadata", "name"),)),
    pre_filter=lambda pod: pod.spec.get("nodeName") or SKIP,
    filter=_other_name,
    hints={ClusterEvent.NODE_ADD: None},
)


# TaintToleration


def taint_toleration(comparing: bool) -> Plugin:
    """Build the plugin; `comparing`: whether tolerations compare numbers."""

    def reject_tainted(pod: PodInfo, _: None, node: NodeInfo) -> Rejection | None:
        return TAINTED if node.taints and has_untolerated(node.taints, pod.tolerations, comparing) else None

    def is_tolerable_now(pod: PodInfo, event: Event) -> bool:
        def is_blocked(node: Json | None) -> bool:
            taints = () if node is None else blocking_taints(node.get("spec", {}).get("taints") or ())
            return node is None or has_untolerated(taints, pod.tolerations, comparing)

        return is_blocked(event.old) and not is_blocked(event.new)

    def count_disliked(_: PodInfo, tolerations: list[Json], node: NodeInfo) -> int:
        taints = node.preferring
        return sum(1 for taint in taints if not is_tolerated(taint, tolerations, comparing)) if taints else 0

    return Plugin(
        name="TaintToleration",
        reads=Reads(pod=(TOLERATIONS,), node=(node_field("spec", "taints"),)),
        filter=reject_tainted,
        pre_score=_soft_tolerations,
        score=count_disliked,
        normalize=normalized_reverse,
        weight=3,
        hints={
            ClusterEvent.NODE_ADD: is_tolerable_now,
            ClusterEvent.NODE_TAINT: is_tolerable_now,
            ClusterEvent.POD_TOLERATION: is_own,
        },
    )


def _soft_tolerations(pod: PodInfo, _: None) -> list[Json]:
    return [t for t in pod.tolerations if t.get("effect", "") in ("", "PreferNoSchedule")]


# NodeAffinity


def node_affinity(arguments: Arguments = DEFAULTS) -> Plugin:
    """Build the plugin. A profile may add a node affinity to all its pods."""
    added = arguments.added_affinity or {}
    required = added.get("requiredDuringSchedulingIgnoredDuringExecution")
    enforced = NodeSelector.strict(required) if required else None
    preferred = added.get("preferredDuringSchedulingIgnoredDuringExecution")
    liked = PreferredTerms.parse(preferred) if preferred else None

    def pre_filter(pod: PodInfo) -> Any:
        names = pod.named_nodes
        if names is not None and not names:
            return CONFLICT
        own = pod.node_affinity
        return own if enforced is not None or own.labels or own.selector is not None else SKIP

    def reject(pod: PodInfo, _: Any, node: NodeInfo) -> Rejection | None:
        raw = node.node or {}
        try:
            if enforced is not None and not enforced.match(raw):
                return NOT_ENFORCED
            return None if pod.node_affinity.match(raw) else NOT_AFFINE
        except InvalidNodeSelector as error:
            raise PluginError(str(error)) from error

    def now(pod: PodInfo, event: Event) -> bool:
        def matches(node: Json) -> bool:
            return (enforced is None or enforced.match(node)) and pod.node_affinity.match(node)

        try:
            return matches(event.new or {}) and not (event.old and matches(event.old))
        except ValueError:
            return True

    def terms(pod: PodInfo, _: Any) -> Any:
        try:
            preferences = tuple(each for each in (pod.preferred_nodes, liked) if each)
        except InvalidNodeSelector as error:
            raise PluginError(str(error)) from error
        return preferences or SKIP

    def preference(_: PodInfo, preferences: tuple[PreferredTerms, ...], node: NodeInfo) -> int:
        return sum(each.score(node.node or {}) for each in preferences)

    return Plugin(
        name="NodeAffinity",
        reads=Reads(
            pod=(pod_field("spec", "nodeSelector"), pod_field("spec", "affinity", "nodeAffinity")),
            node=(node_field("metadata", "labels"), node_field("metadata", "name")),
        ),
        pre_filter=pre_filter,
        nodes=lambda pod, _: pod.named_nodes,
        filter=reject,
        pre_score=terms,
        score=preference,
        normalize=normalized_up,
        weight=2,
        hints={ClusterEvent.NODE_ADD: now, ClusterEvent.NODE_LABEL: now},
    )


# NodePorts


def _ports_taken(_: PodInfo, ports: tuple[Port, ...], node: NodeInfo) -> Rejection | None:
    return PORTS_TAKEN if node.conflicts(ports) else None


def _frees_port(pod: PodInfo, event: Event) -> bool:
    gone = event.old
    if gone is None or not is_placed(gone):
        return False
    info = NodeInfo("")
    info.add_pod(PodInfo(gone))
    return info.conflicts(pod.ports)


NODE_PORTS = Plugin(
    name="NodePorts",
    reads=Reads(pod=(PodField("host ports", lambda pod: pod.ports),), pods_on_node=True),
    pre_filter=lambda pod: pod.ports or SKIP,
    filter=_ports_taken,
    hints={ClusterEvent.NODE_ADD: None, ClusterEvent.POD_DELETE: _frees_port},
)


# NodeDeclaredFeatures

LACKS_FEATURES = Rejection("NodeDeclaredFeatures", ("node(s) didn't match Pod's required features",))


def required_features(pod: PodInfo) -> list[str]:
    """Return the features that a kubelet must declare for the pod."""
    spec = pod.spec
    features = []
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    rules = (rule for container in containers for rule in container.get("restartPolicyRules") or ())
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        features.append("RestartAllContainersOnContainerExits")
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        features.append("UserNamespacesHostNetworkSupport")
    return features


def _lacks_features(_: PodInfo, features: list[str], node: NodeInfo) -> Rejection | None:
    declared = ((node.node or {}).get("status") or {}).get("declaredFeatures") or ()
    return None if all(name in declared for name in features) else LACKS_FEATURES


NODE_DECLARED_FEATURES = Plugin(
    name="NodeDeclaredFeatures",
    reads=Reads(
        pod=(PodField("required features", required_features),), node=(node_field("status", "declaredFeatures"),)
    ),
    pre_filter=lambda pod: required_features(pod) or SKIP,
    filter=_lacks_features,
)
