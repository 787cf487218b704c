"""Why a group of pods waits: who is missing, in which parts of the cluster it was tried and how far it came there, who
would end for it, and what would have to change, tried out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from controllers.explain.findings import NodeGroup, Possible, PreemptionState, change_lines, plural, unread_lines
from controllers.explain.nodechanges import another_node
from controllers.explain.pods import node_groups
from controllers.explain.world import World, finish
from controllers.resourceclaims.pods import group_key
from controllers.runtime.kinds import POD_GROUPS, Json, key_of
from controllers.scheduler.framework.status import SchedulingError
from controllers.scheduler.podgroups.cycle import Fate, Outcome, in_order
from controllers.scheduler.podgroups.gangs import Gangs, PlacementError
from controllers.scheduler.podgroups.preemption import GroupPreemption, Room
from controllers.scheduler.queue.queued_pod import QueuedPod
from controllers.scheduler.state.pod_info import PodInfo

__all__ = ["LONG_AGO", "GroupFindings", "explain_group", "group_of"]

_PATIENCE: Final = 5.0
_MOST_NODES: Final = 8
_HIGHEST: Final = 2**31
#: When pods came of which that does not matter.
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Placement:
    """One part of the cluster; `name` is the value of the topology's label, "" for the whole cluster."""

    name: str
    nodes: int
    placed: int
    tried: int
    fits: bool
    reasons: list[str]
    """Of the members that found no node, each once."""
    blocked: str = ""
    """The first of them."""
    details: list[NodeGroup] = field(default_factory=list)
    """What the nodes say to it after those before it have been placed."""

    @property
    def lines(self) -> Iterator[str]:
        what = f"in {self.name} " if self.name else ""
        verdict = "the group fits" if self.fits else "the group does not fit"
        yield f"{what}({plural(self.nodes, 'node')}): {self.placed} of {plural(self.tried, 'pod')} placed, {verdict}"
        if self.blocked:
            yield f"  pod {self.blocked} finds no node: {self.reasons[0]}"
            yield from (f"    {line}" for group in self.details for line in group.lines)


@dataclass(slots=True)
class GroupFindings:
    """Everything about one group. `verdict`: scheduled, fits, unschedulable or gated (members are missing)."""

    namespace: str
    name: str
    verdict: str
    text: str
    min_count: int
    members: dict[str, str]
    """Its pods with their nodes, "" for none."""
    missing: int = 0
    """How many pods more there have to be before it is tried."""
    topology: str = ""
    placements: list[Placement] = field(default_factory=list)
    preemption: PreemptionState | None = None
    changes: list[Possible] = field(default_factory=list)
    tried: int = 0
    unread: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> Json:
        """Plain data."""
        return {"kind": "PodGroup", **asdict(self), "report": "\n".join(self.lines)}

    @property
    def lines(self) -> list[str]:
        """For people."""
        lines = [f"podgroup {self.namespace}/{self.name}: {self.verdict}" + (f": {self.text}" if self.text else "")]
        placed = sum(1 for node in self.members.values() if node)
        gang = f", at least {self.min_count} are placed together" if self.min_count else ", each where it fits"
        lines.append(f"{plural(len(self.members), 'pod')}, {placed} with a node{gang}")
        waiting = [name for name, node in self.members.items() if not node]
        if waiting:
            lines.append(f"waiting: {', '.join(waiting)}")
        if self.topology:
            lines.append(f"all have to be in one {self.topology}")
        for placement in self.placements:
            lines += placement.lines
        if self.preemption is not None:
            lines.append(self.preemption.line)
        lines += change_lines(self.changes, self.tried)
        return lines + unread_lines(self.unread)


def group_of(world: World, pod: Json) -> Json | None:
    """The group of a pod, where groups are known and it is there."""
    key = group_key(pod)
    return world.of(POD_GROUPS).get(key) if key and world.scheduler.gangs is not None else None


def explain_group(world: World, group: Json) -> GroupFindings:
    """Of a world whose scheduler knows groups."""
    return _Explaining(world, group).find()


class _Explaining:
    """One group in one world."""

    def __init__(self, world: World, group: Json) -> None:
        assert world.scheduler.gangs is not None
        self._world, self._group, self._key = world, group, key_of(group)
        self._gangs: Gangs = world.scheduler.gangs
        self._cycle = world.scheduler.group_cycle
        self._end = monotonic() + _PATIENCE
        self._tried = 0

    def find(self) -> GroupFindings:
        meta, gangs = self._group["metadata"], self._gangs
        members = {pod["metadata"]["name"]: gangs.node_of(pod) or "" for pod in gangs.members(self._key)}
        wanted = gangs.wanted(self._key)
        found = GroupFindings(meta["namespace"], meta["name"], "", "", wanted, dict(sorted(members.items())))
        found.unread = dict(self._world.unread)
        found.topology = self._topology()
        waiting = self._waiting()
        if members and not waiting:
            found.verdict = "scheduled"
            return found
        found.missing = max(0, wanted - len(members), 0 if members else 1)
        if found.missing:
            found.verdict, found.text = "gated", f"waits for {plural(found.missing, 'pod')} more"
            return found
        try:
            found.placements = self._placements(waiting)
        except PlacementError as error:
            found.verdict, found.text = "unschedulable", str(error)
            return found
        outcome = self._decide(waiting)
        found.verdict, found.text = ("fits", "") if outcome.fate is Fate.FITS else ("unschedulable", outcome.text)
        if outcome.fate is not Fate.FITS:
            found.preemption = self._preemption(waiting)
            found.changes = list(self._changes(waiting))
            found.tried = self._tried
        return found

    def _topology(self) -> str:
        topology = (self._group["spec"].get("schedulingConstraints") or {}).get("topology") or ()
        return topology[0]["key"] if topology else ""

    def _waiting(self) -> list[QueuedPod]:
        pods = (pod for pod in self._gangs.members(self._key) if self._gangs.node_of(pod) is None)
        return in_order(QueuedPod(PodInfo(pod), LONG_AGO) for pod in pods if self._world.is_ours(pod))

    def _decide(self, waiting: Sequence[QueuedPod]) -> Outcome:
        claims = self._world.scheduler.claims
        claims.begin_group()
        try:
            return finish(self._cycle.decide(self._key, list(waiting), only_look=True))
        finally:
            claims.end_group()

    # Parts of the cluster

    def _placements(self, waiting: list[QueuedPod]) -> list[Placement]:
        """How far the group comes in each. Raises PlacementError."""
        parts = self._cycle.parts(self._key, waiting[0].info)
        if parts is None:
            return [self._placement("", None, waiting)]
        return [self._placement(f"{self._topology()}={name}", part, waiting) for name, part in sorted(parts.items())]

    def _placement(self, name: str, part: frozenset[str] | None, waiting: list[QueuedPod]) -> Placement:
        """Members are reserved one after the other, as the scheduler does; in the end all is taken back."""
        scheduler = self._world.scheduler
        made = Placement(name, len(self._world.nodes) if part is None else len(part), 0, len(waiting), False, [])
        reserved = []
        scheduler.claims.begin_group()
        try:
            for member in waiting:
                attempt = finish(self._cycle.attempt_member(member, part, only_look=True))
                if attempt.node is not None:
                    reserved.append(attempt.cycle)
                    made.placed += 1
                    made.fits |= len(self._gangs.placed(self._key)) >= self._gangs.wanted(self._key)
                    continue
                if attempt.text not in made.reasons:
                    made.reasons.append(attempt.text)
                if not made.blocked:
                    made.blocked = member.info.key
                    made.details = node_groups(self._world, self._world.try_pod(member.info.pod, within=part))
        finally:
            for cycle in reversed(reserved):
                scheduler.revert(cycle)
            scheduler.claims.end_group()
        return made

    # Preemption

    def _preemption(self, waiting: Sequence[QueuedPod]) -> PreemptionState:
        profile = self._world.scheduler.profile_of(waiting[0].info)
        if profile.group_preemption is None:
            return PreemptionState("pods end for single members, not for the group (WorkloadAwarePreemption is off)")
        room = self._plan(profile.group_preemption, self._group, waiting)
        victims = [pod.key for pod in room.pods]
        violations = sum(bool(victim.violated) for victim in room.victims)
        return PreemptionState(room.text, "", victims, violations)

    def _plan(self, preemption: GroupPreemption, group: Json, waiting: Sequence[QueuedPod]) -> Room:
        async def fits() -> str:
            outcome = await self._cycle.decide(self._key, list(waiting), only_look=True)
            return "" if outcome.fate is Fate.FITS else outcome.text

        claims = self._world.scheduler.claims
        claims.begin_group()
        try:
            return finish(preemption.plan(group, [member.info for member in waiting], fits))
        except SchedulingError as error:
            return Room(str(error))
        finally:
            claims.end_group()

    # What would have to change

    def _changes(self, waiting: list[QueuedPod]) -> Iterator[Possible]:
        yield from self._ends(waiting)
        yield from self._smaller(waiting)
        yield from self._without_topology(waiting)
        yield from self._more_nodes(waiting)

    def _ends(self, waiting: list[QueuedPod]) -> Iterator[Possible]:
        """The fewest pods that would have to end, whatever their priority; the least important if there is a choice."""
        self._tried += 1
        spec = {k: v for k, v in self._group["spec"].items() if k != "schedulingConstraints"}
        anybody = {**self._group, "spec": {**spec, "priority": _HIGHEST}}
        scheduler = self._world.scheduler
        willing = [QueuedPod(PodInfo(_may_preempt(member.info.pod)), LONG_AGO) for member in waiting]
        budgets = scheduler.workloads.disruption_budgets
        room = self._plan(GroupPreemption(self._gangs, scheduler.cache, budgets, None), anybody, willing)
        if room.victims:
            yield Possible([f"end {', '.join(f'pod {pod.key}' for pod in room.pods)}"], "")
            lowest = max(victim.priority for victim in room.victims)
            if scheduler.profile_of(waiting[0].info).group_preemption is not None and not self._topology():
                yield Possible([f"a priority class above {lowest} that may preempt: then they end for it"], "")

    def _smaller(self, waiting: list[QueuedPod]) -> Iterator[Possible]:
        """A gang of as many as can be placed."""
        wanted = self._gangs.wanted(self._key)
        for count in range(wanted - 1, 0, -1):
            if self._fits(waiting, {"schedulingPolicy": {"gang": {"minCount": count}}}):
                yield Possible([f"a minCount of {count} (it is {wanted})"], "")
                return

    def _without_topology(self, waiting: list[QueuedPod]) -> Iterator[Possible]:
        if self._topology() and self._fits(waiting, {"schedulingConstraints": None}):
            yield Possible([f"no constraint to one {self._topology()}"], "")

    def _fits(self, waiting: Sequence[QueuedPod], spec: Json) -> bool:
        """Whether the group fits with other fields in its spec."""
        if monotonic() > self._end:
            return False
        self._tried += 1
        changed = {**self._group, "spec": {**self._group["spec"], **spec}}
        with self._world.as_if([(POD_GROUPS, self._key, changed)]):
            return self._decide(waiting).fate is Fate.FITS

    def _more_nodes(self, waiting: list[QueuedPod]) -> Iterator[Possible]:
        """The fewest nodes more like one that is there, of each kind of node."""
        kinds: set[object] = set()
        for node in self._world.nodes:
            kind = (tuple(sorted(node.allocatable.items())), str(node.taints), node.labels.get(self._topology()))
            if kind in kinds or node.unschedulable:
                continue
            kinds.add(kind)
            edits = []
            for count in range(1, _MOST_NODES + 1):
                edits.append(another_node(node, f"more-{count}-like-{node.name}"))
                self._tried += 1
                if monotonic() > self._end:
                    return
                with self._world.as_if(edits):
                    fits = self._decide(waiting).fate is Fate.FITS
                if fits:
                    yield Possible([f"{plural(count, 'node')} more like {node.name} (without devices)"], "")
                    break


def _may_preempt(pod: Json) -> Json:
    changed = deepcopy(pod)
    changed["spec"].pop("preemptionPolicy", None)
    return changed
