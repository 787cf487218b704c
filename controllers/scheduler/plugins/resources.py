"""NodeResourcesFit, NodeResourcesBalancedAllocation and ImageLocality: requests and capacities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from apiserver.api.helpers.pod_requests import is_extended, pod_requests
from apiserver.api.objects import Json
from controllers.scheduler.config.arguments import CPU_AND_MEMORY, DEFAULTS, Arguments
from controllers.scheduler.dra.extended_resources import IMPLICIT_PREFIX, ClassNames
from controllers.scheduler.framework.events import ClusterEvent, Event, Hint, is_own, is_placed
from controllers.scheduler.framework.framework import SKIP, Placement, Plugin, PodField, Reads, node_field
from controllers.scheduler.framework.scores import MAX_SCORE, on_line
from controllers.scheduler.framework.status import Code, Rejection
from controllers.scheduler.state.nodes import Cache, NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

FIT = "NodeResourcesFit"
_FIRST = ("Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage")
REQUESTS = PodField("requests", lambda pod: pod.requests)
ASSUMED_REQUESTS = PodField("requests that scoring assumes", lambda pod: pod.assumed_requests)
_ALLOCATABLE = node_field("status", "allocatable")


def unfit(
    pod: PodInfo, node: NodeInfo, classes: ClassNames | None, ignored: frozenset[str] = frozenset()
) -> Rejection | None:
    """Return a rejection with all insufficient resources. Devices of a class may serve those that the node lacks."""
    short: list[str] = []
    unresolvable = False
    if len(node.pods) + 1 > node.max_pods:
        short.append("Too many pods")
    allocatable, requested = node.allocatable, node.requested
    for name, value in pod.requests.items():
        capacity = allocatable.get(name, 0)
        if value > capacity - requested.get(name, 0):
            if _left_to_devices(name, node, classes) or (ignored and _is_ignored(name, ignored)):
                continue
            short.append(f"Insufficient {name}")
            unresolvable |= value > capacity
    if not short:
        return None
    if len(short) > 1:
        short.sort(key=_order)
    return Rejection(FIT, tuple(short), Code.UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE)


def _left_to_devices(name: str, node: NodeInfo, classes: ClassNames | None) -> bool:
    return classes is not None and not node.allocatable.get(name) and classes.get(name) is not None


def _is_ignored(name: str, ignored: frozenset[str]) -> bool:
    return is_extended(name) and (name in ignored or name.partition("/")[0] in ignored)


def _order(reason: str) -> tuple[int, str]:
    return (_FIRST.index(reason) if reason in _FIRST else len(_FIRST), reason)


def _was_placed(_: PodInfo, event: Event) -> bool:
    return event.old is not None and is_placed(event.old)


def _frees_resources(pod: PodInfo, event: Event) -> bool:
    if is_own(pod, event):
        return True
    if event.old is None or event.new is None or not event.new["spec"].get("nodeName"):
        return False
    before, after = pod_requests(event.old), pod_requests(event.new)
    return any(before.get(name, 0) > after.get(name, 0) for name in pod.requests)


def _info(node: Json | None) -> NodeInfo | None:
    if node is None:
        return None
    info = NodeInfo(node["metadata"]["name"])
    info.set_node(node)
    return info


def _fits_empty(classes: ClassNames | None) -> Hint:
    def hint(pod: PodInfo, event: Event) -> bool:
        new, old = _info(event.new), _info(event.old)
        if new is None or unfit(pod, new, classes) is not None:
            return False
        if old is None or new.max_pods > old.max_pods:
            return True
        return any(
            new.allocatable.get(name, 0) > old.allocatable.get(name, 0) or _left_to_devices(name, new, classes)
            for name in pod.requests
        )

    return hint


def _names_class(pod: PodInfo, event: Event) -> bool:
    """Return whether a new or renamed class serves a resource that the pod requests."""
    if event.new is None:
        return False
    explicit = event.new["spec"].get("extendedResourceName")
    if event.old is not None:
        return explicit != event.old["spec"].get("extendedResourceName") and explicit in pod.requests
    return explicit in pod.requests or IMPLICIT_PREFIX + event.new["metadata"]["name"] in pod.requests


def _least_allocated(pod: PodInfo, _: Any, node: NodeInfo) -> int:
    cpu, memory = pod.assumed_requests
    total = weights = 0
    for used, capacity in ((node.assumed_cpu + cpu, node.cpu), (node.assumed_memory + memory, node.memory)):
        if capacity:
            weights += 1
            if used <= capacity:
                total += (capacity - used) * MAX_SCORE // capacity
    return total // weights if weights else 0


def _strategy(arguments: Arguments) -> Callable[[PodInfo, Any, NodeInfo], int]:
    """Return the scoring strategy for nodes; by default the mean of the free shares of cpu and memory."""
    if arguments.shape:
        return _by_shape(arguments)
    if arguments.scored == CPU_AND_MEMORY and not arguments.prefers_full_nodes:
        return _least_allocated
    full = arguments.prefers_full_nodes

    def score(pod: PodInfo, _: Any, node: NodeInfo) -> int:
        total = weights = 0
        for name, weight in arguments.scored:
            used, capacity = _usage_with(pod, node, name)
            if capacity:
                weights += weight
                if full:
                    total += weight * (min(used, capacity) * MAX_SCORE // capacity)
                elif used <= capacity:
                    total += weight * ((capacity - used) * MAX_SCORE // capacity)
        return total // weights if weights else 0

    return score


def _by_shape(arguments: Arguments) -> Callable[[PodInfo, Any, NodeInfo], int]:
    """Return the strategy RequestedToCapacityRatio; resources with a score of 0 do not count."""

    def score(pod: PodInfo, _: Any, node: NodeInfo) -> int:
        total = weights = 0
        for name, weight in arguments.scored:
            used, capacity = _usage_with(pod, node, name)
            if not capacity:
                continue
            resource_score = on_line(arguments.shape, min(used, capacity) * 100 // capacity)
            if resource_score > 0:
                total += weight * resource_score
                weights += weight
        # Rounded to the nearest, halves up.
        return (2 * total + weights) // (2 * weights) if weights else 0

    return score


def _utilization_score(arguments: Arguments) -> Callable[[str, Placement], int]:
    """Return the score of a part of the cluster: its utilization with the group, whatever the strategy for nodes."""

    def score(_: str, placement: Placement) -> int:
        total = weights = 0
        for name, weight in arguments.scored:
            request = sum(_scored_request(pod, name) for pod in placement.pods)
            if not request and name not in ("cpu", "memory", "ephemeral-storage"):
                continue
            rooms = [
                (used, capacity)
                for node in placement.nodes
                for used, capacity in [_scored_usage(node, name)]
                if capacity
            ]
            if capacity := sum(room for _, room in rooms):
                used = request + sum(used for used, _ in rooms)
                total += weight * (min(used, capacity) * MAX_SCORE // capacity)
                weights += weight
        return total // weights if weights else 0

    return score


def _scored_request(pod: PodInfo, name: str) -> int:
    """Return the pod's request as scoring counts it."""
    if name == "cpu":
        return pod.assumed_requests[0]
    if name == "memory":
        return pod.assumed_requests[1]
    return pod.requests.get(name, 0)


def _scored_usage(node: NodeInfo, name: str) -> tuple[int, int]:
    """Return the requested amount and the capacity of a node's resource as scoring counts them."""
    if name == "cpu":
        return node.assumed_cpu, node.cpu
    if name == "memory":
        return node.assumed_memory, node.memory
    return node.requested.get(name, 0), node.allocatable.get(name, 0)


def _usage_with(pod: PodInfo, node: NodeInfo, name: str) -> tuple[int, int]:
    """Return the requested amount with the pod and the capacity; 0 for resources that do not count."""
    request = _scored_request(pod, name)
    if not request and name not in ("cpu", "memory", "ephemeral-storage"):
        return 0, 0
    used, capacity = _scored_usage(node, name)
    return used + request, capacity


def node_resources_fit(classes: ClassNames | None = None, arguments: Arguments = DEFAULTS) -> Plugin:
    """Build the plugin. Without `classes` devices serve no extended resources."""
    hints: dict[ClusterEvent, Hint | None] = {
        ClusterEvent.NODE_ADD: _fits_empty(classes),
        ClusterEvent.NODE_ALLOCATABLE: _fits_empty(classes),
        ClusterEvent.POD_DELETE: _was_placed,
        ClusterEvent.POD_SCALE_DOWN: _frees_resources,
    }
    if classes is not None:
        hints |= {ClusterEvent.CLASS_ADD: _names_class, ClusterEvent.CLASS_UPDATE: _names_class}
    return Plugin(
        name=FIT,
        # The mapping of resources to classes counts as devices: it changes with the classes.
        reads=Reads(
            pod=(REQUESTS, ASSUMED_REQUESTS), node=(_ALLOCATABLE,), pods_on_node=True, devices=classes is not None
        ),
        filter=lambda pod, _, node: unfit(pod, node, classes, arguments.ignored),
        score=_strategy(arguments),
        placement_score=_utilization_score(arguments),
        hints=hints,
    )


# NodeResourcesBalancedAllocation


def _balance(resources: list[tuple[int, int]]) -> int:
    """Return 100 for equal utilization of all resources, less for a larger deviation."""
    fractions = [min(1.0, used / capacity) for used, capacity in resources if capacity]
    if len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((fraction - mean) * (fraction - mean) for fraction in fractions) / len(fractions))
    else:
        deviation = abs(fractions[0] - fractions[1]) / 2 if len(fractions) == 2 else 0.0
    return int((1 - deviation) * MAX_SCORE)


def balanced_allocation(arguments: Arguments = DEFAULTS) -> Plugin:
    """Build the plugin: the pod should balance the utilization of a node's resources."""
    names = arguments.balanced

    def requests(pod: PodInfo, _: Any) -> Any:
        """Return the pod's requests of these resources; skip pods without any."""
        amounts = tuple(pod.requests.get(name, 0) for name in names)
        return amounts if any(amounts) else SKIP

    def score(_: PodInfo, amounts: tuple[int, ...], node: NodeInfo) -> int:
        before, after = [], []
        for name, more in zip(names, amounts, strict=True):
            if not more and name not in _ALWAYS:
                continue
            used, capacity = node.requested.get(name, 0), node.allocatable.get(name, 0)
            before.append((used, capacity))
            after.append((used + more, capacity))
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + _balance(after) - _balance(before)) // 2

    return Plugin(
        name="NodeResourcesBalancedAllocation",
        reads=Reads(pod=(REQUESTS,), node=(_ALLOCATABLE,), pods_on_node=True),
        pre_score=requests,
        score=score,
    )


#: Resources that count even without a request of the pod.
_ALWAYS = frozenset(("cpu", "memory", "ephemeral-storage"))


# ImageLocality

_MB = 1024 * 1024
_FEWEST_BYTES, _MOST_BYTES = 23 * _MB, 1000 * _MB


def image_locality(cache: Cache) -> Plugin:
    """Build the plugin: nodes with the pod's images score higher.

    An image on few nodes counts less, so that a single node with it does not get all pods.
    """

    def pre_score(pod: PodInfo, _: Any) -> Any:
        return None if any(name in cache.image_nodes for name in pod.images) else SKIP

    def scores(pod: PodInfo, _: Any, nodes: list[NodeInfo]) -> list[int]:
        known = len(cache.list())
        return [_image_score(pod, node, cache, known) for node in nodes]

    return Plugin(
        name="ImageLocality",
        reads=Reads(
            pod=(PodField("images", lambda pod: pod.images),), node=(node_field("status", "images"),), elsewhere=True
        ),
        pre_score=pre_score,
        scores=scores,
    )


def _image_score(pod: PodInfo, node: NodeInfo, cache: Cache, nodes: int) -> int:
    counts, sizes = cache.image_nodes, cache.image_sizes
    total = sum(int(sizes[name] * (counts[name] / nodes)) for name in pod.images if name in node.images)
    most = _MOST_BYTES * (len(pod.spec.get("initContainers") or ()) + len(pod.spec["containers"]))
    return MAX_SCORE * (min(max(total, _FEWEST_BYTES), most) - _FEWEST_BYTES) // (most - _FEWEST_BYTES)
