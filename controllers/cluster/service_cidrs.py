"""The ServiceCIDR controller: adds the finalizer and the Ready condition to ranges of service addresses.

A deleted range stays until no service address needs it. Facts: upstream's pkg/controller/servicecidrs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import IP_ADDRESSES, SERVICE_CIDRS
from controllers.runtime.times import go_time, parse_time

NAME: Final = "service-cidr-controller"
FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
#: Minimum lifetime of a deleted range: other servers may still allocate from it.
GRACE: Final = timedelta(seconds=10)
_OWNER: Final = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io")
_READY: Final = ("True", "", "Kubernetes Service CIDR is ready")
_TERMINATING: Final = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def build(client: Client, informers: Informers, options: Options) -> ServiceRanges:
    """Build the component for the manager."""
    return ServiceRanges(client, informers)


class ServiceRanges(ControllerComponent):
    """The ServiceCIDR controller. Keys are names of ServiceCIDRs; a change of one enqueues all."""

    name = NAME

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client.for_controller("service-cidrs-controller")
        self._ranges, self._addresses = informers.of(SERVICE_CIDRS), informers.of(IP_ADDRESSES)
        self._controller = Controller(NAME, self.reconcile, queue="ipaddresses")
        self._controller.follow(self._ranges, lambda _: list(self._ranges.objects))
        self._controller.follow(self._addresses, self._deleted_ranges_of)

    def _deleted_ranges_of(self, address: Json) -> list[str]:
        """Return the deleted ranges that an address may block."""
        return [
            name
            for name in self._ranges.objects
            if self._is_deleted(name) and _can_contain(self._ranges.get(name), address)
        ]

    def _is_deleted(self, name: str) -> bool:
        cidr = self._ranges.get(name)
        return cidr is not None and "deletionTimestamp" in cidr["metadata"]

    async def reconcile(self, name: str) -> timedelta | None:
        cidr = self._ranges.get(name)
        if cidr is None:
            return None
        try:
            if self._is_deleted(name):
                return await self._release(cidr)
            if FINALIZER not in (cidr["metadata"].get("finalizers") or ()):
                await self._client.patch(SERVICE_CIDRS, name, {"metadata": {"finalizers": [FINALIZER]}})
            await self._set_ready(cidr, _READY)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
        return None

    async def _release(self, cidr: Json) -> timedelta | None:
        """Remove the finalizer of a deleted range if possible. Return the delay until the next try."""
        metadata = cidr["metadata"]
        if FINALIZER not in (metadata.get("finalizers") or ()):
            return None
        if self._is_needed(cidr):
            await self._set_ready(cidr, _TERMINATING)
            return None
        left = parse_time(metadata["deletionTimestamp"]) + GRACE - now()
        if left > timedelta():
            return left
        body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        await self._client.patch(SERVICE_CIDRS, metadata["name"], body)
        return None

    def _is_needed(self, cidr: Json) -> bool:
        """Return whether some service address is in no other range."""
        others = [each for each in self._ranges.objects.values() if each is not cidr]
        covering = [network for each in others for network in _networks(each)]
        if all(any(_is_within(own, other) for other in covering) for own in _networks(cidr)):
            return False
        return any(
            not any(_can_contain(other, address) for other in others)
            for address in self._addresses.objects.values()
            if _can_contain(cidr, address)
        )

    async def _set_ready(self, cidr: Json, state: tuple[str, str, str]) -> None:
        status, reason, message = state
        condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
        for known in (cidr.get("status") or {}).get("conditions") or ():
            if known["type"] == "Ready" and all(known.get(name, "") == value for name, value in condition.items()):
                return
        body = {
            "apiVersion": SERVICE_CIDRS.api_version,
            "kind": SERVICE_CIDRS.kind,
            "metadata": {"name": cidr["metadata"]["name"]},
            "status": {"conditions": [{**condition, "lastTransitionTime": go_time(now())}]},
        }
        await self._client.patch(
            SERVICE_CIDRS, cidr["metadata"]["name"], body, type="apply", subresource="status", field_manager=NAME,
            force=True,
        )  # fmt: skip


def _networks(cidr: Json) -> Iterator[Network]:
    return map(ipaddress.ip_network, cidr["spec"].get("cidrs") or ())


def _is_within(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _can_contain(cidr: Json | None, address: Json) -> bool:
    """Return whether a service's address is usable in a range."""
    label, owner = _OWNER
    if cidr is None or (address["metadata"].get("labels") or {}).get(label) != owner:
        return False
    return _is_usable(ipaddress.ip_address(address["metadata"]["name"]), _networks(cidr))


def _is_usable(address: Address, networks: Iterable[Network]) -> bool:
    """Return whether an address is usable: not a range's first address, nor the last one of IPv4."""
    return any(
        address in network
        and address != network.network_address
        and (network.version == 6 or address != network.broadcast_address)
        for network in networks
    )
