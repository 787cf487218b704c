"""DefaultPreemption: making room for a pod by removing pods of lower priority from one node.

Only nodes whose rejection the removal of pods could cure are looked at. From a copy of each, all lower pods are taken
away; if the pod fits then, as many as possible are put back, the most important first; the rest are the victims. The
node that violates the fewest disruption budgets is chosen, then the one with the least important victims; these are
deleted, and the pod waits for that node (nominated). Devices are never a reason.
Facts: Kubernetes 1.36, framework/preemption, plugins/defaultpreemption.
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


#: Pods would be removed in one part of the cluster after the other.
_PLACED = "not eligible due to placement-based pod group scheduling limitation"
#: Room is made for all of its group together.
_GROUPED = "not eligible due to workload aware preemption enabled"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and the pods that would have to go, the most important first."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int = 0
    """How many of them a disruption budget would keep."""

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """The smaller, the better: violations of budgets, the highest priority, the sum of priorities (each made
        positive), the number.
        """
        total = sum(v.priority + 2**31 for v in self.victims)
        return self.violations, self.victims[0].priority, total, len(self.victims)

    @property
    def started(self) -> str:
        """When the first of the most important victims started."""
        highest = self.victims[0].priority
        return min(started(victim) for victim in self.victims if victim.priority == highest)


@dataclass(frozen=True, slots=True)
class Plan:
    """What preemption would do for a pod."""

    text: str = ""
    """Why it does nothing."""
    eligible: bool = True
    """Whether it looked for pods at all."""
    chosen: Candidate | None = None
    rejections: Mapping[str, Rejection] = field(default_factory=dict)
    """Why it does not help on nodes that were looked at."""


def best(candidates: Sequence[Candidate]) -> Candidate:
    """Least important victims; among equals the one whose victims started last; among those the first."""
    lowest = min(candidate.cost for candidate in candidates)
    return max((c for c in candidates if c.cost == lowest), key=lambda candidate: candidate.started)


class Preemption:
    """The plugin."""

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
        """`for_groups`: room for a pod of a group is made for its group alone (gate WorkloadAwarePreemption)."""
        self._for_groups = for_groups
        self._percentage, self._at_least = arguments.candidates_percentage, arguments.candidates_at_least
        self._evictions, self._cache, self._nominator = evictions, cache, nominator
        self._budgets, self._choice = budgets, choice

    async def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Looks for a node and makes it free. Raises PluginError."""
        try:
            return await self._run(cycle, diagnosis)
        except (StatusError, TransportError, SchedulingError) as error:
            raise PluginError(f"preemption: {error}") from error

    async def _run(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        plan = await self.plan(cycle, diagnosis)
        if plan.chosen is None:
            return PostFilterResult(f"preemption: {plan.text}", nominated="" if plan.eligible else None)
        await self._evictions.make_room(cycle.pod, plan.chosen.node, plan.chosen.victims)
        return PostFilterResult(nominated=plan.chosen.node, final=True)

    async def plan(self, cycle: Cycle, diagnosis: Diagnosis) -> Plan:
        """Who would have to go, and from where; nothing is written. Raises SchedulingError."""
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
        return Plan(chosen=best(candidates), rejections=outcome.rejections)

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
            found = self._candidate(cycle, node, budgets)
            if isinstance(found, Rejection):
                outcome.rejections[node.name] = found
            elif found.victims:
                (violating if found.violations else harmless).append(found)
                if harmless and len(harmless) + len(violating) >= enough:
                    break
            await asyncio.sleep(0)
        return [*harmless, *violating]

    def _candidate(self, cycle: Cycle, node: NodeInfo, budgets: Sequence[Json]) -> Candidate | Rejection:
        """The fewest pods of lower priority that have to go, or why that does not help."""
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
            protected, free = _by_budgets(lower, budgets)
            kept_by_budget = [other for other in protected if not trial.spare(other)]
            victims = [*kept_by_budget, *(other for other in free if not trial.spare(other))]
            return Candidate(node.name, tuple(sorted(victims, key=_importance)), len(kept_by_budget))
        finally:
            trial.restore()


class _Trial:
    """A copy of a node whose pods are taken away and put back, to see what the filters say then."""

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
        refused = self._cycle.ask_with(self._node, self._others) if self._others else None
        return refused if refused is not None else self._cycle.ask(self._node)

    def spare(self, pod: PodInfo) -> bool:
        """Puts a pod back if there is room for both."""
        self.add(pod)
        if self.rejection() is None:
            return True
        self.remove(pod)
        return False

    def restore(self) -> None:
        for pod in list(self._removed.values()):
            self._cycle.count(pod, self._node, 1)


def _importance(pod: PodInfo) -> tuple[int, str]:
    """The order of pods, the most important first: higher priority, then an earlier start."""
    return -pod.priority, started(pod)


def _by_budgets(pods: Sequence[PodInfo], budgets: Sequence[Json]) -> tuple[list[PodInfo], list[PodInfo]]:
    """Pods whose end would violate a disruption budget, the earlier ones gone, and the others."""
    left = Budgets(budgets)
    violating: list[PodInfo] = []
    free: list[PodInfo] = []
    for pod in pods:
        (violating if list(left.violated_by(pod)) else free).append(pod)
    return violating, free


def started(pod: PodInfo) -> str:
    """When the pod started; one that has not counts as just started."""
    return (pod.pod.get("status") or {}).get("startTime") or "9999"


def _is_being_preempted(pod: Json) -> bool:
    if not pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        c["type"] == "DisruptionTarget" and c["status"] == "True" and c.get("reason") == REASON for c in conditions
    )


def default_preemption(preemption: Preemption | None) -> Plugin:
    """The plugin; without `preemption` it does nothing."""
    post_filter = preemption.post_filter if preemption is not None else None
    return Plugin(name=NAME, reads=Reads(), post_filter=post_filter, hints={})
