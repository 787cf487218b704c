"""Explain why a pod group waits: missing members, the result of each placement, preemption, and remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from apiserver.api.objects import Json
from controllers.explain.findings import NodeGroup, PreemptionState, Remedy, change_lines, plural, unread_lines
from controllers.explain.nodechanges import another_node
from controllers.explain.pods import node_groups
from controllers.explain.world import World, run_synchronously
from controllers.resourceclaims.pods import group_key
from controllers.runtime.kinds import POD_GROUPS, key_of
from controllers.scheduler.cycle.group_cycle import Decision, Outcome, sort_members
from controllers.scheduler.framework.status import SchedulingError
from controllers.scheduler.podgroups.gangs import Gangs, PlacementError
from controllers.scheduler.podgroups.preemption import EvictionPlan, GroupPreemption
from controllers.scheduler.queue.queued_pod import QueuedPod
from controllers.scheduler.state.pod_info import PodInfo

__all__ = ["LONG_AGO", "GroupFindings", "explain_group", "group_of"]

#: Time limit of the search for remedies, in seconds.
_TIME_LIMIT: Final = 5.0
_MOST_NODES: Final = 8
_HIGHEST: Final = 2**31
#: Queueing time of pods for which it does not matter.
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Placement:
    """One placement: the nodes with `name` as topology value, or all nodes for ""."""

    name: str
    nodes: int
    placed: int
    tried: int
    fits: bool
    reasons: list[str]
    """Messages of the members without a node, each once."""
    blocked: str = ""
    """The first member without a node."""
    details: list[NodeGroup] = field(default_factory=list)
    """Verdicts of the nodes on that member, with the members before it placed."""

    @property
    def lines(self) -> Iterator[str]:
        where = f"in {self.name} " if self.name else ""
        verdict = "the group fits" if self.fits else "the group does not fit"
        yield f"{where}({plural(self.nodes, 'node')}): {self.placed} of {plural(self.tried, 'pod')} placed, {verdict}"
        if self.blocked:
            yield f"  no node for pod {self.blocked}: {self.reasons[0]}"
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
    """The node of each pod by pod name; "" for none."""
    missing: int = 0
    """Number of pods missing before the group is scheduled."""
    topology: str = ""
    placements: list[Placement] = field(default_factory=list)
    preemption: PreemptionState | None = None
    changes: list[Remedy] = field(default_factory=list)
    tried: int = 0
    unread: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> Json:
        """Return the findings as plain data, with the report."""
        return {"kind": "PodGroup", **asdict(self), "report": "\n".join(self.lines)}

    @property
    def lines(self) -> list[str]:
        """The report, line by line."""
        lines = [f"podgroup {self.namespace}/{self.name}: {self.verdict}" + (f": {self.text}" if self.text else "")]
        placed = sum(1 for node in self.members.values() if node)
        gang = (
            f"; at least {self.min_count} must be placed together" if self.min_count else "; each is placed separately"
        )
        lines.append(f"{plural(len(self.members), 'pod')}, {placed} on nodes{gang}")
        waiting = [name for name, node in self.members.items() if not node]
        if waiting:
            lines.append(f"waiting: {', '.join(waiting)}")
        if self.topology:
            lines.append(f"all must be in the same {self.topology}")
        for placement in self.placements:
            lines += placement.lines
        if self.preemption is not None:
            lines.append(self.preemption.line)
        lines += change_lines(self.changes, self.tried)
        return lines + unread_lines(self.unread)


def group_of(world: World, pod: Json) -> Json | None:
    """Return the group of a pod, if it has one, the group exists and the feature gate is on."""
    key = group_key(pod)
    return world.of(POD_GROUPS).get(key) if key and world.scheduler.gangs is not None else None


def explain_group(world: World, group: Json) -> GroupFindings:
    """Explain a group. The feature gate of groups must be on."""
    return _Explainer(world, group).find()


class _Explainer:
    """Explains one group in one world."""

    def __init__(self, world: World, group: Json) -> None:
        assert world.scheduler.gangs is not None
        self._world, self._group, self._key = world, group, key_of(group)
        self._gangs: Gangs = world.scheduler.gangs
        self._cycle = world.scheduler.group_cycle
        self._end = monotonic() + _TIME_LIMIT
        self._tried = 0

    def find(self) -> GroupFindings:
        meta, gangs = self._group["metadata"], self._gangs
        members = {pod["metadata"]["name"]: gangs.node_of(pod) or "" for pod in gangs.members(self._key)}
        min_count = gangs.min_count(self._key)
        found = GroupFindings(meta["namespace"], meta["name"], "", "", min_count, dict(sorted(members.items())))
        found.unread = dict(self._world.unread)
        found.topology = self._topology()
        waiting = self._waiting()
        if members and not waiting:
            found.verdict = "scheduled"
            return found
        found.missing = max(0, min_count - len(members), 0 if members else 1)
        if found.missing:
            found.verdict, found.text = "gated", f"waits for {found.missing} more pod{'s' * (found.missing != 1)}"
            return found
        try:
            found.placements = self._placements(waiting)
        except PlacementError as error:
            found.verdict, found.text = "unschedulable", str(error)
            return found
        outcome = self._decide(waiting)
        found.verdict, found.text = (
            ("fits", "") if outcome.decision is Decision.FITS else ("unschedulable", outcome.text)
        )
        if outcome.decision is not Decision.FITS:
            found.preemption = self._preemption(waiting)
            found.changes = list(self._changes(waiting))
            found.tried = self._tried
        return found

    def _topology(self) -> str:
        topology = (self._group["spec"].get("schedulingConstraints") or {}).get("topology") or ()
        return topology[0]["key"] if topology else ""

    def _waiting(self) -> list[QueuedPod]:
        pods = (pod for pod in self._gangs.members(self._key) if self._gangs.node_of(pod) is None)
        return sort_members(QueuedPod(PodInfo(pod), LONG_AGO) for pod in pods if self._world.is_ours(pod))

    def _decide(self, waiting: Sequence[QueuedPod]) -> Outcome:
        claims = self._world.scheduler.claims
        claims.begin_group()
        try:
            return run_synchronously(self._cycle.decide(self._key, list(waiting), dry_run=True))
        finally:
            claims.end_group()

    # Placements

    def _placements(self, waiting: list[QueuedPod]) -> list[Placement]:
        """Try each placement. Raise PlacementError."""
        parts = self._cycle.parts(self._key, waiting[0].info)
        if parts is None:
            return [self._placement("", None, waiting)]
        return [self._placement(f"{self._topology()}={name}", part, waiting) for name, part in sorted(parts.items())]

    def _placement(self, name: str, part: frozenset[str] | None, waiting: list[QueuedPod]) -> Placement:
        """Reserve members one by one like the scheduler does, then revert all reservations."""
        scheduler = self._world.scheduler
        placement = Placement(name, len(self._world.nodes) if part is None else len(part), 0, len(waiting), False, [])
        reserved = []
        scheduler.claims.begin_group()
        try:
            for member in waiting:
                attempt = run_synchronously(self._cycle.attempt_member(member, part, dry_run=True))
                if attempt.node is not None:
                    reserved.append(attempt.cycle)
                    placement.placed += 1
                    placement.fits |= len(self._gangs.placed(self._key)) >= self._gangs.min_count(self._key)
                    continue
                if attempt.text not in placement.reasons:
                    placement.reasons.append(attempt.text)
                if not placement.blocked:
                    placement.blocked = member.info.key
                    placement.details = node_groups(self._world, self._world.try_pod(member.info.pod, within=part))
        finally:
            for cycle in reversed(reserved):
                scheduler.revert(cycle)
            scheduler.claims.end_group()
        return placement

    # Preemption

    def _preemption(self, waiting: Sequence[QueuedPod]) -> PreemptionState:
        profile = self._world.scheduler.profile_of(waiting[0].info)
        if profile.group_preemption is None:
            return PreemptionState("the feature gate WorkloadAwarePreemption is off, so only single pods preempt")
        plan = self._plan(profile.group_preemption, self._group, waiting)
        victims = [pod.key for pod in plan.pods]
        violations = sum(bool(victim.violated) for victim in plan.victims)
        return PreemptionState(plan.text, "", victims, violations)

    def _plan(self, preemption: GroupPreemption, group: Json, waiting: Sequence[QueuedPod]) -> EvictionPlan:
        async def fits() -> str:
            outcome = await self._cycle.decide(self._key, list(waiting), dry_run=True)
            return "" if outcome.decision is Decision.FITS else outcome.text

        claims = self._world.scheduler.claims
        claims.begin_group()
        try:
            return run_synchronously(preemption.plan(group, [member.info for member in waiting], fits))
        except SchedulingError as error:
            return EvictionPlan(str(error))
        finally:
            claims.end_group()

    # Remedies

    def _changes(self, waiting: list[QueuedPod]) -> Iterator[Remedy]:
        yield from self._delete_pods(waiting)
        yield from self._lower_min_count(waiting)
        yield from self._remove_topology(waiting)
        yield from self._add_nodes(waiting)

    def _delete_pods(self, waiting: list[QueuedPod]) -> Iterator[Remedy]:
        """Delete the fewest pods of any priority, preferring the lowest."""
        self._tried += 1
        spec = {k: v for k, v in self._group["spec"].items() if k != "schedulingConstraints"}
        preemptor = {**self._group, "spec": {**spec, "priority": _HIGHEST}}
        scheduler = self._world.scheduler
        members = [QueuedPod(PodInfo(_allow_preemption(member.info.pod)), LONG_AGO) for member in waiting]
        budgets = scheduler.workloads.disruption_budgets
        plan = self._plan(GroupPreemption(self._gangs, scheduler.cache, budgets, None), preemptor, members)
        if plan.victims:
            yield Remedy([f"delete {', '.join(f'pod {pod.key}' for pod in plan.pods)}"], "")
            lowest = max(victim.priority for victim in plan.victims)
            if scheduler.profile_of(waiting[0].info).group_preemption is not None and not self._topology():
                yield Remedy([f"use a priority class above {lowest} that may preempt: it evicts them"], "")

    def _lower_min_count(self, waiting: list[QueuedPod]) -> Iterator[Remedy]:
        """Lower minCount to the number of pods that can be placed."""
        min_count = self._gangs.min_count(self._key)
        for count in range(min_count - 1, 0, -1):
            if self._fits(waiting, {"schedulingPolicy": {"gang": {"minCount": count}}}):
                yield Remedy([f"lower minCount from {min_count} to {count}"], "")
                return

    def _remove_topology(self, waiting: list[QueuedPod]) -> Iterator[Remedy]:
        if self._topology() and self._fits(waiting, {"schedulingConstraints": None}):
            yield Remedy([f"remove the topology constraint on {self._topology()}"], "")

    def _fits(self, waiting: Sequence[QueuedPod], spec: Json) -> bool:
        """Return whether the group fits with these fields in its spec. False after the time limit."""
        if monotonic() > self._end:
            return False
        self._tried += 1
        changed = {**self._group, "spec": {**self._group["spec"], **spec}}
        with self._world.as_if([(POD_GROUPS, self._key, changed)]):
            return self._decide(waiting).decision is Decision.FITS

    def _add_nodes(self, waiting: list[QueuedPod]) -> Iterator[Remedy]:
        """Add the fewest nodes of each existing kind."""
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
                    fits = self._decide(waiting).decision is Decision.FITS
                if fits:
                    yield Remedy([f"add {count} more node{'s' * (count != 1)} like {node.name} (without devices)"], "")
                    break


def _allow_preemption(pod: Json) -> Json:
    changed = deepcopy(pod)
    changed["spec"].pop("preemptionPolicy", None)
    return changed
