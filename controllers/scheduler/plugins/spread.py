"""PodTopologySpread: a topology domain may have at most `maxSkew` more pods than the emptiest domain.

`DoNotSchedule` constraints filter, `ScheduleAnyway` ones score. A pod without constraints gets the cluster's defaults
if a service or controller selects it; `default_selector` returns their selector.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apiserver.api.helpers.tolerations import has_untolerated
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector, SelectorError, from_object
from controllers.scheduler.framework.events import ClusterEvent, Event, Hints, is_own, is_placed
from controllers.scheduler.framework.framework import SKIP, Plugin, PluginError, Reads, node_field, pod_field
from controllers.scheduler.framework.status import Code, Rejection
from controllers.scheduler.state.nodes import Cache, NodeInfo
from controllers.scheduler.state.pod_counts import PodCounts
from controllers.scheduler.state.pod_info import PodInfo

NAME = "PodTopologySpread"
SKEWED = Rejection(NAME, ("node(s) didn't match pod topology spread constraints",), Code.UNSCHEDULABLE)
UNLABELLED = Rejection(NAME, ("node(s) didn't match pod topology spread constraints (missing required label)",))
_HOSTNAME = "kubernetes.io/hostname"
_DEFAULTS = (
    {"maxSkew": 3, "topologyKey": _HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"},
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One topologySpreadConstraint."""

    max_skew: int
    key: str
    selector: LabelSelector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    comparing: bool
    """Whether tolerations compare numbers."""

    def counts_node(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Return whether the constraint counts a node for the pod."""
        if self.honors_affinity and not _affine(pod, node):
            return False
        return not (
            self.honors_taints and node.taints and has_untolerated(node.taints, pod.tolerations, self.comparing)
        )

    def counted(self, pod: PodInfo, nodes: list[NodeInfo]) -> list[NodeInfo]:
        """Return the nodes that the constraint counts for the pod."""
        affinity = pod.node_affinity
        free = not self.honors_affinity or (not affinity.labels and affinity.selector is None)
        return nodes if free and not self.honors_taints else [n for n in nodes if self.counts_node(pod, n)]


def _affine(pod: PodInfo, node: NodeInfo) -> bool:
    affinity = pod.node_affinity
    if any(node.labels.get(key) != value for key, value in affinity.labels.items()):
        return False
    return affinity.selector is None or affinity.selector.matches(node.labels, node.name)


def constraints(
    pod: PodInfo,
    action: str,
    default_selector: LabelSelector | None = None,
    defaults: Sequence[Json] | None = None,
    *,
    comparing: bool = False,
) -> list[Constraint]:
    """Return the pod's constraints of one kind, or the defaults. Raise SelectorError.

    Args:
        pod: The pod.
        action: The value of `whenUnsatisfiable`.
        default_selector: The selector of default constraints; they do not apply without one.
        defaults: The default constraints; None: the system's.
        comparing: Whether tolerations compare numbers.
    """
    own = pod.spec.get("topologySpreadConstraints")
    if own:
        return [_constraint(pod, raw, None, comparing) for raw in own if raw["whenUnsatisfiable"] == action]
    if default_selector is None or default_selector.empty:
        return []
    chosen = _DEFAULTS if defaults is None else defaults
    return [_constraint(pod, raw, default_selector, comparing) for raw in chosen if raw["whenUnsatisfiable"] == action]


def _constraint(pod: PodInfo, raw: Json, selector: LabelSelector | None, comparing: bool) -> Constraint:
    if selector is None:
        selector = from_object(raw.get("labelSelector"))
        labels = pod.pod["metadata"].get("labels") or {}
        same = {key: labels[key] for key in raw.get("matchLabelKeys") or () if key in labels}
        if same and not selector.nothing:
            selector = LabelSelector((*from_object({"matchLabels": same}).requirements, *selector.requirements))
    return Constraint(
        max_skew=raw["maxSkew"],
        key=raw["topologyKey"],
        selector=selector,
        min_domains=raw.get("minDomains") or 1,
        honors_affinity=(raw.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honors_taints=raw.get("nodeTaintsPolicy") == "Honor",
        comparing=comparing,
    )


class SpreadState:
    """The pod counts that filter for one pod."""

    def __init__(self, pod: PodInfo, spread_constraints: list[Constraint], cache: Cache, pods: PodCounts) -> None:
        self._pod, self._constraints = pod, spread_constraints
        nodes = [node for node in cache.list() if all(c.key in node.labels for c in spread_constraints)]
        self._counts: list[Counter[str]] = []
        for constraint in spread_constraints:
            counts: Counter[str] = Counter()
            by_node = pods.of(constraint.selector, pod.namespace)
            for node in constraint.counted(pod, nodes):
                counts[node.labels[constraint.key]] += by_node.get(node.name, 0)
            self._counts.append(counts)

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """Count a pod added to a node (1) or removed from it (-1)."""
        if other.namespace != self._pod.namespace or not all(c.key in node.labels for c in self._constraints):
            return
        labels = other.pod["metadata"].get("labels")
        for constraint, counts in zip(self._constraints, self._counts, strict=True):
            if constraint.selector.matches(labels) and constraint.counts_node(self._pod, node):
                counts[node.labels[constraint.key]] += sign

    def rejection(self, node: NodeInfo) -> Rejection | None:
        labels = self._pod.pod["metadata"].get("labels")
        for constraint, counts in zip(self._constraints, self._counts, strict=True):
            value = node.labels.get(constraint.key)
            if value is None:
                return UNLABELLED
            own = 1 if constraint.selector.matches(labels) else 0
            if counts.get(value, 0) + own - _lowest(constraint, counts) > constraint.max_skew:
                return SKEWED
        return None

    def describe_violations(self, node: NodeInfo) -> list[str]:
        """Describe the violated constraints for a rejected node."""
        found = []
        own = self._pod.pod["metadata"].get("labels")
        for constraint, counts in zip(self._constraints, self._counts, strict=True):
            value, key = node.labels.get(constraint.key), constraint.key
            if value is None:
                found.append(f"the node has no label {key}")
                break
            lowest = _lowest(constraint, counts)
            itself = " and this one" if constraint.selector.matches(own) else ""
            if counts.get(value, 0) + bool(itself) - lowest > constraint.max_skew:
                count = counts.get(value, 0)
                pods = f"{count} matching pod{'s' * (count != 1)}{itself}"
                least = f"the emptiest {key} has {lowest}"
                if len(counts) < constraint.min_domains:
                    least = f"only {len(counts)} of minDomains {constraint.min_domains} values of {key} exist"
                found.append(f"{key}={value} would have {pods}, {least}: exceeds maxSkew {constraint.max_skew}")
        return found


def _lowest(constraint: Constraint, counts: Counter[str]) -> int:
    """Return the number of pods in the emptiest domain; 0 while there are fewer than `minDomains` domains."""
    return min(counts.values(), default=2**31 - 1) if len(counts) >= constraint.min_domains else 0


def scores(
    pod: PodInfo,
    spread_constraints: list[Constraint],
    nodes: list[NodeInfo],
    cache: Cache,
    pods: PodCounts,
    all_keys: bool,
) -> list[int]:
    """Return the scores of the nodes from ScheduleAnyway constraints. `all_keys`: a node needs the labels of all."""
    scored = [n for n in nodes if all(c.key in n.labels for c in spread_constraints)] if all_keys else nodes
    raw = {node.name: 0.0 for node in scored}
    for constraint in spread_constraints:
        by_node, key = pods.of(constraint.selector, pod.namespace), constraint.key
        if key == _HOSTNAME:
            totals: Counter[str] = Counter()
            weight = math.log(len(scored) + 2)
        else:
            totals = _domain_totals(pod, constraint, scored, cache, by_node, spread_constraints if all_keys else [])
            weight = math.log(len(totals) + 2)
        for node in scored:
            value = node.labels.get(key)
            if value is not None:
                count = by_node.get(node.name, 0) if key == _HOSTNAME else totals[value]
                raw[node.name] += count * weight + (constraint.max_skew - 1)
    rounded = {name: math.floor(score + 0.5) for name, score in raw.items()}
    low, high = min(rounded.values(), default=0), max(rounded.values(), default=0)
    return [_scaled(rounded.get(node.name), low, high) for node in nodes]


def _scaled(score: int | None, low: int, high: int) -> int:
    if score is None:
        return 0
    return 100 * (high + low - score) // high if high else 100


def _domain_totals(
    pod: PodInfo,
    constraint: Constraint,
    scored: list[NodeInfo],
    cache: Cache,
    by_node: Mapping[str, int],
    required: list[Constraint],
) -> Counter[str]:
    """Count the matching pods in the domains of the scored nodes."""
    key = constraint.key
    counts: Counter[str] = Counter(dict.fromkeys((node.labels.get(key, "") for node in scored), 0))
    nodes = [n for n in cache.list() if all(c.key in n.labels for c in required)] if required else cache.list()
    for node in constraint.counted(pod, nodes):
        value = node.labels.get(key, "")
        if value in counts:
            counts[value] += by_node.get(node.name, 0)
    return counts


# Hints


def _hints(filtering: Callable[[PodInfo], list[Constraint]]) -> Hints:
    """Build the hints. `filtering` returns the constraints that can reject a pod."""

    def pod_matters(pod: PodInfo, event: Event) -> bool:
        """Return whether a pod's change affects the counts of a constraint."""
        versions = [other for other in (event.old, event.new) if other is not None]
        if not is_own(pod, event) and not all(
            is_placed(other) and other["metadata"]["namespace"] == pod.namespace for other in versions
        ):
            return False
        matching = [[c.selector.matches(other["metadata"].get("labels")) for c in filtering(pod)] for other in versions]
        return matching[0] != matching[1] if len(matching) == 2 else any(matching[0])

    def tolerates_more(pod: PodInfo, event: Event) -> bool:
        return is_own(pod, event) and any(constraint.honors_taints for constraint in filtering(pod))

    def node_matters(pod: PodInfo, event: Event) -> bool:
        """Return whether a node with all topology labels was added, deleted, or changed its domain or taints."""
        keys = [constraint.key for constraint in filtering(pod)]

        def domains(node: Json | None) -> Any:
            labels = (node or {}).get("metadata", {}).get("labels") or {}
            if not keys or not all(key in labels for key in keys):
                return None
            return [labels[key] for key in keys], (node or {}).get("spec", {}).get("taints")

        return bool(domains(event.old) != domains(event.new))

    return {
        ClusterEvent.POD_ADD: pod_matters,
        ClusterEvent.POD_LABEL: pod_matters,
        ClusterEvent.POD_DELETE: pod_matters,
        ClusterEvent.POD_TOLERATION: tolerates_more,
        ClusterEvent.NODE_ADD: node_matters,
        ClusterEvent.NODE_DELETE: node_matters,
        ClusterEvent.NODE_LABEL: node_matters,
        ClusterEvent.NODE_TAINT: node_matters,
    }


def pod_topology_spread(
    cache: Cache,
    default_selector: Callable[[PodInfo], LabelSelector | None],
    defaults: Sequence[Json] | None = None,
    comparing: bool = False,
) -> Plugin:
    """Build the plugin.

    Args:
        cache: The cached nodes and pods.
        default_selector: Returns the selector for a pod without constraints.
        defaults: The default constraints; None: the system's.
        comparing: Whether tolerations compare numbers.
    """
    pods = PodCounts(cache)
    filters = any(raw["whenUnsatisfiable"] == "DoNotSchedule" for raw in defaults or ())

    def strict(pod: PodInfo) -> list[Constraint]:
        if pod.spec.get("topologySpreadConstraints"):
            return constraints(pod, "DoNotSchedule", comparing=comparing)
        return (
            constraints(pod, "DoNotSchedule", default_selector(pod), defaults, comparing=comparing) if filters else []
        )

    def pre_filter(pod: PodInfo) -> Any:
        try:
            spread_constraints = strict(pod)
        except SelectorError as error:
            raise PluginError(str(error)) from error
        return SpreadState(pod, spread_constraints, cache, pods) if spread_constraints else SKIP

    def pre_score(pod: PodInfo, _: Any) -> Any:
        try:
            spread_constraints = constraints(
                pod, "ScheduleAnyway", default_selector(pod), defaults, comparing=comparing
            )
        except SelectorError as error:
            raise PluginError(str(error)) from error
        return spread_constraints or SKIP

    return Plugin(
        name=NAME,
        reads=Reads(
            pod=(pod_field("spec", "topologySpreadConstraints"), pod_field("metadata", "labels")),
            node=(node_field("metadata", "labels"), node_field("spec", "taints")),
            pods_on_node=True,
            elsewhere=True,
        ),
        pre_filter=pre_filter,
        filter=lambda _, state, node: state.rejection(node),
        count=SpreadState.count,
        pre_score=pre_score,
        # Only the system's defaults apply to nodes without a zone as well.
        scores=lambda pod, wanted, nodes: scores(
            pod, wanted, nodes, cache, pods, defaults is not None or bool(pod.spec.get("topologySpreadConstraints"))
        ),
        weight=2,
        hints=_hints(strict),
    )
