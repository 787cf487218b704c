"""Making room for a group of pods as a whole (gate WorkloadAwarePreemption).

All pods and groups of lower priority are thought away, wherever they are. If the group fits then, as many as possible
are put back, those that a disruption budget protects first and the important before the others; the rest end. A group
whose `disruptionMode` is PodGroup ends as a whole or not at all. The group is tried again when its
backoff is over. Facts: Kubernetes 1.36, framework/preemption (podgrouppreemption, types).
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
from controllers.scheduler.preemption.default import started
from controllers.scheduler.state.disruption_budgets import Budgets
from controllers.scheduler.state.nodes import Cache
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.evictions import Evictions

_TOPOLOGY: Final = "workload aware preemption is not supported for pod groups with scheduling constraints"
_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_NOBODY: Final = "No preemption victims found for incoming preemptor"

#: Whether the group fits into the cluster as it is thought: "" if it does, else why not.
Trial = Callable[[], Awaitable[str]]


@dataclass(slots=True)
class Victim:
    """What ends together: one pod, or the pods of a group."""

    pods: list[PodInfo]
    priority: int
    violated: list[str] = field(default_factory=list)
    """Disruption budgets that would be violated."""

    @property
    def importance(self) -> tuple[int, bool, int, str]:
        """Sorts the most important first: higher priority, then pods of groups, larger ones, an earlier start."""
        grouped = bool(self.pods[0].spec.get("schedulingGroup"))
        return -self.priority, not grouped, -len(self.pods) if grouped else 0, min(started(pod) for pod in self.pods)


@dataclass(frozen=True, slots=True)
class Room:
    """How room could be made: the victims, or why there are none."""

    text: str = ""
    victims: tuple[Victim, ...] = ()

    @property
    def pods(self) -> list[PodInfo]:
        return [pod for victim in self.victims for pod in victim.pods]


class GroupPreemption:
    """For the groups of one profile."""

    def __init__(
        self, gangs: Gangs, cache: Cache, budgets: Callable[[], Sequence[Json]], evictions: Evictions | None
    ) -> None:
        """Without `evictions` it can only plan."""
        self._gangs, self._cache, self._budgets, self._evictions = gangs, cache, budgets, evictions

    async def make_room(self, group: Json, members: Sequence[PodInfo], fits: Trial) -> Room:
        """Ends the pods that have to. Raises SchedulingError."""
        room = await self.plan(group, members, fits)
        if room.victims and self._evictions is not None:
            scheduler = members[0].spec.get("schedulerName", "")
            try:
                await self._evictions.make_room_for_group(group, scheduler, room.pods)
            except (StatusError, TransportError) as error:
                raise SchedulingError(str(error)) from error
        return room

    async def plan(self, group: Json, members: Sequence[PodInfo], fits: Trial) -> Room:
        """The fewest that have to end for the group to fit; nothing is written. Raises SchedulingError."""
        if (group["spec"].get("schedulingConstraints") or {}).get("topology"):
            return Room(_TOPOLOGY)
        if any(member.spec.get("preemptionPolicy") == "Never" for member in members):
            return Room(_NEVER)
        priority = group["spec"].get("priority") or 0
        victims = sorted((v for v in self._victims() if v.priority < priority), key=lambda v: v.importance)
        if not victims:
            return Room(_NOBODY)
        try:
            for victim in victims:
                self._hide(victim)
            if problem := await fits():
                return Room(problem)
            self._judge(victims)
            ending = [v for v in sorted(victims, key=lambda v: not v.violated) if not await self._spare(v, fits)]
        finally:
            for victim in victims:
                self._show(victim)
        return Room(victims=tuple(sorted(ending, key=lambda v: v.importance)))

    def _victims(self) -> list[Victim]:
        """Everything that has a node."""
        groups: dict[str, Victim] = {}
        found: list[Victim] = []
        for node in self._cache.list():
            for pod in node.pods.values():
                key = group_key(pod.pod)
                group = self._gangs.get(key) if key else None
                if group is None or group["spec"].get("disruptionMode") != "PodGroup":
                    found.append(Victim([pod], pod.priority))
                elif key in groups:
                    groups[key].pods.append(pod)
                else:
                    groups[key] = Victim([pod], group["spec"].get("priority") or 0)
        return [*found, *groups.values()]

    def _judge(self, victims: Sequence[Victim]) -> None:
        """Notes whose end violates disruption budgets."""
        left = Budgets(self._budgets())
        for victim in victims:
            for pod in victim.pods:
                victim.violated = list(next(([name] for name in left.violated_by(pod)), ()))
                if victim.violated:
                    break

    async def _spare(self, victim: Victim, fits: Trial) -> bool:
        """Puts it back if there is room for both."""
        self._show(victim)
        if not await fits():
            return True
        self._hide(victim)
        return False

    def _hide(self, victim: Victim) -> None:
        for pod in victim.pods:
            self._cache.hide(pod.uid)

    def _show(self, victim: Victim) -> None:
        for pod in victim.pods:
            self._cache.show(pod.uid)
