"""DefaultPreemption: evicting pods of lower priority from one node.

Only nodes with a rejection that evictions could cure are candidates. All lower pods are removed from a copy of each
node. If the pod fits then, as many as possible are added again, the most important first; the rest are the victims.
Preemption chooses the node with the fewest violated disruption budgets, then the one with the least important victims.
It deletes the victims and nominates the pod to that node. Devices are never a reason to preempt. Facts: Kubernetes
1.36, framework/preemption, plugins/defaultpreemption.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.transport import TransportError
from controllers.scheduler.config.arguments import Arguments
from controllers.scheduler.framework.framework import Cycle, Plugin, PluginError, PostFilterResult, Reads
from controllers.scheduler.framework.status import Code, Diagnosis, Rejection, SchedulingError
from controllers.scheduler.state.disruption_budgets import Budgets
from controllers.scheduler.state.nodes import Cache, NodeInfo, Nominator
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.evictions import REASON, Evictions

NAME = "DefaultPreemption"
NOT_HELPFUL = Rejection(NAME, ("Preemption is not helpful for scheduling",))
NO_VICTIMS = Rejection(NAME, ("No preemption victims found for incoming pod",))


#: Pods would be evicted in one part of the cluster after the other.
_PLACED = "not eligible due to placement-based pod group scheduling limitation"
#: Preemption works for the whole group.
_GROUPED = "not eligible due to workload aware preemption enabled"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and its victims, the most important first."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int = 0
    """The number of victims that violate a disruption budget."""

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """Return the sort key of the candidate; lower is better.

        It has the violations of budgets, the highest priority, the sum of priorities (each made positive), and the
        number of victims.
        """
        total = sum(v.priority + 2**31 for v in self.victims)
        return self.violations, self.victims[0].priority, total, len(self.victims)

    @property
    def earliest_start(self) -> str:
        """Return the earliest start time of the most important victims."""
        highest = self.victims[0].priority
        return min(start_time(victim) for victim in self.victims if victim.priority == highest)


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of planning preemption for a pod."""

    text: str = ""
    """The reason for doing nothing."""
    eligible: bool = True
    """Whether the pod may preempt at all."""
    chosen: Candidate | None = None
    rejections: Mapping[str, Rejection] = field(default_factory=dict)
    """The reasons why preemption does not help on a candidate node."""


def best_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the lowest cost, then the latest start of its victims, then the first."""
    lowest = min(candidate.cost for candidate in candidates)
    return max((c for c in candidates if c.cost == lowest), key=lambda candidate: candidate.earliest_start)


class Preemption:
    """The plugin's implementation."""

    def __init__(
        self,
        evictions: Evictions,
        cache: Cache,
        nominator: Nominator,
        budgets: Callable[[], Sequence[Json]],
        choice: random.Random,
        arguments: Arguments,
        *,
        for_groups: bool = False,
    ) -> None:
        """Create the plugin.

        With `for_groups`, preemption for a pod of a group is left to its whole group (gate WorkloadAwarePreemption).
        """
        self._for_groups = for_groups
        self._percentage, self._at_least = arguments.candidates_percentage, arguments.candidates_at_least
        self._evictions, self._cache, self._nominator = evictions, cache, nominator
        self._budgets, self._choice = budgets, choice

    async def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Plan preemption and evict the victims. Raise PluginError."""
        try:
            return await self._run(cycle, diagnosis)
        except (StatusError, TransportError, SchedulingError) as error:
            raise PluginError(f"preemption: {error}") from error

    async def _run(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        plan = await self.plan(cycle, diagnosis)
        if plan.chosen is None:
            return PostFilterResult(f"preemption: {plan.text}", nominated="" if plan.eligible else None)
        await self._evictions.evict_for_pod(cycle.pod, plan.chosen.node, plan.chosen.victims)
        return PostFilterResult(nominated=plan.chosen.node, final=True)

    async def plan(self, cycle: Cycle, diagnosis: Diagnosis) -> Plan:
        """Choose the victims and their node, without writing. Raise SchedulingError."""
        if cycle.within is not None:
            return Plan(_PLACED, eligible=False)
        if self._for_groups and cycle.pod.spec.get("schedulingGroup"):
            return Plan(_GROUPED, eligible=False)
        if problem := self._ineligible(cycle.pod, diagnosis):
            return Plan(problem, eligible=False)
        outcome = Diagnosis(diagnosis.nodes, absent=NOT_HELPFUL)
        candidates = await self._candidates(cycle, diagnosis, outcome)
        if not candidates:
            return Plan(outcome.text, rejections=outcome.rejections)
        return Plan(chosen=best_candidate(candidates), rejections=outcome.rejections)

    def _ineligible(self, pod: PodInfo, diagnosis: Diagnosis) -> str:
        if pod.spec.get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        nominated = self._nominator.node_of(pod)
        node, refused = self._cache.nodes.get(nominated), diagnosis.rejections.get(nominated)
        if node is not None and not (refused is not None and refused.code is Code.UNRESOLVABLE):
            for other in node.pods.values():
                if other.priority < pod.priority and _is_being_preempted(other.pod):
                    return "not eligible due to a terminating pod on the nominated node."
        return ""

    async def _candidates(self, cycle: Cycle, diagnosis: Diagnosis, outcome: Diagnosis) -> list[Candidate]:
        nodes = [node for node in self._cache.list() if diagnosis.code_of(node.name) is Code.UNSCHEDULABLE]
        if not nodes:
            return []
        enough = min(len(nodes), max(self._at_least, len(nodes) * self._percentage // 100))
        start = self._choice.randrange(len(nodes))
        budgets = self._budgets()
        harmless: list[Candidate] = []
        violating: list[Candidate] = []
        for node in (*nodes[start:], *nodes[:start]):
            candidate = self._candidate(cycle, node, budgets)
            if isinstance(candidate, Rejection):
                outcome.rejections[node.name] = candidate
            elif candidate.victims:
                (violating if candidate.violations else harmless).append(candidate)
                if harmless and len(harmless) + len(violating) >= enough:
                    break
            await asyncio.sleep(0)
        return [*harmless, *violating]

    def _candidate(self, cycle: Cycle, node: NodeInfo, budgets: Sequence[Json]) -> Candidate | Rejection:
        """Return the fewest victims on the node, or the reason why preemption does not help."""
        lower = [other for other in node.pods.values() if other.priority < cycle.pod.priority]
        if not lower:
            return NO_VICTIMS
        trial = _Trial(cycle, node.copy(), self._nominator)
        for other in lower:
            trial.remove(other)
        try:
            refused = trial.rejection()
            if refused is not None:
                return refused
            lower.sort(key=_importance)
            protected, free = _split_by_budgets(lower, budgets)
            kept_by_budget = [other for other in protected if not trial.reprieve(other)]
            victims = [*kept_by_budget, *(other for other in free if not trial.reprieve(other))]
            return Candidate(node.name, tuple(sorted(victims, key=_importance)), len(kept_by_budget))
        finally:
            trial.restore()


class _Trial:
    """A copy of a node from which pods are removed to run the filters again."""

    def __init__(self, cycle: Cycle, node: NodeInfo, nominator: Nominator) -> None:
        self._cycle, self._node = cycle, node
        self._others = nominator.before(cycle.pod, node.name)
        self._removed: dict[str, PodInfo] = {}

    def remove(self, pod: PodInfo) -> None:
        self._node.remove_pod(pod.uid)
        self._removed[pod.uid] = pod
        self._cycle.count(pod, self._node, -1)

    def add(self, pod: PodInfo) -> None:
        del self._removed[pod.uid]
        self._node.add_pod(pod)
        self._cycle.count(pod, self._node, 1)

    def rejection(self) -> Rejection | None:
        refused = self._cycle.filter_node_with(self._node, self._others) if self._others else None
        return refused if refused is not None else self._cycle.filter_node(self._node)

    def reprieve(self, pod: PodInfo) -> bool:
        """Add a pod again if the node stays feasible; return whether it does."""
        self.add(pod)
        if self.rejection() is None:
            return True
        self.remove(pod)
        return False

    def restore(self) -> None:
        for pod in list(self._removed.values()):
            self._cycle.count(pod, self._node, 1)


def _importance(pod: PodInfo) -> tuple[int, str]:
    """Return the sort key of pods, the most important first: higher priority, then an earlier start."""
    return -pod.priority, start_time(pod)


def _split_by_budgets(pods: Sequence[PodInfo], budgets: Sequence[Json]) -> tuple[list[PodInfo], list[PodInfo]]:
    """Split pods into those whose eviction violates a disruption budget, the earlier ones counted, and others."""
    allowance = Budgets(budgets)
    violating: list[PodInfo] = []
    free: list[PodInfo] = []
    for pod in pods:
        (violating if list(allowance.violated_by(pod)) else free).append(pod)
    return violating, free


def start_time(pod: PodInfo) -> str:
    """Return the start time of the pod; a pod without one sorts last."""
    return (pod.pod.get("status") or {}).get("startTime") or "9999"


def _is_being_preempted(pod: Json) -> bool:
    if not pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        c["type"] == "DisruptionTarget" and c["status"] == "True" and c.get("reason") == REASON for c in conditions
    )


def default_preemption(preemption: Preemption | None) -> Plugin:
    """Build the plugin; without `preemption` it does nothing."""
    post_filter = preemption.post_filter if preemption is not None else None
    return Plugin(name=NAME, reads=Reads(), post_filter=post_filter, hints={})
