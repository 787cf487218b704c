"""The resource requests of a pod in whole numbers: cpu in millicores, everything else in units, both rounded up.

A pod's request is the larger of two amounts: the sum of containers and sidecars, and the peak of the init containers
plus the sidecars started before them. Node resources that its claims use are added. Pod-level requests replace cpu,
memory and huge pages; the overhead is added last. A container of a running pod counts its allocated or actuated
resources if they are larger. Facts: Kubernetes 1.36, component-helpers/resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from apiserver.api.objects import Json
from apiserver.api.values.bounded_cache import remembered
from apiserver.api.values.quantity import Quantity

Amounts = dict[str, int]

#: The requests that scoring assumes for a container without its own.
ASSUMED: Mapping[str, int] = {"cpu": 100, "memory": 200 * 1024 * 1024}
#: The pod status field with the node resources that its claims use.
CLAIM_STATUSES = "nodeAllocatableResourceClaimStatuses"
_MILLI = -3


@remembered(4096)
def _parse_amount(text: str, milli: bool) -> int:
    return Quantity.parse(text).value(_MILLI if milli else 0)


def amount(resource: str, text: str | float) -> int:
    """Return a quantity of a resource as a whole number."""
    return _parse_amount(str(text), resource == "cpu")


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    return {name: amount(name, text) for name, text in quantities.items()} if quantities else {}


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: Amounts, other: Mapping[str, int]) -> None:
    for name, value in other.items():
        if value > total.get(name, 0) or name not in total:
            total[name] = value


class _Containers:
    """The requests of single containers."""

    def __init__(self, pod: Json, assumed: Mapping[str, int]) -> None:
        self._assumed = assumed
        status = pod.get("status") or {}
        entries = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
        self._running = {entry["name"]: entry for entry in entries if entry.get("resources")}
        conditions = status.get("conditions") or ()
        self._infeasible = any(c["type"] == "PodResizePending" and c.get("reason") == "Infeasible" for c in conditions)

    def of(self, container: Json, sidecar_or_regular: bool) -> Amounts:
        resources = container.get("resources")
        requests = amounts(resources.get("requests")) if resources else {}
        running = self._running.get(container["name"]) if sidecar_or_regular and self._running else None
        if running is not None:
            spec, requests = requests, amounts(running["resources"].get("requests"))
            _raise_to(requests, amounts(running.get("allocatedResources")))
            if not self._infeasible:
                _raise_to(requests, spec)
        for name, value in self._assumed.items():
            requests.setdefault(name, value)
        return requests


_NOTHING: Mapping[str, Any] = {}


class Counts(NamedTuple):
    """The parts of a request with a feature gate of their own."""

    pod_level: bool = True
    """Pod-level requests (PodLevelResources)."""
    claims: bool = True
    """Node resources that its claims use (DRANodeAllocatableResources)."""


EVERYTHING = Counts()


def pod_requests(pod: Json, assumed: Mapping[str, int] = _NOTHING, counts: Counts = EVERYTHING) -> Amounts:
    """Return the pod's request. `assumed` replaces missing container requests."""
    spec = pod["spec"]
    containers = _Containers(pod, assumed)
    total: Amounts = {}
    for container in spec["containers"]:
        _add(total, containers.of(container, True))
    if init := spec.get("initContainers"):
        _raise_to(total, _peak(init, containers, total))
    if counts.claims:
        for taken in (pod.get("status") or _NOTHING).get(CLAIM_STATUSES) or ():
            _add(total, amounts(taken.get("resources")))
    if counts.pod_level and (resources := spec.get("resources")):
        for name, quantity in (resources.get("requests") or {}).items():
            if name in ("cpu", "memory") or name.startswith("hugepages-"):
                total[name] = amount(name, quantity)
    if overhead := spec.get("overhead"):
        _add(total, amounts(overhead))
    return total


def _peak(init: list[Json], containers: _Containers, total: Amounts) -> Amounts:
    """Return the peak use while init containers run. Sidecars are added to the total on the way."""
    peak: Amounts = {}
    sidecars: Amounts = {}
    for container in init:
        sidecar = container.get("restartPolicy") == "Always"
        requests = containers.of(container, sidecar)
        if sidecar:
            _add(total, requests)
            _add(sidecars, requests)
            _raise_to(peak, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(peak, requests)
    return peak


def is_extended(name: str) -> bool:
    """Return whether a resource is extended: a qualified name outside of kubernetes.io that is not a quota's name."""
    prefix, slash, _ = name.partition("/")
    return bool(slash) and not ("kubernetes.io" in prefix or prefix.startswith("requests."))


# The same as exact amounts, from the specification only: limits and quotas are compared with them.

Quantities = dict[str, Quantity]


def quantities(listed: Mapping[str, Any] | None) -> Quantities:
    return {name: Quantity.parse(str(text)) for name, text in listed.items()} if listed else {}


def pod_quantities(spec: Json, part: str, *, pod_level: bool = True) -> Quantities:
    """Return the requests or limits (`part`) of a pod, without its overhead."""
    total: Quantities = {}
    for container in spec.get("containers") or ():
        _sum(total, quantities((container.get("resources") or {}).get(part)))
    peak: Quantities = {}
    sidecars: Quantities = {}
    for container in spec.get("initContainers") or ():
        own = quantities((container.get("resources") or {}).get(part))
        if container.get("restartPolicy") == "Always":
            _sum(total, own)
            _sum(sidecars, own)
            own = sidecars
        else:
            _sum(own, sidecars)
        _most(peak, own)
    _most(total, peak)
    if pod_level:
        for name, amount_ in quantities((spec.get("resources") or {}).get(part)).items():
            if name in ("cpu", "memory") or name.startswith("hugepages-"):
                total[name] = amount_
    return total


def _sum(total: Quantities, more: Quantities) -> None:
    for name, amount_ in more.items():
        total[name] = total[name].add(amount_) if name in total else amount_


def _most(total: Quantities, other: Quantities) -> None:
    for name, amount_ in other.items():
        if name not in total or amount_.compare(total[name]) > 0:
            total[name] = amount_
