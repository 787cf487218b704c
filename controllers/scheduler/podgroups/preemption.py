"""Preemption for a group of pods as a whole (gate WorkloadAwarePreemption).

All pods and groups of lower priority are hidden in the cache. If the group fits then, as many as possible are unhidden:
first those that a disruption budget protects, the important before the others. The rest are evicted. A group whose
`disruptionMode` is PodGroup is evicted as a whole or not at all. The preemptor is retried when its backoff is over.
Facts: Kubernetes 1.36, framework/preemption (podgrouppreemption, types).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.resourceclaims.pods import group_key
from controllers.runtime.transport import TransportError
from controllers.scheduler.framework.status import SchedulingError
from controllers.scheduler.podgroups.gangs import Gangs
from controllers.scheduler.preemption.default import start_time
from controllers.scheduler.state.disruption_budgets import Budgets
from controllers.scheduler.state.nodes import Cache
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.evictions import Evictions

_TOPOLOGY: Final = "workload aware preemption is not supported for pod groups with scheduling constraints"
_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"

#: Return "" if the group fits into the cluster without the hidden pods, else the reason.
Trial = Callable[[], Awaitable[str]]


@dataclass(slots=True)
class Victim:
    """A unit of eviction: one pod, or the pods of a group."""

    pods: list[PodInfo]
    priority: int
    violated: list[str] = field(default_factory=list)
    """The violated disruption budgets."""

    @property
    def importance(self) -> tuple[int, bool, int, str]:
        """Return the sort key, the most important first: priority, pods of groups, larger groups, earlier start."""
        grouped = bool(self.pods[0].spec.get("schedulingGroup"))
        return -self.priority, not grouped, -len(self.pods) if grouped else 0, min(start_time(pod) for pod in self.pods)


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """A plan of evictions: the victims, or the reason why there are none."""

    text: str = ""
    victims: tuple[Victim, ...] = ()

    @property
    def pods(self) -> list[PodInfo]:
        return [pod for victim in self.victims for pod in victim.pods]


class GroupPreemption:
    """Preemption for the groups of one profile."""

    def __init__(
        self, gangs: Gangs, cache: Cache, budgets: Callable[[], Sequence[Json]], evictions: Evictions | None
    ) -> None:
        """Create it; without `evictions` it can only plan."""
        self._gangs, self._cache, self._budgets, self._evictions = gangs, cache, budgets, evictions

    async def preempt(self, group: Json, members: Sequence[PodInfo], fits: Trial) -> EvictionPlan:
        """Plan and evict. Raise SchedulingError."""
        plan = await self.plan(group, members, fits)
        if plan.victims and self._evictions is not None:
            scheduler = members[0].spec.get("schedulerName", "")
            try:
                await self._evictions.evict_for_group(group, scheduler, plan.pods)
            except (StatusError, TransportError) as error:
                raise SchedulingError(str(error)) from error
        return plan

    async def plan(self, group: Json, members: Sequence[PodInfo], fits: Trial) -> EvictionPlan:
        """Choose the fewest victims for the group to fit, without writing. Raise SchedulingError."""
        if (group["spec"].get("schedulingConstraints") or {}).get("topology"):
            return EvictionPlan(_TOPOLOGY)
        if any(member.spec.get("preemptionPolicy") == "Never" for member in members):
            return EvictionPlan(_NEVER)
        priority = group["spec"].get("priority") or 0
        victims = sorted((v for v in self._victims() if v.priority < priority), key=lambda v: v.importance)
        if not victims:
            return EvictionPlan(_NO_VICTIMS)
        try:
            for victim in victims:
                self._hide(victim)
            if problem := await fits():
                return EvictionPlan(problem)
            self._record_violations(victims)
            ending = [v for v in sorted(victims, key=lambda v: not v.violated) if not await self._reprieve(v, fits)]
        finally:
            for victim in victims:
                self._unhide(victim)
        return EvictionPlan(victims=tuple(sorted(ending, key=lambda v: v.importance)))

    def _victims(self) -> list[Victim]:
        """Return all pods and groups on nodes."""
        groups: dict[str, Victim] = {}
        single_pods: list[Victim] = []
        for node in self._cache.list():
            for pod in node.pods.values():
                key = group_key(pod.pod)
                group = self._gangs.get(key) if key else None
                if group is None or group["spec"].get("disruptionMode") != "PodGroup":
                    single_pods.append(Victim([pod], pod.priority))
                elif key in groups:
                    groups[key].pods.append(pod)
                else:
                    groups[key] = Victim([pod], group["spec"].get("priority") or 0)
        return [*single_pods, *groups.values()]

    def _record_violations(self, victims: Sequence[Victim]) -> None:
        """Record the disruption budgets that each victim would violate."""
        allowance = Budgets(self._budgets())
        for victim in victims:
            for pod in victim.pods:
                victim.violated = list(next(([name] for name in allowance.violated_by(pod)), ()))
                if victim.violated:
                    break

    async def _reprieve(self, victim: Victim, fits: Trial) -> bool:
        """Unhide a victim if the group still fits; return whether it does."""
        self._unhide(victim)
        if not await fits():
            return True
        self._hide(victim)
        return False

    def _hide(self, victim: Victim) -> None:
        for pod in victim.pods:
            self._cache.hide(pod.uid)

    def _unhide(self, victim: Victim) -> None:
        for pod in victim.pods:
            self._cache.unhide(pod.uid)
