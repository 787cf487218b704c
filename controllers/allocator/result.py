"""Builds AllocationResults from picked devices.

Source of facts: Kubernetes 1.36,
staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controllers.allocator.choices import Pick, Solution
from controllers.allocator.devices import Device, NodeSelection, Object
from controllers.allocator.errors import AllocationError
from controllers.allocator.plan import Alternative, ClaimPlan, Plan
from controllers.allocator.view import NodeView


def build_results(
    plan: Plan, solution: Solution, view: NodeView, node: str, new_share_id: Callable[[], str]
) -> list[Object]:
    """Return one AllocationResult per claim of the plan."""
    by_claim: list[list[Pick]] = [[] for _ in plan.claims]
    for pick in solution.picks:
        by_claim[pick.candidates.alternative.claim].append(pick)
    choices = iter(solution.choices)
    results = []
    for number, claim in enumerate(plan.claims):
        alternatives = [request.alternatives[next(choices)] for request in claim.requests]
        devices: Object = {}
        entries = [_result(pick, view, new_share_id) for pick in by_claim[number]]
        config = _class_config(alternatives) + _claim_config(claim, alternatives)
        if entries:
            devices["results"] = entries
        if config:
            devices["config"] = config
        result: Object = {"devices": devices}
        selector = _node_selector([view.devices[pick.position] for pick in by_claim[number]], node, claim)
        if selector is not None:
            result["nodeSelector"] = selector
        results.append(result)
    return results


def _result(pick: Pick, view: NodeView, new_share_id: Callable[[], str]) -> Object:
    device, alternative = view.devices[pick.position], pick.candidates.alternative
    driver, pool, name = device.id
    result: Object = {"request": alternative.result_name, "driver": driver, "pool": pool, "device": name}
    if alternative.admin:
        result["adminAccess"] = True
    if alternative.tolerations:
        result["tolerations"] = [dict(item) for item in alternative.tolerations]
    if view.features.binding_conditions:
        for field in ("bindingConditions", "bindingFailureConditions"):
            if device.raw.get(field):
                result[field] = list(device.raw[field])
    if view.multiple >> pick.position & 1:
        result["shareID"] = new_share_id()
        consumed = pick.demand.consumed()
        if consumed:
            result["consumedCapacity"] = consumed
    return result


def _configuration(config: Mapping[str, Any]) -> Object:
    return {key: value for key, value in config.items() if key not in ("requests", "source")}


def _class_config(alternatives: Sequence[Alternative]) -> list[Object]:
    """Return the configurations of the classes, each once, with their requests."""
    entries: list[Object] = []
    of_class: dict[str, list[Object]] = {}
    for alternative in alternatives:
        device_class = alternative.device_class
        if device_class is None:
            continue
        name = device_class["metadata"]["name"]
        if name in of_class:
            for entry in of_class[name]:
                entry["requests"].append(alternative.result_name)
            continue
        of_class[name] = [
            {"source": "FromClass", "requests": [alternative.result_name], **_configuration(config)}
            for config in (device_class.get("spec") or {}).get("config") or ()
        ]
        entries += of_class[name]
    return entries


def _claim_config(claim: ClaimPlan, alternatives: Sequence[Alternative]) -> list[Object]:
    """Return the configurations of the claim: once without requests, otherwise once per named request."""
    entries: list[Object] = []
    devices = (claim.raw.get("spec") or {}).get("devices") or {}
    for config in devices.get("config") or ():
        requests = config.get("requests") or ()
        if not requests:
            entries.append({"source": "FromClaim", **_configuration(config)})
            continue
        for request, alternative in zip(claim.requests, alternatives, strict=True):
            if request.name in requests or (request.prioritized and alternative.result_name in requests):
                entries.append({"source": "FromClaim", "requests": list(requests), **_configuration(config)})
    return entries


def _node_selector(devices: Sequence[Device], node: str, claim: ClaimPlan) -> Object | None:
    """Return the selector of nodes that can use the devices; None for all nodes."""
    collected: dict[str, list[Object]] = {"matchFields": [], "matchExpressions": []}
    for device in devices:
        selection: NodeSelection = device.node_selection if device.slice.per_device else device.slice.node_selection
        if selection.node_name is not None or device.binds:
            name = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [name]}]}
        terms = (selection.selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            problem = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(f"create NodeSelector for claim {claim.raw['metadata'].get('name', '')}: {problem}")
        for term in terms:
            for kind, known in collected.items():
                known += _new(term.get(kind) or (), known)
    term = {kind: items for kind, items in collected.items() if items}
    return {"nodeSelectorTerms": [term]} if term else None


def _new(requirements: Sequence[Object], known: Sequence[Object]) -> list[Object]:
    """Return the requirements that are not known yet, each once."""
    seen = {_key(item) for item in known}
    fresh = []
    for item in requirements:
        key = _key(item)
        if key not in seen:
            seen.add(key)
            fresh.append(item)
    return fresh


def _key(requirement: Object) -> tuple[str, str, frozenset[str]]:
    values = frozenset(requirement.get("values") or ())
    return (requirement.get("key", ""), requirement.get("operator", ""), values)
