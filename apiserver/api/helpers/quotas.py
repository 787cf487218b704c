"""The quota usage of an object, and the quotas that it belongs to. Pure functions from objects in hub form to amounts.

A quota names the limited resources: `pods`, `requests.cpu`, `count/widgets.example.com`,
`CLASS.deviceclass.resource.k8s.io/devices`. Facts: pkg/quota/v1/evaluator/core, k8s.io/apiserver/pkg/quota/v1/generic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from apiserver.api.helpers.pod_requests import Quantities, is_extended, pod_quantities, quantities
from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity

__all__ = ["changes_usage", "matches_scopes", "missing_resources", "select_measured", "usage"]

#: (group, plural)
Key = tuple[str, str]

_PODS: Final[Key] = ("", "pods")
_SERVICES: Final[Key] = ("", "services")
_VOLUME_CLAIMS: Final[Key] = ("", "persistentvolumeclaims")
_DEVICE_CLAIMS: Final[Key] = ("resource.k8s.io", "resourceclaims")
#: Kinds whose quota name precedes the general `count/` names.
_NAMED: Final = frozenset({"configmaps", "secrets", "services", "replicationcontrollers", "resourcequotas"})
_OF_PODS: Final = frozenset(
    {
        "pods", "count/pods", "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory",
        "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
    }
)  # fmt: skip
#: Resources that every container must set if a quota limits them.
_STATED_NAMES: Final = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
_OF_CLASS: Final = ".storageclass.storage.k8s.io/"
_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
#: Most devices allocated to a request for all of them.
_ALL_DEVICES: Final = 32
_ONE: Final = Quantity.of(1)


def _count_name(key: Key) -> str:
    group, plural = key
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def select_measured(key: Key, names: Iterable[str]) -> list[str]:
    """Return the limited resources that objects of a kind use."""
    return [name for name in names if _is_measured(key, name)]


def _is_measured(key: Key, name: str) -> bool:
    if name == _count_name(key) or (not key[0] and key[1] in _NAMED and name == key[1]):
        return True
    if key == _PODS:
        pages = name.startswith(("hugepages-", "requests.hugepages-"))
        return name in _OF_PODS or pages or (name.startswith("requests.") and "/" in name)
    if key == _SERVICES:
        return name in ("services.nodeports", "services.loadbalancers")
    if key == _VOLUME_CLAIMS:
        return name.rpartition(_OF_CLASS)[2] in ("persistentvolumeclaims", "requests.storage")
    return key == _DEVICE_CLAIMS and name.endswith(_DEVICES)


def usage(key: Key, obj: Json) -> Quantities:
    """Return the quota usage of an object."""
    found: Quantities = {_count_name(key): _ONE}
    if not key[0] and key[1] in _NAMED:
        found[key[1]] = _ONE
    if key == _PODS:
        if (obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            found |= _of_pod(obj["spec"])
    elif key == _SERVICES:
        found |= _of_service(obj["spec"])
    elif key == _VOLUME_CLAIMS:
        found |= _of_volume_claim(obj)
    elif key == _DEVICE_CLAIMS:
        found |= _of_device_claim(obj["spec"])
    return found


def changes_usage(key: Key, subresource: str, obj: Json, old: Json) -> bool:
    """Return whether an update of an object may change its usage."""
    if key == _PODS:
        return subresource == "resize" or (not subresource and _is_terminating(obj) != _is_terminating(old))
    return not subresource and key in (_SERVICES, _VOLUME_CLAIMS, _DEVICE_CLAIMS)


def _of_pod(spec: Json) -> Quantities:
    requests, limits = pod_quantities(spec, "requests"), pod_quantities(spec, "limits")
    for name, amount in quantities(spec.get("overhead")).items():
        requests[name] = requests[name].add(amount) if name in requests else amount
        if name in limits:
            limits[name] = limits[name].add(amount)
    return {"pods": _ONE, **_compute(requests, limits)}


def _compute(requests: Quantities, limits: Quantities) -> Quantities:
    found: Quantities = {}
    for name, amount in requests.items():
        if name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-"):
            found[name] = found[f"requests.{name}"] = amount
        elif is_extended(name):
            found[f"requests.{name}"] = amount
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    return found


def _of_service(spec: Json) -> Quantities:
    kind, ports = spec.get("type"), spec.get("ports") or ()
    balanced = kind == "LoadBalancer"
    node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(bool(port.get("nodePort")) for port in ports)
    return {"services.loadbalancers": Quantity.of(int(balanced)), "services.nodeports": Quantity.of(node_ports)}


def _of_volume_claim(obj: Json) -> Quantities:
    found = {"persistentvolumeclaims": _ONE}
    asked = quantities((obj["spec"].get("resources") or {}).get("requests")).get("storage")
    allocated = quantities((obj.get("status") or {}).get("allocatedResources")).get("storage")
    if asked is not None:
        most = allocated if allocated is not None and allocated.compare(asked) > 0 else asked
        found["requests.storage"] = most.round_up(0)[0]
    annotations = obj["metadata"].get("annotations") or {}
    name = annotations.get("volume.beta.kubernetes.io/storage-class") or obj["spec"].get("storageClassName")
    return {**found, **({f"{name}{_OF_CLASS}{what}": amount for what, amount in found.items()} if name else {})}


def _of_device_claim(spec: Json) -> Quantities:
    """Return devices by class; of alternative requests, the largest count of each class."""
    found: dict[str, int] = {}
    for request in (spec.get("devices") or {}).get("requests") or ():
        asked: dict[str, int] = {}
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each:
                name, number = each.get("deviceClassName", ""), _ALL_DEVICES
                if each.get("allocationMode", "ExactCount") == "ExactCount":
                    number = each.get("count") or 1
                asked[name] = max(asked.get(name, 0), number)
        for name, number in asked.items():
            found[name] = found.get(name, 0) + number
    return {f"{name}{_DEVICES}": Quantity.of(number) for name, number in found.items()}


# Scopes


def matches_scopes(key: Key, quota: Json, obj: Json) -> bool:
    """Return whether the scopes of a quota's specification match an object."""
    return all(_in_scope(key, scope, obj) for scope in scopes_of(quota))


def scopes_of(quota: Json) -> Iterator[Json]:
    for name in quota.get("scopes") or ():
        yield {"scopeName": name, "operator": "Exists"}
    yield from (quota.get("scopeSelector") or {}).get("matchExpressions") or ()


def matching_scopes(key: Key, scopes: Iterable[Json], obj: Json) -> list[Json]:
    """Return the scopes that match an object."""
    return [scope for scope in scopes if _in_scope(key, scope, obj)]


def _in_scope(key: Key, scope: Json, obj: Json) -> bool:
    name = scope.get("scopeName")
    if key == _VOLUME_CLAIMS and name == "VolumeAttributesClass":
        status = obj.get("status") or {}
        wanted = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
        names = (obj["spec"].get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), wanted)
        return _selects(scope, {each for each in names if each})
    if key != _PODS:
        return False
    spec = obj["spec"]
    if name in ("Terminating", "NotTerminating"):
        return _is_terminating(obj) is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        best: bool = (obj.get("status") or {}).get("qosClass") == "BestEffort"
        return best is (name == "BestEffort")
    if name == "PriorityClass":
        return _selects(scope, {spec["priorityClassName"]} if spec.get("priorityClassName") else set())
    return name == "CrossNamespacePodAffinity" and any(map(_is_elsewhere, _affinity_terms(spec)))


def _is_terminating(pod: Json) -> bool:
    """Return whether a pod is terminating: its run time is limited by a deadline."""
    seconds: int | None = pod["spec"].get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _selects(scope: Json, names: set[str]) -> bool:
    operator, values = scope.get("operator"), set(scope.get("values") or ())
    if operator == "Exists":
        return bool(names)
    if operator == "DoesNotExist":
        return not names
    return bool(names & values) if operator == "In" else not names & values


def _affinity_terms(spec: Json) -> Iterator[Json]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind) or {}
        yield from part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in part.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def _is_elsewhere(term: Json) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


def missing_resources(pod: Json, limited: Iterable[str]) -> dict[str, list[str]]:
    """Return the containers that lack a request or limit required by a quota, by resource."""
    spec = pod["spec"]
    found: dict[str, list[str]] = {}
    own = spec.get("resources") or {}
    if own.get("requests") or own.get("limits"):
        return {}
    wanted = set(limited)
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    for name in _STATED_NAMES:
        if name in wanted:
            silent = [container["name"] for container in containers if name not in _stated_resources(container)]
            if silent:
                found[name] = sorted(set(silent))
    return found


def _stated_resources(container: Json) -> Quantities:
    resources = container.get("resources") or {}
    return _compute(quantities(resources.get("requests")), quantities(resources.get("limits")))
