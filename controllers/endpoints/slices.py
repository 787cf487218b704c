"""Plans the EndpointSlices of a service. Pure.

Endpoints with the same ports share slices. Existing endpoints stay in place, new ones fill free places, and as few
slices as possible change. A service without endpoints has one empty slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver.api.objects import Json
from controllers.endpoints.services import HEADLESS, addresses, has_address, hostname, ports, target
from controllers.runtime.kinds import ENDPOINT_SLICES, SERVICES
from controllers.workloads.common.pod_states import is_deleted, is_ready
from controllers.workloads.common.references import controller_reference
from controllers.workloads.common.templates import fnv1a_128, pod_prefix

SERVICE: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_RESERVED: Final = frozenset({SERVICE, MANAGED_BY, HEADLESS})
#: Fields of an endpoint outside its key that require an update.
_COMPARED: Final = ("nodeName", "zone", "conditions", "targetRef")

#: Endpoints by key (`key_of_endpoint`).
Endpoints = dict[tuple[Any, ...], Json]
PortsKey = tuple[tuple[Any, ...], ...]


@dataclass(slots=True)
class Plan:
    """The slices to write. Slices to create have no name. `added` and `removed` count endpoints."""

    create: list[Json] = field(default_factory=list)
    update: list[Json] = field(default_factory=list)
    delete: list[Json] = field(default_factory=list)
    added: int = 0
    removed: int = 0

    def add(self, other: Plan) -> None:
        self.create += other.create
        self.update += other.update
        self.delete += other.delete
        self.added += other.added
        self.removed += other.removed

    def recycle(self) -> None:
        """Turn pairs of creation and deletion into updates."""
        left = []
        for old in self.delete:
            if self.create:
                new = self.create.pop()
                self.update.append({**new, "metadata": {**new["metadata"], "name": old["metadata"]["name"]}})
            else:
                left.append(old)
        self.delete = left


def address_types(service: Json) -> list[str]:
    """Return the address families of a service's endpoints."""
    families, address = service["spec"].get("ipFamilies") or (), service["spec"].get("clusterIP")
    if families:
        return list(dict.fromkeys(families))
    if address and address != "None":
        return ["IPv6" if ":" in address else "IPv4"]
    return ["IPv4", "IPv6"]


def in_stored_order(slice_ports: list[Json]) -> list[Json]:
    """Sort ports as upstream: by a hash of their Go value (k8s.io/endpointslice/util, portsInOrder)."""
    return sorted(slice_ports, key=_port_hash) if len(slice_ports) > 1 else slice_ports


def _port_hash(port: Json) -> int:
    fields = (("Name", "string", "name"), ("Protocol", "v1.Protocol", "protocol"), ("Port", "int32", "port"),
              ("AppProtocol", "string", "appProtocol"))  # fmt: skip
    printed = " ".join(f"{name}:(*{kind}){port.get(key, '<nil>')}" for name, kind, key in fields)
    return fnv1a_128(f"(v1.EndpointPort){{{printed}}}".encode())


def key_of_ports(slice_ports: Iterable[Json] | None) -> PortsKey:
    """Return a key of ports that does not depend on their order."""
    names = ("name", "port", "protocol", "appProtocol")
    return tuple(sorted(tuple(str(port.get(name) or "") for name in names) for port in slice_ports or ()))


def key_of_endpoint(endpoint: Json) -> tuple[Any, ...]:
    """Return the key of an endpoint: addresses, hostname and target."""
    reference = endpoint.get("targetRef") or {}
    where = tuple(sorted(endpoint["addresses"])), endpoint.get("hostname") or ""
    return (*where, reference.get("namespace"), reference.get("name"))


def endpoint_of(service: Json, pod: Json, node: Json | None, family: str) -> Json | None:
    """Build the endpoint of a pod; None without an address of the family."""
    found = addresses(pod, ipv6=family == "IPv6")
    if not found:
        return None
    serving, terminating = is_ready(pod), is_deleted(pod)
    ready = bool(service["spec"].get("publishNotReadyAddresses")) or (serving and not terminating)
    endpoint: Json = {
        "addresses": found,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": target(pod),
    }
    zone = ((node or {"metadata": {}})["metadata"].get("labels") or {}).get("topology.kubernetes.io/zone")
    named = {"hostname": hostname(service, pod), "nodeName": pod["spec"].get("nodeName"), "zone": zone}
    return endpoint | {name: value for name, value in named.items() if value}


def ports_of(service: Json, pod: Json) -> list[Json]:
    found = [
        {
            "name": port.get("name", ""),
            "port": number,
            "protocol": port.get("protocol", "TCP"),
            **({"appProtocol": port["appProtocol"]} if port.get("appProtocol") else {}),
        }
        for port, number in ports(service, pod)
    ]
    return in_stored_order(found)


def labels_of(service: Json, manager: str) -> dict[str, str]:
    """Return the labels of a service's slices: the service's own ones and the manager."""
    own = {key: value for key, value in (service["metadata"].get("labels") or {}).items() if key not in _RESERVED}
    headless = {} if has_address(service) else {HEADLESS: ""}
    return {**own, **headless, SERVICE: service["metadata"]["name"], MANAGED_BY: manager}


def new_slice(service: Json, slice_ports: list[Json], family: str, manager: str) -> Json:
    metadata = service["metadata"]
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "generateName": pod_prefix(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": labels_of(service, manager),
            "ownerReferences": [controller_reference(service, SERVICES)],
        },
        "addressType": family,
        "ports": slice_ports,
        "endpoints": [],
    }


def is_owned(existing: Json, service: Json) -> bool:
    uid = service["metadata"]["uid"]
    owners = existing["metadata"].get("ownerReferences") or ()
    return any((each["uid"], each["kind"], each["apiVersion"]) == (uid, "Service", "v1") for each in owners)


def plan_family(
    service: Json,
    family: str,
    desired: Mapping[PortsKey, tuple[list[Json], Endpoints]],
    existing: list[Json],
    *,
    manager: str,
    most: int,
) -> Plan:
    """Plan the slices of one address family.

    `desired` has the endpoints by their ports. A slice has at most `most` endpoints.
    """
    plan = Plan(delete=[each for each in existing if not is_owned(each, service)])
    groups: dict[PortsKey, list[Json]] = {}
    for each in existing:
        if is_owned(each, service):
            groups.setdefault(key_of_ports(each.get("ports")), []).append(each)
    for key, (slice_ports, endpoints) in desired.items():
        fresh = new_slice(service, slice_ports, family, manager)
        plan.add(_plan_ports(fresh, groups.pop(key, []), endpoints, most))
    for left in groups.values():
        plan.delete += left
    if len(plan.delete) == len(existing) and not plan.create:
        _ensure_one(plan, new_slice(service, [], family, manager))
    return plan


def _ensure_one(plan: Plan, empty: Json) -> None:
    """Keep or create an empty slice, because a service always has one."""
    if len(plan.delete) == 1 and _is_same(plan.delete[0], empty):
        plan.delete = []
    else:
        plan.create.append(empty)


def _is_same(existing: Json, empty: Json) -> bool:
    def rest(each: Json) -> tuple[Any, ...]:
        metadata = each["metadata"]
        owners = [(owner["uid"], owner["name"]) for owner in metadata.get("ownerReferences") or ()]
        return metadata.get("labels") or {}, owners, each["addressType"], each.get("ports") or []

    return rest(existing) == rest(empty) and not existing.get("endpoints")


def _plan_ports(fresh: Json, existing: list[Json], endpoints: Endpoints, most: int) -> Plan:
    """Plan the slices of endpoints with the same ports. `fresh` is a template for new slices."""
    plan, desired = Plan(), dict(endpoints)
    unchanged: list[Json] = []
    labels = fresh["metadata"]["labels"]
    for each in existing:
        held = [desired.pop(key) for one in each.get("endpoints") or () if (key := key_of_endpoint(one)) in desired]
        before = each.get("endpoints") or []
        plan.removed += len(before) - len(held)
        if (
            len(held) == len(before)
            and all(map(is_same_endpoint, held, before))
            and each["metadata"]["labels"] == labels
        ):
            unchanged.append(each)
        elif not held and before:
            plan.delete.append(each)
        else:
            plan.update.append(_with(each, held, labels))
    plan.added = len(desired)
    for each in sorted(plan.update, key=lambda each: -len(each["endpoints"])):
        _fill(each, desired, most)
    while desired:
        room = [each for each in unchanged if len(each.get("endpoints") or ()) + len(desired) <= most]
        if room and len(desired) < most:
            fullest = max(room, key=lambda each: len(each.get("endpoints") or ()))
            unchanged.remove(fullest)
            filled = _with(fullest, list(fullest.get("endpoints") or ()), labels)
            plan.update.append(filled)
        else:
            filled = {**fresh, "endpoints": []}
            plan.create.append(filled)
        _fill(filled, desired, most)
    return plan


def is_same_endpoint(one: Json, other: Json) -> bool:
    """Return whether two endpoints with the same key need no update."""
    return all((one.get(name) or None) == (other.get(name) or None) for name in _COMPARED)


def _with(existing: Json, endpoints: list[Json], labels: Json) -> Json:
    return {**existing, "metadata": {**existing["metadata"], "labels": labels}, "endpoints": endpoints}


def _fill(each: Json, desired: Endpoints, most: int) -> None:
    """Move endpoints from `desired` into a slice until it is full."""
    while desired and len(each["endpoints"]) < most:
        each["endpoints"].append(desired.pop(next(iter(desired))))


def set_hints(plan: Plan, existing: list[Json], distribution: str) -> None:
    """Set the endpoints' hints (zone or node) for a service's `trafficDistribution`."""
    planned = {each["metadata"].get("name") for each in (*plan.update, *plan.delete)}
    left = [each for each in existing if each["metadata"]["name"] not in planned]
    for slices in (plan.create, plan.update, left):
        for number, each in enumerate(slices):
            before = each.get("endpoints") or []
            endpoints = [_with_hints(endpoint, distribution) for endpoint in before]
            if slices is left and endpoints != before:
                plan.update.append({**each, "endpoints": endpoints})
            elif slices is not left:
                slices[number] = {**each, "endpoints": endpoints}


def _with_hints(endpoint: Json, distribution: str) -> Json:
    rest = {name: value for name, value in endpoint.items() if name != "hints"}
    if not distribution:
        return rest
    if not endpoint.get("conditions", {}).get("ready"):
        return endpoint
    hints: Json = {}
    if endpoint.get("zone"):
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if endpoint.get("nodeName") and distribution == "PreferSameNode":
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return {**rest, **({"hints": hints} if hints else {})}
