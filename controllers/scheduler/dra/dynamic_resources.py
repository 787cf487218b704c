"""The decisions of the plugin DynamicResources about pods with resource claims.

    PreEnqueue   the claims exist and are the pod's
    PreFilter    finds the claims to allocate; their classes exist
    Filter       allocated claims reach the node, the others can all be allocated on it together
    Score        prefers earlier alternatives of a request
    Reserve      allocates for the chosen node, in memory

`claim_writes.py` writes to the server; `plugin.py` is the plugin itself. Facts: Kubernetes 1.36, plugin
dynamicresources.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import orjson

from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import InvalidNodeSelector, NodeSelector
from apiserver.runtime import clock
from controllers.allocator import AllocationError, AllocationInterrupted, Allocator, Solution
from controllers.resourceclaims.pods import group_key
from controllers.runtime.kinds import key_of
from controllers.runtime.times import parse_time
from controllers.scheduler.dra.claim_state import has_binding_conditions, is_deallocation, readiness, results_of
from controllers.scheduler.dra.claims import ClaimCache, ClaimWalkError
from controllers.scheduler.dra.extended_resources import (
    ClassNames,
    RequestBuilder,
    containers_shape,
    is_device_resource,
    special_claim,
)
from controllers.scheduler.dra.node_allocatable import NodeResources, with_statuses
from controllers.scheduler.dra.state import DynamicState, Variant
from controllers.scheduler.framework.events import ClusterEvent, Event, Hints
from controllers.scheduler.framework.framework import SKIP, PluginError, Skip
from controllers.scheduler.framework.status import Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

NAME = "DynamicResources"
CANNOT_ALLOCATE = Rejection(NAME, ("cannot allocate all claims",))
NOT_ON_NODE = Rejection(NAME, ("resourceclaim not available on the node",))
CANNOT_FIT = Rejection(NAME, ("cannot fit resource",))
STALE_SPECIAL = Rejection(NAME, ("cannot schedule extended resource claim",))
NOTHING_SERVED: frozenset[str] = frozenset()
_ALTERNATIVES = 8
FILTER_TIMEOUT = timedelta(seconds=10)
BINDING_TIMEOUT = timedelta(seconds=600)


class DynamicResources:
    """The decisions of the plugin. `conditions` enables binding conditions."""

    def __init__(
        self,
        allocator: Allocator,
        claims: ClaimCache,
        conditions: bool,
        filter_timeout: timedelta | None = FILTER_TIMEOUT,
        classes: ClassNames | None = None,
        binding_timeout: timedelta = BINDING_TIMEOUT,
        *,
        stand_for_resources: bool = False,
    ) -> None:
        """Create it.

        Args:
            allocator: The allocator of devices.
            claims: The cached claims.
            conditions: Whether binding conditions are enabled.
            filter_timeout: The limit for the search on one node; None: no limit.
            classes: The classes of extended resources; None: devices serve none.
            binding_timeout: The limit for binding conditions.
            stand_for_resources: Whether devices may count against the resources of their node.
        """
        self.binding_timeout = binding_timeout
        self.node_resources = NodeResources(allocator.inventory, NAME) if stand_for_resources else None
        self._allocator, self._claims = allocator, claims
        self.conditions, self._filter_timeout = conditions, filter_timeout
        self.classes = classes
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
        """Return the reason why PreEnqueue gates the pod; None admits it."""
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
        """Return the state of an attempt; SKIP for a pod without claims. Raise PluginError."""
        extended = self._extended_requests(pod)
        if not pod.has_claims and not extended:
            return SKIP
        try:
            claims = self._claims.walk(pod.pod)
            consumers = self._claims.consumers(pod.pod)
        except ClaimWalkError as error:
            return Rejection(NAME, (str(error),))
        state = DynamicState(claims, consumers, [], [])
        for position, claim in enumerate(claims):
            allocation = (claim.get("status") or {}).get("allocation")
            state.selectors.append(_selector(allocation))
            if allocation is not None:
                state.fixed_score += _allocated_score(claim, allocation)
                continue
            if (allocation := self._claims.shared_allocation(claim)) is not None:
                state.selectors[-1] = _selector(allocation)
                state.shared[position] = allocation
                continue
            if claim["metadata"]["uid"] in self._claims.pending:
                metadata = claim["metadata"]
                text = f"resource claim {metadata['namespace']}/{metadata['name']} is in the process of being allocated"
                return Rejection(NAME, (text,))
            state.pending.append(position)
        if extended:
            self._add_special(state, pod, extended)
        return self._to_allocate(state, pod) if state.claims else SKIP

    def _extended_requests(self, pod: PodInfo) -> dict[str, int]:
        """Return the pod's extended resources, if devices may serve at least one."""
        classes = self.classes
        if classes is None or not any(classes.get(name) for name in pod.requests if is_device_resource(name)):
            return {}
        return {name: value for name, value in pod.requests.items() if is_device_resource(name)}

    def _add_special(self, state: DynamicState, pod: PodInfo, extended: dict[str, int]) -> None:
        stale = self._claims.special_of(pod.uid)
        state.special, state.extended = len(state.claims), extended
        state.claims.append(stale or special_claim(pod.pod, str(uuid4())))
        state.consumers.append({"resource": "pods", "name": pod.name, "uid": pod.uid})
        state.selectors.append(None)

    def _to_allocate(self, state: DynamicState, pod: PodInfo) -> DynamicState | Rejection:
        variant = self._variant(state, pod, frozenset())
        if variant.allocator is not None and (refused := variant.allocator.prefilter()) is not None:
            if not refused.unresolvable:
                raise PluginError(refused.text)
            return Rejection(NAME, (refused.text,))
        if state.some_allocated or state.is_stale or (self.node_resources and self.node_resources.has_mapped_devices):
            state.shape = None
        else:
            containers = containers_shape(pod) if state.special is not None else None
            specs = [state.claims[position].get("spec") for position in state.pending]
            state.shape = orjson.dumps([specs, containers])
        return state

    def _variant(self, state: DynamicState, pod: PodInfo, served: frozenset[str]) -> Variant:
        """Return the claims to allocate if devices serve these resources."""
        variant = state.variants.get(served)
        if variant is None:
            variant = state.variants[served] = self._make_variant(state, pod, served)
        return variant

    def _make_variant(self, state: DynamicState, pod: PodInfo, served: frozenset[str]) -> Variant:
        claims = [state.claims[position] for position in state.pending]
        variant = Variant(None, list(state.pending), [])
        if served:
            assert state.special is not None
            assert self.classes is not None
            builder = RequestBuilder(pod, self.classes.get)
            for resource in sorted(served):
                builder.add(resource)
            builder.finish()
            variant.special = {**state.claims[state.special], "spec": {"devices": {"requests": builder.requests}}}
            variant.mappings = builder.mappings
            variant.positions.append(state.special)
            claims.append(variant.special)
        if claims:
            variant.allocator = self._allocator.for_pod(claims)
            variant.prioritized = [request.prioritized for request in variant.allocator.plan.requests]
        return variant

    def _for_node(self, state: DynamicState, pod: PodInfo, node: NodeInfo) -> Variant | Rejection:
        """Return the claims to allocate on a node, which may have some of the extended resources itself."""
        if state.special is None:
            return state.variants[NOTHING_SERVED]
        if state.is_stale:
            return STALE_SPECIAL
        assert self.classes is not None
        served = []
        for name in state.extended:
            if not node.allocatable.get(name) and self.classes.get(name) is not None:
                served.append(name)
            elif name not in node.allocatable:
                return CANNOT_FIT
        return self._variant(state, pod, frozenset(served))

    def solve(self, state: DynamicState, pod: PodInfo, node: NodeInfo) -> Solution | Rejection | None:
        """Return an allocation of the claims on the node; None if there are none to allocate. Raise PluginError."""
        variant = self._for_node(state, pod, node)
        if isinstance(variant, Rejection):
            return variant
        if variant.allocator is None:
            return None
        try:
            solution = variant.allocator.solve(node.node or {}, self._deadline())
        except AllocationInterrupted as error:
            raise PluginError(f"node {node.name}: timed out trying to allocate devices") from error
        except AllocationError as error:
            if error.scope == "node":
                return Rejection(NAME, (error.text,))
            raise PluginError(error.text) from error
        return CANNOT_ALLOCATE if solution is None else solution

    def _deadline(self) -> Callable[[], str | None]:
        """Return a function that reports a search beyond its limit. It uses real time: the search never waits."""
        if self._filter_timeout is None:
            return lambda: None
        elapsed = clock.stopwatch()
        end = elapsed() + self._filter_timeout.total_seconds()
        return lambda: "context deadline exceeded" if elapsed() > end else None

    def reachable(self, state: DynamicState, node: NodeInfo) -> Rejection | None:
        """Reject the node if it cannot use a claim that is already allocated."""
        raw = node.node or {}
        unavailable = []
        for position, (claim, selector) in enumerate(zip(state.claims, state.selectors, strict=True)):
            reachable = selector is None or _matches(selector, raw)
            if not reachable or (self.conditions and has_binding_conditions(claim) and self._has_failed_binding(claim)):
                unavailable.append(position)
        if unavailable:
            state.unavailable.update(unavailable)
            return NOT_ON_NODE
        return None

    def _has_failed_binding(self, claim: Json) -> bool:
        ready, failure = readiness(claim)
        return bool(failure) or (not ready and self.timed_out(claim))

    def timed_out(self, claim: Json) -> bool:
        """Return whether the devices have not become ready in time."""
        stamp = claim["status"]["allocation"].get("allocationTimestamp")
        return bool(stamp) and parse_time(stamp) + self.binding_timeout < clock.now()

    def rejection(self, pod: PodInfo, state: DynamicState, node: NodeInfo) -> Rejection | None:
        """Run Filter. Raise PluginError."""
        if self.node_resources is not None and (refused := self._reject_claims_of_others(state, pod, node)) is not None:
            return refused
        solution = self.solve(state, pod, node)
        if isinstance(solution, Rejection):
            return solution
        if solution is not None and self.node_resources is not None and self.node_resources.has_mapped_devices:
            variant = self._for_node(state, pod, node)
            assert not isinstance(variant, Rejection)
            assert variant.allocator is not None
            statuses = self._statuses(state, pod, variant, variant.allocator.results(solution, node.node or {}))
            if (refused := self.node_resources.rejection(pod, statuses, node)) is not None:
                return refused
        return self.reachable(state, node) if state.some_allocated else None

    def _reject_claims_of_others(self, state: DynamicState, pod: PodInfo, node: NodeInfo) -> Rejection | None:
        """Reject a node on which an allocated claim uses node resources for another pod."""
        assert self.node_resources is not None
        if not state.some_allocated:
            return None
        variant, raw = self._for_node(state, pod, node), node.node or {}
        if isinstance(variant, Rejection):
            return variant
        allocated = (
            claim
            for claim, selector in zip(state.claims, state.selectors, strict=True)
            if (claim.get("status") or {}).get("allocation") and (selector is None or _matches(selector, raw))
        )
        return self.node_resources.reject_claims_of_others(pod, allocated, node)

    def _statuses(self, state: DynamicState, pod: PodInfo, variant: Variant, results: list[Json]) -> list[Json]:
        """Return the node resources of the claims in the pod's status form. Raise PluginError.

        The claims are those with these results and those that another member of the group got.
        """
        assert self.node_resources is not None
        allocations = [(state.claims[position], allocation) for position, allocation in state.shared.items()]
        for position, allocation in zip(variant.positions, results, strict=True):
            allocations.append((state.claims[position], allocation))
        return self.node_resources.statuses(pod, allocations)

    def assumed(self, pod: PodInfo, state: DynamicState) -> PodInfo:
        """Return the pod as it counts on its node from Reserve on."""
        return with_statuses(pod, state.statuses) if state.statuses else pod

    def score(self, pod: PodInfo, state: DynamicState, node: NodeInfo) -> int:
        """Score how well the node meets the preferences of the pod's requests. Raise PluginError.

        A request with its first alternative counts 8, with its second 7, and so on.
        """
        variant, solution = self._for_node(state, pod, node), self.solve(state, pod, node)
        if solution is None or isinstance(solution, Rejection) or isinstance(variant, Rejection):
            return state.fixed_score
        chosen = zip(variant.prioritized, solution.choices, strict=True)
        return state.fixed_score + sum(_ALTERNATIVES - choice for counts, choice in chosen if counts)

    def reserve(self, pod: PodInfo, state: DynamicState, node: NodeInfo) -> bool:
        """Allocate for the node in memory; return False if another pod got the devices meanwhile."""
        variant = self._for_node(state, pod, node)
        if isinstance(variant, Rejection):
            return False
        state.chosen = variant
        if state.special is not None and variant.special is None:
            # The node has the resources itself: no claim is needed.
            for items in (state.claims, state.consumers, state.selectors):
                items.pop()
            state.special = None
        for position, allocation in state.shared.items():
            self._claims.share(state.claims[position])
            state.reserved[position] = (state.claims[position], allocation)
        if variant.allocator is None:
            return True
        try:
            results = variant.allocator.allocate(node.node or {})
        except AllocationError as error:
            raise PluginError(error.text) from error
        if results is None:
            return False
        if self.node_resources is not None and self.node_resources.has_mapped_devices:
            state.statuses = self._statuses(state, pod, variant, results)
        for position, allocation in zip(variant.positions, results, strict=True):
            claim = variant.special if position == state.special else state.claims[position]
            assert claim is not None
            state.reserved[position] = (claim, allocation)
            self._claims.allocate(claim, allocation)
        return True

    def unreserve(self, state: DynamicState) -> None:
        """Release the allocations of Reserve."""
        for claim, _ in state.reserved.values():
            self._claims.release(claim)


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
    """Score the alternatives that an allocated claim got."""
    chosen = {result["request"] for result in results_of(allocation)}
    score = 0
    for request in claim["spec"].get("devices", {}).get("requests") or ():
        for position, alternative in enumerate(request.get("firstAvailable") or ()):
            if f"{request['name']}/{alternative['name']}" in chosen:
                score += _ALTERNATIVES - position
                break
    return score
