"""Finding a node for one pod: filters over the nodes until enough fit, then scores.

The search starts where the last one ended and stops when enough nodes fit (all below 100; else 50 % less one for each
125 nodes, at least 5 %, at least 100 nodes). Filters in upstream's order: what the node's own state decides, topology
spread, inter-pod affinity, devices. What is found out about a node's own state and its devices is remembered for pods
of the same shape until the node or its devices change. Scores with upstream's weights; among equals the choice is
random. Long searches let the loop run in between.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from apiserver.api.selectors import LabelSelector, SelectorError
from controllers.allocator import Solution
from controllers.scheduler import interpod, spread
from controllers.scheduler.dynamic import DynamicResources, DynamicState
from controllers.scheduler.interpod import InterPodState, NamespaceLabels
from controllers.scheduler.local import LocalScores, image_score, local_scores, normalized, rejection
from controllers.scheduler.nodes import Cache, NodeInfo
from controllers.scheduler.podinfo import PodInfo
from controllers.scheduler.reach import DeviceReach
from controllers.scheduler.spread import SpreadState
from controllers.scheduler.status import NO_NODES, Diagnosis, FitError, Rejection, SchedulingError

Json = dict[str, Any]
_FEWEST_NODES, _LEAST_PERCENT, _MOST_PERCENT, _NODES_PER_PERCENT = 100, 5, 50, 125
_PIECE = 0.002
"""Seconds of work on the loop before others get their turn."""
_TAINT_WEIGHT, _AFFINITY_WEIGHT, _SPREAD_WEIGHT, _INTERPOD_WEIGHT, _DEVICES_WEIGHT = 3, 2, 2, 2, 2
_CONFLICT = Rejection("NodeAffinity", ("pod affinity terms conflict",))


@dataclass(slots=True)
class Outcome:
    """What is known of one node for one shape of pod and claims, until one of the two changes."""

    rejection: Rejection | None
    """By the node's own state."""
    scores: LocalScores | None = None
    devices: Solution | Rejection | None = None
    settled: bool = False
    """Whether everything was found out; `answer` is the outcome then, pods elsewhere and allocated claims aside."""
    answer: Rejection | None = None


@dataclass(slots=True)
class Cycle:
    """What the plugins keep for one attempt."""

    pod: PodInfo
    interpod: InterPodState | None = None
    spread: SpreadState | None = None
    dynamic: DynamicState | None = None
    dynamic_ran: bool = False
    """Whether DynamicResources was asked at all."""
    only: frozenset[str] | None = None
    """The nodes that the pod names, if it does."""
    known: dict[str, Outcome] = field(default_factory=dict)

    @property
    def looks_elsewhere(self) -> bool:
        """Whether more than the node and its free devices decides."""
        return (
            self.spread is not None
            or self.interpod is not None
            or (self.dynamic is not None and self.dynamic.some_allocated)
        )

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """In thought a pod comes to a node (1) or leaves it (-1)."""
        if self.spread is not None:
            self.spread.count(other, node, sign)
        if self.interpod is not None:
            self.interpod.count(other, node, sign)

    def neighbours(self, node: NodeInfo) -> Rejection | None:
        """What rejects a node because of pods elsewhere."""
        if self.spread is not None and (refused := self.spread.rejection(node)) is not None:
            return refused
        return self.interpod.rejection(node) if self.interpod is not None else None


class Memory:
    """Outcomes by shape and node. The shapes used least recently are forgotten."""

    _SHAPES = 256

    def __init__(self, cache: Cache, reach: DeviceReach) -> None:
        self._cache, self._reach = cache, reach
        self._shapes: OrderedDict[tuple[bytes, bytes], dict[str, Outcome]] = OrderedDict()
        self._nodes_read = self._devices_read = 0

    def of(self, pod: bytes, claims: bytes) -> dict[str, Outcome]:
        """What is known for pods and claims of these shapes and still holds."""
        self._forget()
        key = (pod, claims)
        known = self._shapes.get(key)
        if known is None:
            known = self._shapes[key] = {}
            if len(self._shapes) > self._SHAPES:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(key)
        return known

    def _forget(self) -> None:
        self._reach.sync()
        touched = {*self._cache.log.since(self._nodes_read), *self._reach.log.since(self._devices_read)}
        self._nodes_read, self._devices_read = self._cache.log.position, self._reach.log.position
        for known in self._shapes.values() if touched else ():
            if None in touched:
                known.clear()
            else:
                for name in touched:
                    known.pop(name or "", None)


class Evaluator:
    """The filters and scores over a cache of nodes."""

    def __init__(
        self,
        cache: Cache,
        devices: DynamicResources,
        reach: DeviceReach,
        namespace_labels: NamespaceLabels,
        choice: random.Random,
        default_selector: Callable[[PodInfo], LabelSelector | None] = lambda _: None,
        percentage: int = 0,
    ) -> None:
        self.cache, self.devices = cache, devices
        self.nominated: dict[str, dict[str, PodInfo]] = {}
        """Pods that others were removed for, by node: they count there for pods of no higher priority."""
        self._namespace_labels, self._choice, self._percentage = namespace_labels, choice, percentage
        self._default_selector = default_selector
        self._memory = Memory(cache, reach)
        self._start = 0

    def nominate(self, pod: PodInfo, node: str) -> None:
        """The pod waits for a node ("": for none)."""
        self.denominate(pod.uid)
        if node:
            self.nominated.setdefault(node, {})[pod.uid] = pod

    def denominate(self, uid: str) -> None:
        for node, pods in list(self.nominated.items()):
            if pods.pop(uid, None) is not None and not pods:
                del self.nominated[node]

    async def place(self, cycle: Cycle) -> NodeInfo:
        """The best node. Raises FitError, SchedulingError."""
        nodes = self.cache.list()
        if not nodes:
            raise SchedulingError(NO_NODES)
        diagnosis = Diagnosis(len(nodes))
        refused = self.prefilter(cycle)
        if refused is not None:
            diagnosis.prefilter = ", ".join(refused.reasons)
            diagnosis.absent = Rejection(refused.plugin, (), refused.code)
            diagnosis.plugins.add(refused.plugin)
            raise FitError(diagnosis)
        feasible = await self._feasible(cycle, nodes, diagnosis)
        if not feasible:
            diagnosis.plugins.update(r.plugin for r in diagnosis.rejections.values())
            if diagnosis.absent is not None and len(diagnosis.rejections) < diagnosis.nodes:
                diagnosis.plugins.add(diagnosis.absent.plugin)
            raise FitError(diagnosis)
        return feasible[0] if len(feasible) == 1 else self._best(cycle, feasible)

    def prefilter(self, cycle: Cycle) -> Rejection | None:
        """What does not depend on the node."""
        pod = cycle.pod
        names = _named_nodes(pod)
        if names is not None and not names:
            return _CONFLICT
        cycle.only = names
        try:
            if pod.spec.get("topologySpreadConstraints") and (wanted := spread.constraints(pod, "DoNotSchedule")):
                cycle.spread = SpreadState(pod, wanted, self.cache)
            if pod.has_pod_affinity or self.cache.with_anti_affinity:
                state = InterPodState(pod, self.cache, self._namespace_labels)
                cycle.interpod = None if state.empty else state
        except SelectorError as error:
            raise SchedulingError(f"running PreFilter plugins: {error}") from error
        cycle.dynamic_ran = True
        found = self.devices.prefilter(pod)
        if isinstance(found, Rejection):
            return found
        cycle.dynamic = found
        cycle.known = self._memory.of(pod.shape, found.shape if found is not None else b"")
        return None

    def rejection(self, cycle: Cycle, node: NodeInfo) -> Rejection | None:
        """Whether one node can take the pod, pods that are nominated to it counted in."""
        if self.nominated and (others := self.nominated.get(node.name)):
            pod = cycle.pod
            waiting = [p for p in others.values() if p.uid != pod.uid and p.priority >= pod.priority]
            if waiting and (refused := self._with_others(cycle, node, waiting)) is not None:
                return refused
        outcome = cycle.known.get(node.name)
        if outcome is None:
            refused = rejection(cycle.pod, node)
            outcome = cycle.known[node.name] = Outcome(refused, settled=refused is not None, answer=refused)
        if outcome.rejection is not None:
            return outcome.rejection
        if (refused := cycle.neighbours(node)) is not None:
            return refused
        if not outcome.settled:
            if cycle.dynamic is not None:
                outcome.devices = self.devices.solve(cycle.dynamic, node)
                outcome.answer = outcome.devices if isinstance(outcome.devices, Rejection) else None
            outcome.settled = True
        if outcome.answer is not None or cycle.dynamic is None or not cycle.dynamic.some_allocated:
            return outcome.answer
        return self.devices.reachable(cycle.dynamic, node)

    def trial(self, cycle: Cycle, node: NodeInfo) -> Rejection | None:
        """The same for a node as it might be; nothing is remembered."""
        refused = rejection(cycle.pod, node) or cycle.neighbours(node)
        if refused is not None or cycle.dynamic is None:
            return refused
        found = self.devices.solve(cycle.dynamic, node)
        return found if isinstance(found, Rejection) else self.devices.reachable(cycle.dynamic, node)

    def _with_others(self, cycle: Cycle, node: NodeInfo, others: list[PodInfo]) -> Rejection | None:
        crowded = node.copy()
        for other in others:
            crowded.add_pod(other)
            cycle.count(other, crowded, 1)
        try:
            return self.trial(cycle, crowded)
        finally:
            for other in others:
                cycle.count(other, crowded, -1)

    async def _feasible(self, cycle: Cycle, nodes: list[NodeInfo], diagnosis: Diagnosis) -> list[NodeInfo]:
        nominated = self.cache.nodes.get(cycle.pod.pod.get("status", {}).get("nominatedNodeName") or "")
        if nominated is not None and nominated.node is not None and self.rejection(cycle, nominated) is None:
            return [nominated]
        if cycle.only is not None:
            diagnosis.absent = Rejection("NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
            nodes = [node for node in nodes if node.name in cycle.only]
            if not nodes:
                return []
        return await self._search(cycle, nodes, diagnosis)

    async def _search(self, cycle: Cycle, nodes: list[NodeInfo], diagnosis: Diagnosis) -> list[NodeInfo]:
        count, wanted = len(nodes), self._wanted(len(nodes))
        feasible: list[NodeInfo] = []
        rejections = diagnosis.rejections
        pause = perf_counter() + _PIECE
        start = self._start % count
        looked = 0
        known = {} if self.nominated or cycle.looks_elsewhere else cycle.known
        for node in (*nodes[start:], *nodes[:start]):
            if node.node is None:
                continue
            looked += 1
            outcome = known.get(node.name)
            if outcome is not None and outcome.settled:
                refused = outcome.answer
            else:
                refused = self.rejection(cycle, node)
                if perf_counter() > pause:
                    await asyncio.sleep(0)
                    pause = perf_counter() + _PIECE
            if refused is not None:
                rejections[node.name] = refused
                continue
            feasible.append(node)
            if len(feasible) >= wanted:
                break
        self._start = (start + looked) % count
        return feasible

    def _wanted(self, nodes: int) -> int:
        """How many feasible nodes are enough."""
        if nodes < _FEWEST_NODES or self._percentage >= 100:
            return nodes
        percent = self._percentage or max(_LEAST_PERCENT, _MOST_PERCENT - nodes // _NODES_PER_PERCENT)
        return max(_FEWEST_NODES, nodes * percent // 100)

    def _best(self, cycle: Cycle, nodes: list[NodeInfo]) -> NodeInfo:
        totals = self.totals(cycle, nodes)
        highest = max(totals)
        best = [node for node, total in zip(nodes, totals, strict=True) if total == highest]
        return best[0] if len(best) == 1 else self._choice.choice(best)

    def totals(self, cycle: Cycle, nodes: list[NodeInfo]) -> list[int]:
        """The weighted scores. A plugin that gives every node the same is left out: it decides nothing."""
        pod = cycle.pod
        outcomes = [cycle.known[node.name] for node in nodes]
        scores = [self._local_scores(cycle, node, outcome) for node, outcome in zip(nodes, outcomes, strict=True)]
        totals = [score.resources for score in scores]
        if any(score.taints for score in scores):
            _add(totals, _TAINT_WEIGHT, normalized([score.taints for score in scores], reverse=True))
        if any(score.preference for score in scores):
            _add(totals, _AFFINITY_WEIGHT, normalized([score.preference for score in scores]))
        try:
            _add(totals, _SPREAD_WEIGHT, spread.scores(pod, nodes, self.cache, self._default_selector(pod)))
            _add(totals, _INTERPOD_WEIGHT, interpod.scores(pod, nodes, self.cache, self._namespace_labels))
        except SelectorError as error:
            raise SchedulingError(f"running PreScore plugins: {error}") from error
        dynamic = cycle.dynamic
        if dynamic is not None and dynamic.scores:
            chosen = [None if isinstance(outcome.devices, Rejection) else outcome.devices for outcome in outcomes]
            _add(totals, _DEVICES_WEIGHT, normalized([self.devices.score(dynamic, solution) for solution in chosen]))
        images = self.cache.image_nodes
        if images and any(name in images for name in pod.images):
            count = len(self.cache.list())
            _add(totals, 1, [image_score(pod, node, images, count) for node in nodes])
        return totals

    @staticmethod
    def _local_scores(cycle: Cycle, node: NodeInfo, outcome: Outcome) -> LocalScores:
        if outcome.scores is None:
            outcome.scores = local_scores(cycle.pod, node)
        return outcome.scores


def _add(totals: list[int], weight: int, scores: list[int] | None) -> None:
    if scores is not None:
        for position, score in enumerate(scores):
            totals[position] += weight * score


def _named_nodes(pod: PodInfo) -> frozenset[str] | None:
    """The nodes that required node affinity names, if every term of it names some."""
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required or not required.get("nodeSelectorTerms"):
        return None
    names: set[str] = set()
    for term in required["nodeSelectorTerms"]:
        of_term: set[str] | None = None
        for item in term.get("matchFields") or ():
            if item["key"] == "metadata.name" and item["operator"] == "In":
                values = set(item.get("values") or ())
                of_term = values if of_term is None else of_term & values
        if of_term is None:
            return None
        names |= of_term
    return frozenset(names)
