"""DefaultPreemption: making room for a pod by removing pods of lower priority from one node.

Only nodes whose rejection the removal of pods could cure are looked at. From a copy of each, all lower pods are taken
away; if the pod fits then, as many as possible are put back, the most important first; the rest are the victims. The
node with the least important victims is chosen, they are deleted, and the pod waits for that node (nominated). Devices
are never a reason. Facts: Kubernetes 1.36, framework/preemption, plugins/defaultpreemption. Disruption budgets are not
known here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apiserver import clock
from apiserver.api.status import StatusError
from controllers.runtime.client import Client
from controllers.runtime.conditions import condition_patch
from controllers.runtime.events import EventRecorder
from controllers.runtime.kinds import PODS
from controllers.runtime.times import go_time
from controllers.runtime.transport import TransportError
from controllers.scheduler.framework import Cycle, Plugin, PluginError, PostFilterResult, Reads
from controllers.scheduler.nodes import Cache, NodeInfo, Nominator
from controllers.scheduler.podinfo import PodInfo
from controllers.scheduler.status import Code, Diagnosis, Rejection, SchedulingError

Json = dict[str, Any]
NAME = "DefaultPreemption"
NOT_HELPFUL = Rejection(NAME, ("Preemption is not helpful for scheduling",))
NO_VICTIMS = Rejection(NAME, ("No preemption victims found for incoming pod",))
_PERCENT, _AT_LEAST = 10, 100
_REASON = "PreemptionByScheduler"
_GONE = (404, 409)
"""The pod is not there, or another one has its name."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and the pods that would have to go, the most important first."""

    node: str
    victims: tuple[PodInfo, ...]

    @property
    def cost(self) -> tuple[int, int, int]:
        """The smaller, the better: the highest priority, the sum of priorities (each made positive), the number."""
        return self.victims[0].priority, sum(v.priority + 2**31 for v in self.victims), len(self.victims)

    @property
    def started(self) -> str:
        """When the first of the most important victims started."""
        highest = self.victims[0].priority
        return min(_started(victim) for victim in self.victims if victim.priority == highest)


def best(candidates: Sequence[Candidate]) -> Candidate:
    """Least important victims; among equals the one whose victims started last; among those the first."""
    lowest = min(candidate.cost for candidate in candidates)
    return max((c for c in candidates if c.cost == lowest), key=lambda candidate: candidate.started)


class Preemption:
    """The plugin."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        nominator: Nominator,
        recorder: EventRecorder,
        choice: random.Random,
    ) -> None:
        self._client, self._cache = client, cache
        self._nominator, self._recorder, self._choice = nominator, recorder, choice

    async def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Looks for a node and makes it free. Raises PluginError."""
        try:
            return await self._run(cycle, diagnosis)
        except (StatusError, TransportError, SchedulingError) as error:
            raise PluginError(str(error)) from error

    async def _run(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        problem = self._ineligible(cycle.pod, diagnosis)
        if problem:
            return PostFilterResult(f"preemption: {problem}")
        outcome = Diagnosis(diagnosis.nodes, absent=NOT_HELPFUL)
        candidates = await self._candidates(cycle, diagnosis, outcome)
        if not candidates:
            return PostFilterResult(f"preemption: {outcome.text}", nominated="")
        chosen = best(candidates)
        await asyncio.gather(*(self._evict(cycle.pod, victim, chosen.node) for victim in chosen.victims))
        for other in list(self._nominator.waiting.get(chosen.node, {}).values()):
            if other.priority < cycle.pod.priority:
                self._nominator.remove(other.uid)
                await self._clear_nomination(other)
        return PostFilterResult(nominated=chosen.node, final=True)

    def _ineligible(self, pod: PodInfo, diagnosis: Diagnosis) -> str:
        if pod.spec.get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        nominated = (pod.pod.get("status") or {}).get("nominatedNodeName")
        node = self._cache.nodes.get(nominated) if nominated else None
        refused = diagnosis.rejections.get(nominated) if nominated else None
        if node is not None and not (refused is not None and refused.code is Code.UNRESOLVABLE):
            for other in node.pods.values():
                if other.priority < pod.priority and _is_being_preempted(other.pod):
                    return "not eligible due to a terminating pod on the nominated node."
        return ""

    async def _candidates(self, cycle: Cycle, diagnosis: Diagnosis, outcome: Diagnosis) -> list[Candidate]:
        nodes = [node for node in self._cache.list() if diagnosis.code_of(node.name) is Code.UNSCHEDULABLE]
        if not nodes:
            return []
        enough = min(len(nodes), max(_AT_LEAST, len(nodes) * _PERCENT // 100))
        start = self._choice.randrange(len(nodes))
        found: list[Candidate] = []
        for node in (*nodes[start:], *nodes[:start]):
            victims = self._victims(cycle, node)
            if isinstance(victims, Rejection):
                outcome.rejections[node.name] = victims
            elif victims:
                found.append(Candidate(node.name, victims))
                if len(found) >= enough:
                    break
            await asyncio.sleep(0)
        return found

    def _victims(self, cycle: Cycle, node: NodeInfo) -> tuple[PodInfo, ...] | Rejection:
        """The fewest pods of lower priority that have to go, or why that does not help."""
        lower = [other for other in node.pods.values() if other.priority < cycle.pod.priority]
        if not lower:
            return NO_VICTIMS
        trial = _Trial(cycle, node.copy())
        for other in lower:
            trial.remove(other)
        try:
            refused = trial.rejection()
            if refused is not None:
                return refused
            victims = []
            for other in sorted(lower, key=lambda pod: (-pod.priority, _started(pod))):
                trial.add(other)
                if trial.rejection() is not None:
                    trial.remove(other)
                    victims.append(other)
            return tuple(victims)
        finally:
            trial.restore()

    async def _evict(self, preemptor: PodInfo, victim: PodInfo, node: str) -> None:
        pod = victim.pod
        if pod["metadata"].get("deletionTimestamp"):
            return
        condition = {
            "lastProbeTime": None,
            "lastTransitionTime": go_time(clock.now()),
            "message": f"{preemptor.spec.get('schedulerName', '')}: preempting to accommodate a higher priority pod",
            "observedGeneration": pod["metadata"].get("generation"),
            "reason": _REASON,
            "status": "True",
            "type": "DisruptionTarget",
        }
        status = condition_patch(pod, condition)
        try:
            if status:
                patch = {"metadata": {"uid": victim.uid}, "status": status}
                await self._client.patch(PODS, victim.name, patch, victim.namespace, subresource="status")
            await self._client.delete(PODS, victim.name, victim.namespace, uid=victim.uid)
        except StatusError as error:
            if error.code not in _GONE:
                raise
            return
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        self._recorder.record(pod, "Normal", "Preempted", "Preempting", note, related=preemptor.pod)

    async def _clear_nomination(self, pod: PodInfo) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": None}}
        try:
            await self._client.patch(PODS, pod.name, patch, pod.namespace, subresource="status")
        except StatusError as error:
            if error.code not in _GONE:
                raise


class _Trial:
    """A copy of a node whose pods are taken away and put back, to see what the filters say then."""

    def __init__(self, cycle: Cycle, node: NodeInfo) -> None:
        self._cycle, self._node = cycle, node
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
        return self._cycle.ask(self._node)

    def restore(self) -> None:
        for pod in list(self._removed.values()):
            self._cycle.count(pod, self._node, 1)


def _started(pod: PodInfo) -> str:
    """When the pod started; one that has not counts as just started."""
    return (pod.pod.get("status") or {}).get("startTime") or "9999"


def _is_being_preempted(pod: Json) -> bool:
    if not pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        c["type"] == "DisruptionTarget" and c["status"] == "True" and c.get("reason") == _REASON for c in conditions
    )


def default_preemption(preemption: Preemption) -> Plugin:
    return Plugin(name=NAME, reads=Reads(), post_filter=preemption.post_filter, hints={})
