"""Devices that count against resources of their node (gate DRANodeAllocatableResources).

A claim on cores counts against the node's cpu, in addition to the containers' requests. The amounts follow from the
allocated devices (`nodeAllocatableResourceMappings`). So the plugin that chooses the devices checks them. They count on
the node from then on and are written to the pod before its binding (`status.nodeAllocatableResourceClaimStatuses`).

Facts: Kubernetes 1.36, plugin dynamicresources, nodeallocatabledynamicresources.go. One difference: devices are
identified by driver, pool and name, not by pool and name only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from apiserver.api.helpers.pod_requests import CLAIM_STATUSES, Amounts, Counts, pod_requests
from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from controllers.allocator.inventory import Inventory
from controllers.resourceclaims.pods import ClaimReferenceError, claim_reference
from controllers.scheduler.dra.claim_state import results_of
from controllers.scheduler.framework.framework import PluginError
from controllers.scheduler.framework.status import Code, Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo

GATE: Final = "DRANodeAllocatableResources"
_CHECKED: Final = ("cpu", "memory", "ephemeral-storage")


class NodeResources:
    """The node resources of claims. `plugin` is the name in rejections."""

    def __init__(self, inventory: Inventory, plugin: str) -> None:
        self._inventory, self._plugin = inventory, plugin

    @property
    def has_mapped_devices(self) -> bool:
        """Return whether any device counts against node resources."""
        return bool(self._inventory.mapped)

    def reject_claims_of_others(self, pod: PodInfo, claims: Iterable[Json], node: NodeInfo) -> Rejection | None:
        """Reject a node on which an allocated claim uses node resources for another pod."""
        for claim in claims:
            name = claim["metadata"]["name"]
            users = {user.uid for user in node.pods.values() if name in _claims_counted(user, pod.namespace)}
            if len(users) > 1:
                return Rejection(self._plugin, (f"node allocatable resource claim {name} shared by multiple pods",))
            if users and pod.uid not in users:
                text = f"node allocatable resource claim {name} is already used by another pod"
                return Rejection(self._plugin, (text,))
        return None

    def statuses(self, pod: PodInfo, allocated: Sequence[tuple[Json, Json]]) -> list[Json]:
        """Return the node resources of claims with these allocations, in the pod's status form. Raise PluginError."""
        containers = _containers(pod)
        statuses = []
        for claim, allocation in allocated:
            amounts = self._amounts(claim, allocation)
            if amounts is not None:
                name = claim["metadata"]["name"]
                resources = {resource: str(amount) for resource, amount in amounts.items()}
                statuses.append(
                    {"resourceClaimName": name, "containers": containers.get(name, []), "resources": resources}
                )
        return sorted(statuses, key=lambda status: str(status["resourceClaimName"]))

    def _amounts(self, claim: Json, allocation: Json) -> dict[str, Quantity] | None:
        """Return the amounts by resource; None if no device counts against any."""
        amounts: dict[str, Quantity] = {}
        for result in results_of(allocation):
            device = self._inventory.device(result["driver"], result["pool"], result["device"])
            for resource, mapping in ((device or {}).get("nodeAllocatableResourceMappings") or {}).items():
                amount = _amount(claim, resource, mapping, result)
                if amount is not None:
                    amounts[resource] = amounts[resource].add(amount) if resource in amounts else amount
        return amounts or None

    def rejection(self, pod: PodInfo, statuses: list[Json], node: NodeInfo) -> Rejection | None:
        """Reject a node without room for the pod including its claims' resources."""
        for status in statuses:
            if not status["containers"]:
                what = "node-allocatable resource claim not referenced by any container within the pod"
                return Rejection(self._plugin, (f"claim {status['resourceClaimName']}: {what}",))
        if not statuses:
            return None
        counted = with_statuses(pod, statuses)
        requests = counted.requests
        if (name := _beyond_pod_level(counted, requests)) is not None:
            text = f"pod level request for {name} is insufficient to cover the aggregated container and "
            return Rejection(self._plugin, (f"{text}node-allocatable DRA requests",))
        checked = (*_CHECKED, *sorted(name for name in requests if name.startswith("hugepages-")))
        short = [name for name in checked if (amount := requests.get(name, 0)) and amount > _left(node, name)]
        if not short:
            return None
        beyond = any(requests[name] > node.allocatable.get(name, 0) for name in short)
        code = Code.UNRESOLVABLE if beyond else Code.UNSCHEDULABLE
        return Rejection(self._plugin, tuple(f"Insufficient {name}" for name in short), code)


def with_statuses(pod: PodInfo, statuses: list[Json]) -> PodInfo:
    """Return the pod with these resources of its claims counted."""
    return PodInfo({**pod.pod, "status": {**(pod.pod.get("status") or {}), CLAIM_STATUSES: statuses}}, pod.counts)


def _left(node: NodeInfo, resource: str) -> int:
    return node.allocatable.get(resource, 0) - node.requested.get(resource, 0)


def _claims_counted(pod: PodInfo, namespace: str) -> list[str]:
    """Return the claims of a namespace whose node resources the pod's status has."""
    if pod.namespace != namespace:
        return []
    statuses = (pod.pod.get("status") or {}).get(CLAIM_STATUSES) or ()
    return [status["resourceClaimName"] for status in statuses]


def _containers(pod: PodInfo) -> dict[str, list[str]]:
    """Return the names of the containers by the name of a claim that they use."""
    claims: dict[str, str] = {}
    for entry in pod.spec.get("resourceClaims") or ():
        try:
            claims[entry["name"]] = claim_reference(pod.pod, entry).name or ""
        except ClaimReferenceError as error:
            raise PluginError(f"processing pod resource claims: {error}") from error
    containers: dict[str, list[str]] = {}
    for container in (*(pod.spec.get("initContainers") or ()), *pod.spec["containers"]):
        for used in (container.get("resources") or {}).get("claims") or ():
            if name := claims.get(used["name"]):
                containers.setdefault(name, []).append(container["name"])
    return containers


def _amount(claim: Json, resource: str, mapping: Json, result: Json) -> Quantity | None:
    """Return the amount of a resource for one device; None if its capacity was not consumed. Raise PluginError."""
    factor = Quantity.parse(str(mapping["allocationMultiplier"])) if "allocationMultiplier" in mapping else None
    key = mapping.get("capacityKey")
    if not key:
        return factor or Quantity()
    consumed = result.get("consumedCapacity")
    if consumed is None:
        metadata = claim["metadata"]
        raise PluginError(
            f"claim {metadata['namespace']}/{metadata['name']}, device {result['device']}: ConsumedCapacity is nil, but"
            f" Capacity key '{key}' is set in NodeAllocatableResourceMappings for resource {resource}"
        )
    if key not in consumed:
        return None
    amount = Quantity.parse(str(consumed[key]))
    if factor is None:
        return amount
    return Quantity(amount.unscaled * factor.unscaled, amount.exponent + factor.exponent, amount.format)


def _beyond_pod_level(pod: PodInfo, requests: Amounts) -> str | None:
    """Return a resource of which containers and claims use more than the pod-level request."""
    if not (pod.counts.pod_level and (pod.spec.get("resources") or {}).get("requests")):
        return None
    summed = pod_requests(pod.pod, counts=Counts(pod_level=False))
    return next((name for name in sorted(requests) if summed.get(name, 0) > requests[name]), None)
