"""InterPodAffinity: pods with affinity or anti-affinity to other pods.

Terms are counted by topology: (label key, label value) of the matching pod's node. Only pods with terms, and nodes that
run pods with terms, cost work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import SelectorError
from controllers.scheduler.config.arguments import Arguments
from controllers.scheduler.framework.events import ClusterEvent, Event, is_own, is_placed
from controllers.scheduler.framework.framework import SKIP, Plugin, PluginError, Reads, node_field, pod_field
from controllers.scheduler.framework.status import Code, Rejection
from controllers.scheduler.state.nodes import Cache, NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.state.terms import Term

NAME = "InterPodAffinity"
NOT_NEAR = Rejection(NAME, ("node(s) didn't match pod affinity rules",))
NOT_FAR = Rejection(NAME, ("node(s) didn't match pod anti-affinity rules",), Code.UNSCHEDULABLE)
UNWANTED = Rejection(NAME, ("node(s) didn't satisfy existing pods anti-affinity rules",), Code.UNSCHEDULABLE)

Pair = tuple[str, str]
NamespaceLabels = Callable[[str], Mapping[str, str]]


class InterPodState:
    """The term counts that filter for one pod."""

    def __init__(self, pod: PodInfo, cache: Cache, namespace_labels: NamespaceLabels) -> None:
        self._pod = pod
        self._labels_of = namespace_labels
        self._own_labels = namespace_labels(pod.namespace)
        self._near: Counter[Pair] = Counter()
        self._far: Counter[Pair] = Counter()
        self._unwanted: Counter[Pair] = Counter()
        for node in cache.with_anti_affinity.values():
            for other in node.with_anti_affinity.values():
                self._count_unwanted(other, node, 1)
        if pod.required_affinity or pod.required_anti_affinity:
            for node in cache.list():
                for other in node.pods.values():
                    self._count_wanted(other, node, 1)

    @property
    def empty(self) -> bool:
        """Return whether no node needs a check."""
        return not (self._unwanted or self._pod.required_affinity or self._pod.required_anti_affinity)

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """Count a pod added to a node (1) or removed from it (-1)."""
        self._count_unwanted(other, node, sign)
        self._count_wanted(other, node, sign)

    def rejection(self, node: NodeInfo) -> Rejection | None:
        if not self._is_near(node):
            return NOT_NEAR
        for term in self._pod.required_anti_affinity:
            value = node.labels.get(term.topology_key)
            if value is not None and self._far.get((term.topology_key, value), 0) > 0:
                return NOT_FAR
        if self._unwanted:
            for pair in node.labels.items():
                if self._unwanted.get(pair, 0) > 0:
                    return UNWANTED
        return None

    def conflicting_pods(self, node: NodeInfo, nodes: Iterable[NodeInfo]) -> list[PodInfo]:
        """Return the pods of `nodes` whose anti-affinity, or the pod's own, rules out `node`."""
        conflicts = []
        for other_node in nodes:
            labels = other_node.labels
            for other in other_node.pods.values():
                mine = (
                    t
                    for t in self._pod.required_anti_affinity
                    if t.matches(other.pod, self._labels_of(other.namespace))
                )
                theirs = (t for t in other.required_anti_affinity if t.matches(self._pod.pod, self._own_labels))
                keys = [term.topology_key for terms in (mine, theirs) for term in terms]
                if any(key in labels and labels[key] == node.labels.get(key) for key in keys):
                    conflicts.append(other)
        return conflicts

    def describe_violations(self, node: NodeInfo, nodes: Iterable[NodeInfo]) -> list[str]:
        """Describe the violated terms for a rejected node."""
        if not self._is_near(node):
            return [why for term in self._pod.required_affinity if (why := self._lacks(term, node))]
        return [
            f"anti-affinity of the pod against pod {other.key}"
            if self._far
            else f"anti-affinity of pod {other.key} against the pod"
            for other in self.conflicting_pods(node, nodes)
        ]

    def _lacks(self, term: Term, node: NodeInfo) -> str:
        value, key = node.labels.get(term.topology_key), term.topology_key
        if value is None:
            return f"the node has no label {key}"
        if self._near.get((key, value), 0) > 0:
            return ""
        others = " that match all of its terms" if len(self._pod.required_affinity) > 1 else f" with {term.selector}"
        return f"no pods{others} run in {key}={value}"

    def _is_near(self, node: NodeInfo) -> bool:
        terms = self._pod.required_affinity
        is_near = True
        for term in terms:
            value = node.labels.get(term.topology_key)
            if value is None:
                return False
            if self._near.get((term.topology_key, value), 0) <= 0:
                is_near = False
        # Otherwise the first pod of a group with affinity to itself would never be scheduled.
        return is_near or (not self._near and self._matches_all(terms, self._pod))

    def _matches_all(self, terms: Iterable[Term], other: PodInfo) -> bool:
        return bool(terms) and all(term.matches(other.pod, self._labels_of(other.namespace)) for term in terms)

    def _count_wanted(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        near = self._pod.required_affinity
        if near and self._matches_all(near, other):
            for term in near:
                _add(self._near, node, term, sign)
        for term in self._pod.required_anti_affinity:
            if term.matches(other.pod, self._labels_of(other.namespace)):
                _add(self._far, node, term, sign)

    def _count_unwanted(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        for term in other.required_anti_affinity:
            if term.matches(self._pod.pod, self._own_labels):
                _add(self._unwanted, node, term, sign)


def _add(counts: Counter[Pair], node: NodeInfo, term: Term, amount: int) -> None:
    value = node.labels.get(term.topology_key)
    if value is None:
        return
    pair = (term.topology_key, value)
    counts[pair] += amount
    if not counts[pair]:
        del counts[pair]


def _prefers(pod: PodInfo) -> bool:
    return bool(pod.has_pod_affinity and (pod.preferred_affinity or pod.preferred_anti_affinity))


def scores(
    pod: PodInfo, nodes: list[NodeInfo], cache: Cache, namespace_labels: NamespaceLabels, arguments: Arguments
) -> list[int] | None:
    """Return the scores of the nodes from preferred terms of the pod and of others; None if no term matches."""
    preferring = _prefers(pod)
    weights: Counter[Pair] = Counter()
    own = namespace_labels(pod.namespace)
    for node in cache.list() if preferring else cache.with_affinity.values():
        for other in node.pods.values() if preferring else node.with_affinity.values():
            _weigh(weights, pod, other, node, own, namespace_labels, arguments)
    if not weights:
        return None
    raw = [sum(weights.get(pair, 0) for pair in node.labels.items()) for node in nodes]
    low, high = min(raw), max(raw)
    return [int(100 * ((value - low) / (high - low))) if high > low else 0 for value in raw]


def _weigh(
    weights: Counter[Pair],
    pod: PodInfo,
    other: PodInfo,
    node: NodeInfo,
    own: Mapping[str, str],
    namespace_labels: NamespaceLabels,
    arguments: Arguments,
) -> None:
    theirs = namespace_labels(other.namespace)
    for terms, sign in ((pod.preferred_affinity, 1), (pod.preferred_anti_affinity, -1)):
        for term in terms:
            if term.matches(other.pod, theirs):
                _add(weights, node, term, sign * term.weight)
    for term in other.required_affinity:
        if term.matches(pod.pod, own):
            _add(weights, node, term, arguments.hard_affinity_weight)
    if arguments.ignores_preferred_terms_of_others:
        return
    for terms, sign in ((other.preferred_affinity, 1), (other.preferred_anti_affinity, -1)):
        for term in terms:
            if term.matches(pod.pod, own):
                _add(weights, node, term, sign * term.weight)


# Hints


def _pod_matters(pod: PodInfo, event: Event) -> bool:
    """Return whether a pod's change may satisfy a term.

    That is a new pod with a match of the affinity, the loss of a match of the anti-affinity, or a deleted pod with
    anti-affinity to the waiting one.
    """
    if is_own(pod, event):
        return True
    before, after = event.old, event.new
    if any(other is not None and not is_placed(other) for other in (before, after)):
        return False
    if after is not None:
        near = pod.required_affinity
        if _may_match_all(near, after) and not (before is not None and _may_match_all(near, before)):
            return True
        return before is not None and any(
            _may_match(term, before) and not _may_match(term, after) for term in pod.required_anti_affinity
        )
    if before is None:
        return False
    if any(_may_match(term, before) for term in pod.required_anti_affinity):
        return True
    gone = PodInfo(before)
    return gone.has_pod_affinity and any(_may_match(term, pod.pod) for term in gone.required_anti_affinity)


def _may_match_all(terms: Sequence[Term], pod: Json) -> bool:
    """Return whether the pod may match all terms of the affinity."""
    return bool(terms) and all(_may_match(term, pod) for term in terms)


def _may_match(term: Term, pod: Json) -> bool:
    """Return whether the term may match the pod; the labels of its namespace are not known here."""
    metadata = pod["metadata"]
    if metadata["namespace"] not in term.namespaces and term.namespace_selector.nothing:
        return False
    return term.selector.matches(metadata.get("labels"))


def _node_matters(pod: PodInfo, event: Event) -> bool:
    """Return whether a node entered or left a domain that counts for the pod.

    A pod with anti-affinity may fit on any new node, and on a node that left its domain.
    """
    before = (event.old or {}).get("metadata", {}).get("labels") or {}
    after = (event.new or {}).get("metadata", {}).get("labels") or {}
    near = [term.topology_key for term in pod.required_affinity]
    away = [term.topology_key for term in pod.required_anti_affinity]
    if not near and not away:
        return True
    if any(key in after and after[key] != before.get(key) for key in near):
        return True
    return bool(away) and (event.old is None or any(key in before and after.get(key) != before[key] for key in away))


def inter_pod_affinity(cache: Cache, namespace_labels: NamespaceLabels, arguments: Arguments) -> Plugin:
    """Build the plugin."""

    def pre_filter(pod: PodInfo) -> Any:
        if not pod.has_pod_affinity and not cache.with_anti_affinity:
            return SKIP
        try:
            state = InterPodState(pod, cache, namespace_labels)
        except SelectorError as error:
            raise PluginError(str(error)) from error
        return SKIP if state.empty else state

    def pre_score(pod: PodInfo, _: Any) -> Any:
        try:
            return None if cache.with_affinity or _prefers(pod) else SKIP
        except SelectorError as error:
            raise PluginError(str(error)) from error

    return Plugin(
        name=NAME,
        reads=Reads(
            pod=(pod_field("spec", "affinity"), pod_field("metadata", "labels")),
            node=(node_field("metadata", "labels"),),
            pods_on_node=True,
            elsewhere=True,
        ),
        pre_filter=pre_filter,
        filter=lambda _, state, node: state.rejection(node),
        count=InterPodState.count,
        pre_score=pre_score,
        scores=lambda pod, _, nodes: scores(pod, nodes, cache, namespace_labels, arguments),
        weight=2,
        hints={
            ClusterEvent.POD_ADD: _pod_matters,
            ClusterEvent.POD_LABEL: _pod_matters,
            ClusterEvent.POD_DELETE: _pod_matters,
            ClusterEvent.NODE_ADD: _node_matters,
            ClusterEvent.NODE_LABEL: _node_matters,
        },
    )
