"""Groups of pods in the scheduler (gate GenericWorkload): members, minimum counts and parts of the cluster.

The plugin GangScheduling (its own gate) gates the pods of a gang until there are `minCount` of them. Facts: Kubernetes
1.36, plugins gangscheduling, topologyaware.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.api.helpers.pod_lifecycle import is_finished
from apiserver.api.objects import Json
from controllers.resourceclaims.pods import group_key, group_name
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import POD_GROUPS, PODS
from controllers.scheduler.framework.events import ClusterEvent, Event
from controllers.scheduler.framework.framework import Placement, Plugin, Reads
from controllers.scheduler.framework.scores import MAX_SCORE
from controllers.scheduler.state.nodes import Cache, NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

NAME: Final = "GangScheduling"
PLACEMENTS: Final = "TopologyPlacementGenerator"
PODS_COUNT: Final = "PodGroupPodsCount"
GATE: Final = "GenericWorkload"
TOPOLOGY_GATE: Final = "TopologyAwareWorkloadScheduling"
PREEMPTION_GATE: Final = "WorkloadAwarePreemption"


class PlacementError(Exception):
    """The possible parts of the cluster for a group cannot be determined."""


class Gangs:
    """The groups of one scheduler. `together`: whether gangs start as a whole (the gate GangScheduling)."""

    def __init__(self, informers: Informers, cache: Cache, *, together: bool = True) -> None:
        self._cache, self._together = cache, together
        self.informer = informers.of(POD_GROUPS)
        self._members = informers.of(PODS).index("group", lambda pod: (key,) if (key := group_key(pod)) else ())

    def get(self, key: str) -> Json | None:
        """Return the group of a key; None if it is missing."""
        return self.informer.get(key)

    def members(self, key: str) -> list[Json]:
        """Return the unfinished pods of a group."""
        return [pod for pod in self._members.get(key) if not is_finished(pod)]

    def node_of(self, pod: Json) -> str | None:
        """Return the node that a member is bound to or assumed on."""
        node: str | None = pod["spec"].get("nodeName") or self._cache.node_of(pod["metadata"]["uid"])
        return node

    def placed(self, key: str) -> list[Json]:
        """Return the members that have a node."""
        return [pod for pod in self.members(key) if self.node_of(pod)]

    def min_count(self, key: str) -> int:
        """Return the number of members that must have a node before any of them starts."""
        if not self._together:
            return 0
        group = self.get(key)
        gang = (group or {"spec": {}})["spec"].get("schedulingPolicy", {}).get("gang") or {}
        return int(gang.get("minCount", 0))

    def problem(self, pod: PodInfo) -> str | None:
        """Return the reason why PreEnqueue gates a pod; None admits it."""
        key = group_key(pod.pod)
        if not key:
            return None
        if self.get(key) is None:
            return f'waiting for pods\'s pod group "{group_name(pod.pod)}" to appear in scheduling queue'
        if len(self.members(key)) < self.min_count(key):
            return "waiting for minCount pods from a gang to appear in scheduling queue"
        return None

    def placements(self, key: str) -> dict[str, frozenset[str]] | None:
        """Return the possible parts of the cluster for the group, as node names by the value of its topology label.

        None means no restriction. Raise PlacementError.
        """
        constraints = ((self.get(key) or {"spec": {}})["spec"].get("schedulingConstraints") or {}).get("topology") or ()
        if not constraints:
            return None
        label = constraints[0]["key"]
        domain = self._domain(key, label)
        parts: dict[str, set[str]] = {}
        for node in self._cache.list():
            value = node.labels.get(label)
            if value is not None and domain in (None, value):
                parts.setdefault(value, set()).add(node.name)
        return {value: frozenset(names) for value, names in parts.items()}

    def _domain(self, key: str, label: str) -> str | None:
        """Return the topology domain of the members that have a node."""
        domain = None
        for pod in self.placed(key):
            node: NodeInfo | None = self._cache.nodes.get(self.node_of(pod) or "")
            value = node.labels.get(label) if node is not None else None
            text = "cannot determine domain for already scheduled pods: "
            if value is None:
                name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                raise PlacementError(f"{text}no topology domain found for pod {name}")
            if domain not in (None, value):
                raise PlacementError(f"{text}more than 1 domain found for pod group: {domain}, {value}")
            domain = value
        return domain


def gang_scheduling(problem: Callable[[PodInfo], str | None] = lambda _: None) -> Plugin:
    """Build the plugin; `problem` returns the reason why PreEnqueue gates a pod."""
    return Plugin(
        name=NAME,
        pre_enqueue=lambda pod: problem(pod) is None,
        hints={ClusterEvent.POD_GROUP_ADD: _is_its_group, ClusterEvent.GROUP_MEMBER_ADD: _is_of_its_group},
    )


def topology_placement(gangs: Gangs | None) -> Plugin:
    """Build TopologyPlacementGenerator: a group with a topology must be in one domain of it."""
    return Plugin(
        name=PLACEMENTS, reads=Reads(), hints={}, placements=gangs.placements if gangs is not None else lambda _: None
    )


def pods_count(gangs: Gangs | None) -> Plugin:
    """Build PodGroupPodsCount: a part of the cluster scores by the number of the group's pods in it."""

    def score(key: str, placement: Placement) -> int:
        return len(placement.pods) + (len(gangs.placed(key)) if gangs is not None else 0)

    def normalize(scores: list[int]) -> list[int]:
        return [score * MAX_SCORE // max(scores) for score in scores]

    return Plugin(name=PODS_COUNT, reads=Reads(), hints={}, placement_score=score, placement_normalize=normalize)


def _is_its_group(pod: PodInfo, event: Event) -> bool:
    new = event.new or {"metadata": {}}
    return f"{new['metadata'].get('namespace')}/{new['metadata'].get('name')}" == group_key(pod.pod)


def _is_of_its_group(pod: PodInfo, event: Event) -> bool:
    return event.new is not None and group_key(event.new) == group_key(pod.pod)
