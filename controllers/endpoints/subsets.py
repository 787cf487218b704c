"""The subsets of Endpoints: addresses with the same ports and readiness per port share a subset. Pure.

Ports and subsets are ordered by upstream's hashes. Facts: upstream's pkg/api/v1/endpoints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.types.core.endpoints import EndpointPort, EndpointSubset
from controllers.endpoints.services import addresses, has_endpoint, hostname, ports, target
from controllers.workloads.common.pod_states import is_ready
from controllers.workloads.common.templates import dump

#: Maximum number of addresses in Endpoints.
CAPACITY: Final = 1000
Address = tuple[str, str]
#: Parameters of 128-bit FNV-1a.
_BASIS: Final = 0x6C62272E07BB014262B821756295C58D
_PRIME: Final = (1 << 88) + 0x13B


def subsets_of(service: Json, pods: Iterable[Json]) -> list[Json]:
    """Return the subsets of a service with the given pods."""
    spec = service["spec"]
    unready_too = bool(spec.get("publishNotReadyAddresses"))
    found = []
    for pod in pods:
        address = _address(service, pod) if has_endpoint(pod, terminating=unready_too) else None
        if address is None:
            continue
        field = "addresses" if unready_too or is_ready(pod) else "notReadyAddresses"
        if not spec.get("ports"):
            if spec.get("clusterIP") == "None":
                found.append({field: [address]})
            continue
        found += [{field: [address], "ports": [_port(port, number)]} for port, number in ports(service, pod)]
    return repack(found)


def _address(service: Json, pod: Json) -> Json | None:
    spec = service["spec"]
    families, cluster = spec.get("ipFamilies") or (), spec.get("clusterIP") or ""
    if families:
        ipv6 = families[0] == "IPv6"
    else:
        ipv6 = ":" in (cluster if cluster not in ("", "None") else pod["status"].get("podIP", ""))
    found = addresses(pod, ipv6=ipv6)
    if not found:
        return None
    named = {"hostname": hostname(service, pod), "nodeName": pod["spec"].get("nodeName")}
    return {"ip": found[0], **{name: value for name, value in named.items() if value}, "targetRef": target(pod)}


def _port(port: Json, number: int) -> Json:
    made = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
    return {name: value for name, value in (made | {"appProtocol": port.get("appProtocol")}).items() if value}


def repack(subsets: Iterable[Json]) -> list[Json]:
    """Merge subsets into as few as possible, in a canonical order."""
    known: dict[Address, Json] = {}
    ready_at: dict[tuple[Any, ...], dict[Address, bool]] = {}
    for subset in subsets:
        given: list[Json] = subset.get("ports") or [{}]
        for port in given:
            states = ready_at.setdefault(tuple(sorted(port.items())), {})
            for field, ready in (("addresses", True), ("notReadyAddresses", False)):
                for address in subset.get(field) or ():
                    key = (address["ip"], (address.get("targetRef") or {}).get("uid", ""))
                    known.setdefault(key, address)
                    states[key] = states.get(key, True) and ready
    ports_by_states: dict[tuple[Any, ...], list[Json]] = {}
    for port_items, states in ready_at.items():
        same = ports_by_states.setdefault(tuple(sorted(states.items())), [])
        if port_items:
            same.append(dict(port_items))
    made = [_subset(states, same, known) for states, same in ports_by_states.items()]
    return made if len(made) < 2 else sorted(made, key=lambda subset: _hash(dump(EndpointSubset, subset)))


def _subset(states: tuple[Any, ...], same: list[Json], known: dict[Address, Json]) -> Json:
    made = {
        "addresses": [known[key] for key, ready in states if ready],
        "notReadyAddresses": [known[key] for key, ready in states if not ready],
        "ports": sorted(same, key=_port_hash),
    }
    return {name: value for name, value in made.items() if value}


def _port_hash(port: Json) -> int:
    return _hash_of_port(dump(EndpointPort, port))


@lru_cache(maxsize=256)
def _hash_of_port(text: str) -> int:
    return _hash(text)


def _hash(text: str) -> int:
    state = _BASIS
    for byte in text.encode():
        state = ((state ^ byte) * _PRIME) & ((1 << 128) - 1)
    return state


def count(subsets: Iterable[Json]) -> int:
    return sum(len(each.get("addresses") or ()) + len(each.get("notReadyAddresses") or ()) for each in subsets)


def truncate(subsets: list[Json]) -> list[Json]:
    """Limit the addresses to the capacity, each subset to its share; ready addresses come first."""
    ready = sum(len(each.get("addresses") or ()) for each in subsets)
    field, total, room = "notReadyAddresses", count(subsets) - ready, CAPACITY - ready
    if ready > CAPACITY:
        field, total, room = "addresses", ready, CAPACITY
    made, left = [], room
    for each in subsets:
        of_subset = each.get(field) or []
        share = min(math.ceil(len(of_subset) / total * room), left)
        kept = of_subset[:share]
        left -= len(kept)
        rest = {"ports": each.get("ports"), "addresses": each.get("addresses")} | {field: kept}
        made.append({name: value for name, value in rest.items() if value})
    return made
