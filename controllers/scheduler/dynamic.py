"""Pods with resource claims: what the plugin DynamicResources decides.

    PreEnqueue   the claims exist and are the pod's
    PreFilter    what has to be allocated; its classes exist
    Filter       allocated claims reach the node, the others can all be allocated on it together
    Score        earlier alternatives of a request are better
    Reserve      the allocation for the chosen node, in memory

What it writes to the server is in `claimwrites.py`; the plugin itself in `plugins/dynamicresources.py`.
Facts: Kubernetes 1.36, plugin dynamicresources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from time import perf_counter
from typing import Any

import orjson

from apiserver.api.nodeselector import InvalidNodeSelector, NodeSelector
from controllers.allocator import AllocationError, AllocationInterrupted, Allocator, PodAllocator, Solution
from controllers.claims.pods import group_key
from controllers.runtime.clock import Clock, parse_time
from controllers.runtime.kinds import key_of
from controllers.scheduler.claims import ClaimCache, ClaimWalkError
from controllers.scheduler.claimstate import has_binding_conditions, is_deallocation, readiness, results_of
from controllers.scheduler.events import ClusterEvent, Event, Hints
from controllers.scheduler.framework import SKIP, PluginError, Skip
from controllers.scheduler.nodes import NodeInfo
from controllers.scheduler.podinfo import PodInfo
from controllers.scheduler.status import Rejection

Json = dict[str, Any]
NAME = "DynamicResources"
CANNOT_ALLOCATE = Rejection(NAME, ("cannot allocate all claims",))
NOT_ON_NODE = Rejection(NAME, ("resourceclaim not available on the node",))
_ALTERNATIVES = 8
FILTER_TIMEOUT = timedelta(seconds=10)
BINDING_TIMEOUT = timedelta(seconds=600)


@dataclass(slots=True)
class DynamicState:
    """One attempt for one pod with claims."""

    claims: list[Json]
    consumers: list[Json]
    """For whom each claim is to be reserved: the pod, or its group."""
    selectors: list[NodeSelector | None]
    """Where the claims that are allocated can be used."""
    pending: list[int]
    """Claims to allocate, by position."""
    allocator: PodAllocator | None
    fixed_score: int = 0
    """What the allocated claims add to the score of every node."""
    shape: bytes = b""
    """Equal for claims to allocate that every node treats alike."""
    prioritized: list[bool] = field(default_factory=list)
    """For each request to allocate whether its choice counts for the score."""
    unavailable: set[int] = field(default_factory=set)
    """Allocated claims that some node could not use, by position."""
    allocations: dict[int, Json] = field(default_factory=dict)
    """Made in Reserve, by position."""

    @property
    def some_allocated(self) -> bool:
        return len(self.pending) < len(self.claims)

    @property
    def scores(self) -> bool:
        return bool(self.fixed_score) or any(self.prioritized)


class DynamicResources:
    """The plugin. `conditions` says whether binding conditions are on."""

    def __init__(
        self,
        allocator: Allocator,
        claims: ClaimCache,
        clock: Clock,
        conditions: bool,
        filter_timeout: timedelta | None = FILTER_TIMEOUT,
    ) -> None:
        self._allocator, self._claims, self._clock = allocator, claims, clock
        self.conditions, self._filter_timeout = conditions, filter_timeout
        self.hints: Hints = {
            ClusterEvent.NODE_ADD: None,
            ClusterEvent.NODE_LABEL: None,
            ClusterEvent.NODE_ALLOCATABLE: None,
            ClusterEvent.CLAIM_ADD: self._claim_hint,
            ClusterEvent.CLAIM_UPDATE: self._claim_hint,
            ClusterEvent.POD_GENERATED_CLAIM: self._generated_hint,
            ClusterEvent.CLASS_ADD: None,
            ClusterEvent.CLASS_UPDATE: None,
            ClusterEvent.SLICE_ADD: None,
            ClusterEvent.SLICE_UPDATE: None,
            ClusterEvent.POD_GROUP_ADD: self._group_hint,
        }

    def problem(self, pod: Json) -> str | None:
        """PreEnqueue: why the pod's claims cannot be used yet."""
        try:
            self._claims.walk(pod)
        except ClaimWalkError as error:
            return str(error)
        return None

    def _claim_hint(self, pod: PodInfo, event: Event) -> bool:
        try:
            claims = self._claims.walk(pod.pod)
        except ClaimWalkError:
            return False
        new, old = event.new, event.old
        if new is None:
            return True
        if old is not None and is_deallocation(old, new):
            return True
        if all(claim["metadata"]["uid"] != new["metadata"]["uid"] for claim in claims):
            return False
        return old is None or old.get("status") != new.get("status")

    def _generated_hint(self, pod: PodInfo, event: Event) -> bool:
        new = event.new
        return new is not None and new["metadata"]["uid"] == pod.uid and self.problem(new) is None

    @staticmethod
    def _group_hint(pod: PodInfo, event: Event) -> bool:
        return event.new is not None and key_of(event.new) == group_key(pod.pod)

    def prefilter(self, pod: PodInfo) -> DynamicState | Rejection | Skip:
        """The state of an attempt; SKIP if the pod has no claims. Raises PluginError."""
        if not pod.has_claims:
            return SKIP
        try:
            claims = self._claims.walk(pod.pod)
            consumers = self._claims.consumers(pod.pod)
        except ClaimWalkError as error:
            return Rejection(NAME, (str(error),))
        if not claims:
            return SKIP
        state = DynamicState(claims, consumers, [], [], None)
        for position, claim in enumerate(claims):
            allocation = (claim.get("status") or {}).get("allocation")
            state.selectors.append(_selector(allocation))
            if allocation is not None:
                state.fixed_score += _allocated_score(claim, allocation)
                continue
            if claim["metadata"]["uid"] in self._claims.pending:
                metadata = claim["metadata"]
                text = f"resource claim {metadata['namespace']}/{metadata['name']} is in the process of being allocated"
                return Rejection(NAME, (text,))
            state.pending.append(position)
        return self._to_allocate(state)

    def _to_allocate(self, state: DynamicState) -> DynamicState | Rejection:
        if not state.pending:
            return state
        state.allocator = self._allocator.for_pod([state.claims[position] for position in state.pending])
        refused = state.allocator.prefilter()
        if refused is not None:
            if not refused.unresolvable:
                raise PluginError(refused.text)
            return Rejection(NAME, (refused.text,))
        state.prioritized = [request.prioritized for request in state.allocator.plan.requests]
        state.shape = orjson.dumps([state.claims[position].get("spec") for position in state.pending])
        return state

    def solve(self, state: DynamicState, node: NodeInfo) -> Solution | Rejection | None:
        """How the claims can be allocated on the node (None: there are none to allocate). Raises PluginError."""
        if state.allocator is None:
            return None
        try:
            solution = state.allocator.solve(node.node or {}, self._deadline())
        except AllocationInterrupted as error:
            raise PluginError(f"node {node.name}: timed out trying to allocate devices") from error
        except AllocationError as error:
            if error.scope == "node":
                return Rejection(NAME, (error.text,))
            raise PluginError(error.text) from error
        return CANNOT_ALLOCATE if solution is None else solution

    def _deadline(self) -> Callable[[], str | None]:
        """Tells a search when it has taken too long. Real time: the search does not wait, it works."""
        if self._filter_timeout is None:
            return lambda: None
        end = perf_counter() + self._filter_timeout.total_seconds()
        return lambda: "context deadline exceeded" if perf_counter() > end else None

    def reachable(self, state: DynamicState, node: NodeInfo) -> Rejection | None:
        """Whether the node can use the claims that are allocated already."""
        raw = node.node or {}
        unavailable = []
        for position, (claim, selector) in enumerate(zip(state.claims, state.selectors, strict=True)):
            reachable = selector is None or _matches(selector, raw)
            if not reachable or (self.conditions and has_binding_conditions(claim) and self._given_up(claim)):
                unavailable.append(position)
        if unavailable:
            state.unavailable.update(unavailable)
            return NOT_ON_NODE
        return None

    def _given_up(self, claim: Json) -> bool:
        ready, failure = readiness(claim)
        return bool(failure) or (not ready and self.timed_out(claim))

    def timed_out(self, claim: Json) -> bool:
        """Whether the devices have not become ready in time."""
        stamp = claim["status"]["allocation"].get("allocationTimestamp")
        return bool(stamp) and parse_time(stamp) + BINDING_TIMEOUT < self._clock.now()

    def rejection(self, state: DynamicState, node: NodeInfo) -> Rejection | None:
        """Filter. Raises PluginError."""
        found = self.solve(state, node)
        if isinstance(found, Rejection):
            return found
        return self.reachable(state, node) if state.some_allocated else None

    def score(self, state: DynamicState, node: NodeInfo) -> int:
        """How well the node meets the preferences of the pod's requests. Raises PluginError."""
        solution = self.solve(state, node)
        return self._points(state, None if isinstance(solution, Rejection) else solution)

    @staticmethod
    def _points(state: DynamicState, solution: Solution | None) -> int:
        """8 for each request whose first alternative was chosen, 7 for the second, and so on."""
        if solution is None:
            return state.fixed_score
        chosen = zip(state.prioritized, solution.choices, strict=True)
        return state.fixed_score + sum(_ALTERNATIVES - choice for counts, choice in chosen if counts)

    def reserve(self, state: DynamicState, node: NodeInfo) -> bool:
        """Makes the allocations for the node; False if another pod has taken the devices meanwhile."""
        if state.allocator is None:
            return True
        raw = node.node or {}
        try:
            results = state.allocator.allocate(raw)
        except AllocationError as error:
            raise PluginError(error.text) from error
        if results is None:
            return False
        for position, allocation in zip(state.pending, results, strict=True):
            state.allocations[position] = allocation
            self._claims.allocate(state.claims[position], allocation)
        return True

    def unreserve(self, state: DynamicState) -> None:
        """Gives the allocations made in Reserve up again."""
        for position in state.allocations:
            self._claims.release(state.claims[position])


def _selector(allocation: Json | None) -> NodeSelector | None:
    selector = (allocation or {}).get("nodeSelector")
    if selector is None:
        return None
    try:
        return NodeSelector.strict(selector)
    except InvalidNodeSelector as error:
        raise PluginError(str(error)) from error


def _matches(selector: NodeSelector, node: Json) -> bool:
    metadata = node["metadata"]
    return selector.matches(metadata.get("labels") or {}, metadata["name"])


def _allocated_score(claim: Json, allocation: Json) -> int:
    """What an allocated claim says about how well its alternatives were met."""
    chosen = {result["request"] for result in results_of(allocation)}
    score = 0
    for request in claim["spec"].get("devices", {}).get("requests") or ():
        for position, alternative in enumerate(request.get("firstAvailable") or ()):
            if f"{request['name']}/{alternative['name']}" in chosen:
                score += _ALTERNATIVES - position
                break
    return score
