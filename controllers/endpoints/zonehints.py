"""Topology-aware hints: assigns endpoints to zones in proportion to the zones' CPUs on ready nodes.

Services enable them by annotation. Endpoints are assigned to their own zone where possible; surplus endpoints go to
zones with too few. If the overload of some zone would exceed a fifth there are no hints, and an event names the reason.
Facts: upstream's staging/src/k8s.io/endpointslice/topologycache.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from controllers.endpoints.slices import Plan, set_hints
from controllers.runtime.conditions import condition_of
from controllers.runtime.events import EventType

ZONE: Final = "topology.kubernetes.io/zone"
_CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
#: Maximum overload of an endpoint, relative to its share.
_OVERLOAD: Final = 0.2
#: Type, reason and message of an event.
Event = tuple[EventType, str, str]


class _NoHintsError(Exception):
    """Hints are impossible; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class _Allocation:
    """The minimum, maximum and desired numbers of endpoints of a zone."""

    least: int
    most: int
    desired: float


def shares_of(nodes: Iterable[Json]) -> dict[str, float]:
    """Return each zone's share of CPUs; empty if a ready node lacks data, or with a single zone."""
    processors: Counter[str] = Counter()
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        if any(name in labels for name in _CONTROL_PLANE) or not is_ready(node):
            continue
        zone = labels.get(ZONE)
        thousandths = Quantity.parse(str((node["status"].get("allocatable") or {}).get("cpu", "0"))).value(-3)
        if not zone or not thousandths:
            return {}
        processors[zone] += thousandths
    total = processors.total()
    return {zone: number / total for zone, number in processors.items()} if len(processors) > 1 else {}


def is_ready(node: Json) -> bool:
    ready = condition_of(node, "Ready")
    return ready is not None and ready["status"] == "True"


class ZoneHints:
    """The services with hints: numbers of assigned endpoints per zone, by service and family."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, Counter[str]]] = {}
        self._enabled: set[str] = set()

    def remove_service(self, service: str) -> None:
        """Drop a deleted service."""
        self._given.pop(service, None)
        self._enabled.discard(service)

    def find_overloaded(self, nodes: Iterable[Json]) -> list[str]:
        """Return the services with too few endpoints in some zone for these nodes."""
        if not self._given:
            return []
        shares = shares_of(nodes)
        return [
            service
            for service, families in self._given.items()
            if any(_is_overloaded(counts, shares) for counts in families.values())
        ]

    def disable(self, service: str, family: str) -> Event | None:
        """Drop a service without the annotation. Return an event if it had hints."""
        event = service in self._enabled
        self._drop(service, family)
        return _disabled_event("Topology Aware Hints has been disabled", family) if event else None

    def enable(
        self, service: str, family: str, plan: Plan, existing: list[Json], shares: Mapping[str, float]
    ) -> Event | None:
        """Set the hints in a plan's slices, and plan updates of existing slices. Return an event, if any."""
        try:
            counts = _distribute(plan, existing, shares)
        except _NoHintsError as error:
            self._drop(service, family)
            set_hints(plan, existing, "")
            return _disabled_event(str(error), family)
        self._given.setdefault(service, {})[family] = counts
        if service in self._enabled:
            return None
        self._enabled.add(service)
        return "Normal", "TopologyAwareHintsEnabled", f"Topology Aware Hints has been enabled, addressType: {family}"

    def _drop(self, service: str, family: str) -> None:
        families = self._given.get(service, {})
        families.pop(family, None)
        if not families:
            self._given.pop(service, None)
        self._enabled.discard(service)


def _disabled_event(reason: str, family: str) -> Event:
    return "Warning", "TopologyAwareHintsDisabled", f"{reason}, addressType: {family}"


def _distribute(plan: Plan, existing: list[Json], shares: Mapping[str, float]) -> Counter[str]:
    """Assign the endpoints. Return the number of endpoints per zone. Raise _NoHintsError."""
    planned = {each["metadata"].get("name") for each in (*plan.update, *plan.delete)}
    left = [each for each in existing if each["metadata"]["name"] not in planned]
    number = sum(1 for each in (*plan.create, *plan.update, *left) for _ in _ready(each))
    allocations = _allocations(number, shares)
    counts: Counter[str] = Counter()
    for each in left:
        hinted = _count_hints(each)
        if hinted is not None and all(
            zone in allocations and counts[zone] + more <= allocations[zone].most for zone, more in hinted.items()
        ):
            counts += hinted
        else:
            plan.update.append(each)
    for slices in (plan.create, plan.update):
        for place, each in enumerate(slices):
            slices[place] = {**each, "endpoints": [dict(endpoint) for endpoint in each.get("endpoints") or ()]}
    endpoints = [endpoint for each in (*plan.create, *plan.update) for endpoint in _ready(each)]
    for endpoint in endpoints:
        if not endpoint.get("zone"):
            raise _NoHintsError("One or more endpoints do not have a zone specified")
        counts[endpoint["zone"]] += 1
        _set_hint(endpoint, endpoint["zone"])
    giving, receiving = _plan_moves(allocations, counts)
    for endpoint in endpoints:
        zone = endpoint["zone"]
        if giving[zone] > 0:
            to = min(+receiving)
            _set_hint(endpoint, to)
            giving[zone] -= 1
            receiving[to] -= 1
            counts[zone] -= 1
            counts[to] += 1
    return counts


def _set_hint(endpoint: Json, zone: str) -> None:
    endpoint["hints"] = {"forZones": [{"name": zone}]}


def _ready(each: Json) -> Iterator[Json]:
    return (one for one in each.get("endpoints") or () if (one.get("conditions") or {}).get("ready"))


def _count_hints(each: Json) -> Counter[str] | None:
    """Return the number of hints per zone in a slice; None if an endpoint lacks hints."""
    found: Counter[str] = Counter()
    for endpoint in _ready(each):
        zones = (endpoint.get("hints") or {}).get("forZones")
        if not zones:
            return None
        found.update(zone["name"] for zone in zones)
    return found


def _allocations(number: int, shares: Mapping[str, float]) -> dict[str, _Allocation]:
    if not shares:
        raise _NoHintsError("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")
    amounts = f"({number} endpoints, {len(shares)} zones)"
    if len(shares) > number:
        raise _NoHintsError(f"Insufficient number of endpoints {amounts}")
    least = {zone: math.ceil(share * number * (1 / (1 + _OVERLOAD))) for zone, share in shares.items()}
    free = number - sum(least.values())
    if free < 0:
        raise _NoHintsError(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold " + amounts
        )
    return {
        zone: _Allocation(least[zone], least[zone] + free, max(share * number, least[zone]))
        for zone, share in shares.items()
    }


def _plan_moves(allocations: Mapping[str, _Allocation], counts: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of endpoints given and received by zones; both have the same total."""
    too_many = {zone: counts[zone] - each.desired for zone, each in allocations.items() if counts[zone] > each.desired}
    too_few = {zone: each.desired - counts[zone] for zone, each in allocations.items() if counts[zone] < each.desired}
    giving: Counter[str] = Counter()
    receiving: Counter[str] = Counter()
    while too_many and too_few:
        giver, getter = max(sorted(too_many), key=too_many.__getitem__), max(sorted(too_few), key=too_few.__getitem__)
        amounts = too_many[giver], too_few[getter]
        # The remainder is less than one endpoint.
        if max(amounts) < 1 or min(amounts) < 0.5:
            break
        giving[giver] += 1
        receiving[getter] += 1
        too_many[giver] -= 1
        too_few[getter] -= 1
    return giving, receiving


def _is_overloaded(counts: Counter[str], shares: Mapping[str, float]) -> bool:
    if not counts:
        return False
    total = sum(counts.values())
    return not shares or any(
        zone not in counts or counts[zone] < math.ceil(total * share * (1 / (1 + _OVERLOAD)))
        for zone, share in shares.items()
    )
