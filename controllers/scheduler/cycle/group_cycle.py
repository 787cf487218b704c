"""Scheduling the pods of a group together.

All waiting members are tried one after the other, each with the earlier ones reserved. If enough members for the group
get nodes, they are bound; otherwise all reservations are undone.

No other decision is made meanwhile, so the reservations of a feasible group stay. A group with a topology is tried in
each part of the cluster and gets the part with the highest score. Failed members are retried after a backoff and not
before. Facts: Kubernetes 1.36, pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import zip_longest
from typing import Final, Protocol

from controllers.resourceclaims.pods import group_key
from controllers.scheduler.cycle.assembly import SharedState
from controllers.scheduler.cycle.metrics import SchedulerMetrics
from controllers.scheduler.cycle.profiles import Profile
from controllers.scheduler.framework.framework import Cycle, Placement, PluginError
from controllers.scheduler.framework.status import NO_NODES, Diagnosis, FitError, SchedulingError, unexpected_error_text
from controllers.scheduler.podgroups.gangs import NAME, PREEMPTION_GATE, TOPOLOGY_GATE, Gangs, PlacementError
from controllers.scheduler.podgroups.status import GroupStatus
from controllers.scheduler.queue.queue import SchedulingQueue
from controllers.scheduler.queue.queued_pod import QueuedPod
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

log = logging.getLogger(__name__)
_UNSCHEDULABLE: Final = "pod group is unschedulable"
_TOO_FEW: Final = (
    "waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
_PREEMPTING: Final = "pod group is waiting for preemption to complete"
_NO_PREEMPTION: Final = "default preemption plugin is not registered, workload aware preemption is disabled"


@dataclass(slots=True)
class Attempt:
    """The attempt for one member."""

    queued: QueuedPod
    cycle: Cycle
    node: NodeInfo | None = None
    """The reserved node; for a preemptor, the node that is being vacated."""
    text: str = ""
    """The reason why no node is feasible."""
    plugins: set[str] = field(default_factory=set)
    nominated: str | None = None
    error: bool = False
    """Whether the attempt failed for another reason than the state of the cluster."""
    preempts: bool = False
    enough: bool = False
    """Whether, with this member, enough members for the group have nodes."""


class Decision(Enum):
    """The decision about a group."""

    FITS = auto()
    PREEMPTS = auto()
    WAITS = auto()
    ERROR = auto()


#: The labels in metrics.
_RESULTS = {
    Decision.FITS: "scheduled",
    Decision.PREEMPTS: "waiting_on_preemption",
    Decision.WAITS: "unschedulable",
    Decision.ERROR: "error",
}


@dataclass(slots=True)
class Outcome:
    """The result of one attempt to schedule a group."""

    attempts: list[Attempt]
    decision: Decision = Decision.WAITS
    text: str = _UNSCHEDULABLE

    @property
    def placed(self) -> tuple[PodInfo, ...]:
        """Return the members with a node."""
        return tuple(attempt.queued.info for attempt in self.attempts if attempt.node is not None)


#: The members with a node, and the nodes of their part of the cluster.
Fitting = tuple[tuple[PodInfo, ...], frozenset[str]]


def sort_members(members: Iterable[QueuedPod]) -> list[QueuedPod]:
    """Sort members in the order of attempts: by priority, then by time in the queue."""
    return sorted(members, key=lambda member: (-member.info.priority, member.since))


class Steps(Protocol):
    """The scheduler's steps for one pod."""

    def profile_of(self, info: PodInfo) -> Profile: ...

    def cycle(self, info: PodInfo, within: frozenset[str] | None = None) -> Cycle: ...

    def skip(self, queued: QueuedPod) -> bool: ...

    async def reserve(self, cycle: Cycle, node: NodeInfo) -> None: ...

    def revert(self, cycle: Cycle) -> None: ...

    async def postfilter(self, cycle: Cycle, diagnosis: Diagnosis) -> tuple[str, str | None]: ...

    def start_binding(self, queued: QueuedPod, cycle: Cycle, node: NodeInfo, group: asyncio.TaskGroup) -> None: ...

    def handle_failure(
        self,
        queued: QueuedPod,
        text: str,
        plugins: Iterable[str],
        *,
        nominated: str | None,
        rejected: bool = False,
        backoff: bool = False,
    ) -> None: ...


class GroupCycle:
    """The scheduling cycle for the groups of one scheduler."""

    def __init__(
        self,
        steps: Steps,
        shared: SharedState,
        gangs: Gangs,
        queue: SchedulingQueue,
        metrics: SchedulerMetrics,
        status: GroupStatus,
    ) -> None:
        self._steps, self._gangs, self._queue, self._metrics, self._status = steps, gangs, queue, metrics, status
        self._cache, self._claims, self._choice = shared.cache, shared.claims, shared.choice
        gates = shared.options.features
        self._topology, self._preempts = gates.enabled(TOPOLOGY_GATE), gates.enabled(PREEMPTION_GATE)

    async def run(self, first: QueuedPod, tasks: asyncio.TaskGroup) -> None:
        """Schedule the group of a pod that was popped from the queue."""
        key = group_key(first.info.pod)
        members = self._gather(first, key)
        names = sorted({str(member.info.spec.get("schedulerName")) for member in members})
        if len(names) > 1:
            got = " and ".join(f'"{name}"' for name in names[:2])
            text = f"all pods in a single pod group should have the same .spec.schedulerName set, got: {got}"
            for member in members:
                self._steps.handle_failure(member, text, (), nominated="", backoff=True)
            return
        members = [member for member in members if not self._steps.skip(member)]
        if not members:
            return
        self._claims.begin_group()
        try:
            outcome = await self.decide(key, members)
            self._metrics.observe_group_decision(first)
            if outcome.decision is Decision.WAITS and self._preempts:
                await self._preempt(key, members, outcome)
        finally:
            self._claims.end_group()
        self._submit(outcome, members, tasks)
        self._report(key, outcome)
        self._metrics.count_group_attempt(first, _RESULTS[outcome.decision])

    def _gather(self, first: QueuedPod, key: str) -> list[QueuedPod]:
        """Pop the waiting members, wherever they are in the queue, in the order of attempts."""
        members = [first]
        for pod in self._gangs.members(key):
            uid = pod["metadata"]["uid"]
            if uid != first.info.uid and self._gangs.node_of(pod) is None:
                popped = self._queue.pop_by_uid(uid)
                if popped is not None:
                    members.append(popped)
        return sort_members(members)

    async def decide(self, key: str, members: list[QueuedPod], *, dry_run: bool = False) -> Outcome:
        """Try the group in all of its parts of the cluster. Only the reservations of a feasible group stay.

        Args:
            key: The group's key.
            members: The waiting members, in the order of attempts.
            dry_run: Undo all reservations and preempt no pods for single members.
        """
        if not self._topology:
            return await self.attempt(key, members, dry_run=dry_run)
        try:
            parts = self.parts(key, members[0].info)
        except PlacementError as error:
            return Outcome([], Decision.ERROR, str(error))
        if parts is None:
            return await self._try_parts(key, members, [None], dry_run)
        if not parts:
            return Outcome([], Decision.WAITS, "no feasible placements found")
        return await self._try_parts(key, members, list(parts.values()), dry_run)

    def parts(self, key: str, member: PodInfo) -> Mapping[str, frozenset[str]] | None:
        """Return the possible parts of the cluster for the group; None: anywhere. Raise PlacementError."""
        for plugin in self._steps.profile_of(member).plugins if self._topology else ():
            if plugin.placements is not None:
                return plugin.placements(key)
        return None

    def _best_part(self, key: str, member: PodInfo, fitting: Sequence[Fitting]) -> frozenset[str]:
        """Return the part with the highest score; equal ones are chosen at random."""
        totals = [0] * len(fitting)
        nodes = self._cache.nodes
        placements = [
            Placement(pods, tuple(nodes[name] for name in sorted(part) if name in nodes)) for pods, part in fitting
        ]
        for plugin in self._steps.profile_of(member).plugins:
            if plugin.placement_score is not None:
                scores = [plugin.placement_score(key, placement) for placement in placements]
                scores = plugin.placement_normalize(scores) if plugin.placement_normalize is not None else scores
                totals = [total + plugin.weight * score for total, score in zip(totals, scores, strict=True)]
        best = [part for total, (_, part) in zip(totals, fitting, strict=True) if total == max(totals)]
        return self._choice.choice(best)

    async def _preempt(self, key: str, members: list[QueuedPod], outcome: Outcome) -> None:
        """Preempt pods for a group that does not fit, if that helps."""
        preemption = self._steps.profile_of(members[0].info).group_preemption
        group = self._gangs.get(key)
        if group is None:
            outcome.decision, outcome.text = Decision.ERROR, f"failed to get pod group object: {key} not found"
            return
        if preemption is None:
            outcome.text += f", {_NO_PREEMPTION}"
            return
        last = Outcome([])

        async def fits() -> str:
            nonlocal last
            last = await self.decide(key, members, dry_run=True)
            return "" if last.decision is Decision.FITS else last.text

        try:
            plan = await preemption.preempt(group, [member.info for member in members], fits)
        except SchedulingError as error:
            outcome.decision, outcome.text = Decision.ERROR, str(error)
            return
        if not plan.text:
            outcome.decision = Decision.PREEMPTS
        elif last.decision is Decision.ERROR:
            outcome.decision, outcome.text = Decision.ERROR, plan.text
        else:
            outcome.text += f", {plan.text}"

    async def _try_parts(
        self, key: str, members: list[QueuedPod], parts: Sequence[frozenset[str] | None], dry_run: bool
    ) -> Outcome:
        fitting: list[Fitting] = []
        first: Outcome | None = None
        for part in parts:
            outcome = await self.attempt(key, members, part, keep_reservations=len(parts) == 1, dry_run=dry_run)
            only = len(parts) == 1 and outcome.decision in (Decision.FITS, Decision.PREEMPTS)
            if outcome.decision is Decision.ERROR or only:
                return outcome
            first = first or outcome
            if outcome.decision is Decision.FITS and part is not None:
                fitting.append((outcome.placed, part))
        if not fitting:
            assert first is not None
            first.text = f"0/{len(parts)} placements are available, first placement status: {first.text}"
            return first
        best = self._best_part(key, members[0].info, fitting)
        return await self.attempt(key, members, best, dry_run=dry_run)

    async def attempt(
        self,
        key: str,
        members: list[QueuedPod],
        part: frozenset[str] | None = None,
        *,
        keep_reservations: bool = True,
        dry_run: bool = False,
    ) -> Outcome:
        """Try the group in one part of the cluster, or in all of it.

        Args:
            key: The group's key.
            members: The members, in the order of attempts.
            part: The nodes of the part; None: all nodes.
            keep_reservations: Whether the reservations of a feasible group stay.
            dry_run: As for `decide`.
        """
        outcome = Outcome([])
        for member in members:
            attempt = await self.attempt_member(member, part, dry_run=dry_run)
            outcome.attempts.append(attempt)
            if attempt.error:
                outcome.decision = Decision.ERROR
                outcome.text = f"failed to schedule other pod from a pod group: {attempt.text}"
                break
            if attempt.node is None:
                continue
            attempt.enough = self._has_enough(key, member)
            if attempt.enough:
                preempts = any(each.preempts for each in outcome.attempts)
                outcome.decision = Decision.PREEMPTS if preempts else Decision.FITS
                outcome.text = f"{_UNSCHEDULABLE}, {_PREEMPTING}" if preempts else ""
        if outcome.decision is not Decision.FITS or not keep_reservations or dry_run:
            for attempt in reversed(outcome.attempts):
                if attempt.node is not None:
                    self._steps.revert(attempt.cycle)
        return outcome

    def _has_enough(self, key: str, member: QueuedPod) -> bool:
        if not any(plugin.name == NAME for plugin in self._steps.profile_of(member.info).plugins):
            return True
        return len(self._gangs.placed(key)) >= self._gangs.min_count(key)

    async def attempt_member(self, member: QueuedPod, part: frozenset[str] | None, *, dry_run: bool = False) -> Attempt:
        """Try one member after the earlier ones; reserve its node."""
        attempt = Attempt(member, self._steps.cycle(member.info, part))
        try:
            node = await self._find_node(attempt, dry_run)
            if node is not None:
                await self._steps.reserve(attempt.cycle, node)
                attempt.node = node
        except FitError as error:
            attempt.text, attempt.plugins, attempt.nominated = error.diagnosis.text, error.diagnosis.plugins, ""
            attempt.preempts = False
        except SchedulingError as error:
            attempt.text, attempt.nominated = str(error), ""
            attempt.error = str(error) != NO_NODES
        except Exception as error:
            log.exception("scheduling pod %s failed unexpectedly", member.info.key)
            attempt.text, attempt.nominated = unexpected_error_text(error), ""
            attempt.error = True
        return attempt

    async def _find_node(self, attempt: Attempt, dry_run: bool) -> NodeInfo | None:
        """Return a node for the pod, feasible or being vacated; without one set the attempt's text and return None."""
        cycle = attempt.cycle
        try:
            return await self._steps.profile_of(cycle.pod).evaluator.place(cycle)
        except FitError as error:
            diagnosis = error.diagnosis
        if dry_run:
            attempt.text, attempt.plugins = diagnosis.text, diagnosis.plugins
            return None
        try:
            diagnosis.postfilter, attempt.nominated = await self._steps.postfilter(cycle, diagnosis)
        except PluginError as error:
            diagnosis.postfilter = str(error)
        if attempt.nominated:
            attempt.preempts = True
            attempt.text = diagnosis.text
            return self._cache.nodes[attempt.nominated]
        attempt.text, attempt.plugins = diagnosis.text, diagnosis.plugins
        return None

    # Results

    def _submit(self, outcome: Outcome, members: list[QueuedPod], tasks: asyncio.TaskGroup) -> None:
        for member, attempt in zip_longest(members, outcome.attempts):
            if attempt is None:
                rejected = outcome.decision is not Decision.ERROR
                self._steps.handle_failure(member, outcome.text, (), nominated=None, rejected=rejected, backoff=True)
            elif outcome.decision is Decision.FITS and attempt.node is not None:
                self._steps.start_binding(member, attempt.cycle, attempt.node, tasks)
            elif outcome.decision is Decision.ERROR:
                text = attempt.text if attempt.error else outcome.text
                self._steps.handle_failure(member, text, (), nominated="", backoff=True)
            else:
                self._put_back(attempt, outcome)

    def _put_back(self, attempt: Attempt, outcome: Outcome) -> None:
        text, plugins, nominated = attempt.text, attempt.plugins, attempt.nominated
        if attempt.node is not None and outcome.decision is Decision.WAITS:
            text, plugins, nominated = f"{_UNSCHEDULABLE}, {_TOO_FEW}", set(), ""
        elif attempt.node is not None and not attempt.preempts:
            text, nominated = outcome.text, attempt.node.name
        self._steps.handle_failure(attempt.queued, text, plugins, nominated=nominated, rejected=True, backoff=True)

    def _report(self, key: str, outcome: Outcome) -> None:
        reason = {Decision.FITS: "Scheduled", Decision.ERROR: "SchedulerError"}.get(outcome.decision, "Unschedulable")
        self._status.write(key, scheduled=outcome.decision is Decision.FITS, reason=reason, message=outcome.text)
