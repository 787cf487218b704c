"""Groups of pods as the scheduler places them (gate GenericWorkload): who belongs together, how many there have to be,
and in which parts of the cluster they may be.

The plugin GangScheduling (its own gate) keeps the pods of a gang out of the queue until there are `minCount` of them.
Facts: Kubernetes 1.36, plugins gangscheduling, topologyaware.
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
    """The parts of the cluster that a group may be in cannot be told."""


class Gangs:
    """The groups of one scheduler. `together`: whether gangs start together or not at all (the gate GangScheduling)."""

    def __init__(self, informers: Informers, cache: Cache, *, together: bool = True) -> None:
        self._cache, self._together = cache, together
        self.informer = informers.of(POD_GROUPS)
        self._members = informers.of(PODS).index("group", lambda pod: (key,) if (key := group_key(pod)) else ())

    def get(self, key: str) -> Json | None:
        """The group of a key; None where it is missing."""
        return self.informer.get(key)

    def members(self, key: str) -> list[Json]:
        """The pods of a group that have not ended."""
        return [pod for pod in self._members.get(key) if not is_finished(pod)]

    def node_of(self, pod: Json) -> str | None:
        """Where a member is, or is going to be."""
        node: str | None = pod["spec"].get("nodeName") or self._cache.node_of(pod["metadata"]["uid"])
        return node

    def placed(self, key: str) -> list[Json]:
        """The members that have a node."""
        return [pod for pod in self.members(key) if self.node_of(pod)]

    def wanted(self, key: str) -> int:
        """How many members must have a node before any of them starts."""
        if not self._together:
            return 0
        group = self.get(key)
        gang = (group or {"spec": {}})["spec"].get("schedulingPolicy", {}).get("gang") or {}
        return int(gang.get("minCount", 0))

    def problem(self, pod: PodInfo) -> str | None:
        """PreEnqueue: why a pod is not tried yet."""
        key = group_key(pod.pod)
        if not key:
            return None
        if self.get(key) is None:
            return f'waiting for pods\'s pod group "{group_name(pod.pod)}" to appear in scheduling queue'
        if len(self.members(key)) < self.wanted(key):
            return "waiting for minCount pods from a gang to appear in scheduling queue"
        return None

    def placements(self, key: str) -> dict[str, frozenset[str]] | None:
        """The parts of the cluster, as names of nodes by the value of the group's label, of which it has to be in one;
        None: it may be anywhere. Raises PlacementError.
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
        """Where the members that have a node are."""
        found = None
        for pod in self.placed(key):
            node: NodeInfo | None = self._cache.nodes.get(self.node_of(pod) or "")
            value = node.labels.get(label) if node is not None else None
            text = "cannot determine domain for already scheduled pods: "
            if value is None:
                name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                raise PlacementError(f"{text}no topology domain found for pod {name}")
            if found not in (None, value):
                raise PlacementError(f"{text}more than 1 domain found for pod group: {found}, {value}")
            found = value
        return found


def gang_scheduling(problem: Callable[[PodInfo], str | None] = lambda _: None) -> Plugin:
    """The plugin; `problem` says why a pod is not tried yet."""
    return Plugin(
        name=NAME,
        pre_enqueue=lambda pod: problem(pod) is None,
        hints={ClusterEvent.POD_GROUP_ADD: _is_its_group, ClusterEvent.GROUP_MEMBER_ADD: _is_of_its_group},
    )


def topology_placement(gangs: Gangs | None) -> Plugin:
    """TopologyPlacementGenerator: a group with a topology has to be in one domain of it."""
    return Plugin(
        name=PLACEMENTS, reads=Reads(), hints={}, placements=gangs.placements if gangs is not None else lambda _: None
    )


def pods_count(gangs: Gangs | None) -> Plugin:
    """PodGroupPodsCount: the part of the cluster is best in which most pods of the group are."""

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
