"""Explain why a pod with a node does not run, or not all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from apiserver.api.objects import Json
from controllers.explain.findings import plural
from controllers.explain.world import World
from controllers.resourceclaims.pods import claim_names, is_reserved_for_pod
from controllers.runtime.kinds import NODES, RESOURCE_CLAIMS

#: Warning events printed.
_EVENTS: Final = 3
#: Reasons of warnings that a node for the pod has settled.
_OVER: Final = frozenset({"FailedScheduling", "FailedResourceClaimCreation"})
#: The kubelet's text for a driver without a socket.
_UNREGISTERED: Final = re.compile(r"DRA driver (\S+) is not registered")


def starting_lines(world: World, pod: Json) -> list[str]:
    """Return what a bound pod waits for: its node, claims, containers, and the last warnings. Empty for a ready pod."""
    if any(each["type"] == "Ready" and each["status"] == "True" for each in _conditions(pod)):
        return []
    warnings = list(warning_lines(world, pod))
    return [*_node(world, pod), *_claims(world, pod), *_containers(pod), *warnings, *_remedies(pod, warnings)]


def _conditions(obj: Json) -> list[Json]:
    return (obj.get("status") or {}).get("conditions") or []


def _node(world: World, pod: Json) -> Iterator[str]:
    name = pod["spec"]["nodeName"]
    node = world.of(NODES).get(name)
    if node is None:
        if str(NODES) not in world.unread:
            yield f"node {name} does not exist"
        return
    for condition in _conditions(node):
        if condition["type"] == "Ready" and condition["status"] != "True":
            yield f"node {name} is not ready: {condition.get('message') or condition.get('reason', 'no reason')}"


def _claims(world: World, pod: Json) -> Iterator[str]:
    features = world.options.features
    gates = features.enabled("DRAWorkloadResourceClaims"), features.enabled("DRAReservedForWorkloads")
    for name in dict.fromkeys(claim_names(pod)):
        claim = world.of(RESOURCE_CLAIMS).get(f"{pod['metadata']['namespace']}/{name}")
        if claim is None:
            continue
        if "allocation" not in (claim.get("status") or {}):
            yield f"claim {name} has no devices: a pod that names its node itself waits until another pod gets them"
        elif not is_reserved_for_pod(pod, claim, *gates):
            yield f"claim {name} is not reserved for the pod: status.reservedFor does not name it"


def _containers(pod: Json) -> Iterator[str]:
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for each in statuses:
        waiting = (each.get("state") or {}).get("waiting")
        if waiting is not None:
            message = f": {waiting['message']}" if waiting.get("message") else ""
            yield f"container {each['name']} waits: {waiting.get('reason', 'no reason')}{message}"
    if not statuses and status.get("phase", "Pending") == "Pending":
        yield f"the kubelet of node {pod['spec']['nodeName']} has not reported the pod"


def warning_lines(world: World, obj: Json) -> Iterator[str]:
    """Yield the last warning events about an object, each message once."""
    events = [event for event in world.warnings.get(obj["metadata"]["uid"], ()) if event["reason"] not in _OVER]
    events.sort(key=_last_seen, reverse=True)
    distinct = {(event["reason"], event.get("message", "")): event for event in reversed(events)}
    for (reason, message), event in list(reversed(distinct.items()))[:_EVENTS]:
        count = event.get("count") or (event.get("series") or {}).get("count") or 1
        yield f"warning {reason} ({plural(count, 'time')}, last {_last_seen(event)}): {message}"


def _last_seen(event: Json) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return str(series or event.get("lastTimestamp") or event.get("eventTime") or "")


def _remedies(pod: Json, warnings: list[str]) -> Iterator[str]:
    drivers = dict.fromkeys(name for warning in warnings for name in _UNREGISTERED.findall(warning))
    for driver in drivers:
        yield f"what would help: run the plugin of driver {driver} on node {pod['spec']['nodeName']}"
