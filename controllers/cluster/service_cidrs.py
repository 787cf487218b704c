"""ServiceCIDRs, the ranges of services' addresses: each gets a finalizer and is marked ready, and a deleted one stays
until no service's address needs it. Facts: upstream's pkg/controller/servicecidrs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from apiserver.runtime.clock import now
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import IP_ADDRESSES, SERVICE_CIDRS, Json
from controllers.runtime.times import go_time, parse_time

NAME: Final = "service-cidr-controller"
FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
#: A deleted range stays for this long at least: other servers may not know yet that no address is to be taken from it.
GRACE: Final = timedelta(seconds=10)
_OWNER: Final = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io")
_READY: Final = ("True", "", "Kubernetes Service CIDR is ready")
_STAYS: Final = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def build(client: Client, informers: Informers, options: Options) -> ServiceRanges:
    """The component, for the manager."""
    return ServiceRanges(client, informers)


class ServiceRanges(ControllerComponent):
    """The component. Keys are names of ServiceCIDRs. There are few of them: a change of one has all looked at."""

    name = NAME

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client.named("service-cidrs-controller")
        self._ranges, self._addresses = informers.of(SERVICE_CIDRS), informers.of(IP_ADDRESSES)
        self._controller = Controller(NAME, self.reconcile, queue="ipaddresses")
        self._controller.follow(self._ranges, lambda _: list(self._ranges.objects))
        self._controller.follow(self._addresses, self._leaving)

    def _leaving(self, address: Json) -> list[str]:
        """The deleted ranges that an address may keep."""
        return [
            name for name in self._ranges.objects if self._deleted(name) and _holds(self._ranges.get(name), address)
        ]

    def _deleted(self, name: str) -> bool:
        found = self._ranges.get(name)
        return found is not None and "deletionTimestamp" in found["metadata"]

    async def reconcile(self, name: str) -> timedelta | None:
        found = self._ranges.get(name)
        if found is None:
            return None
        try:
            if self._deleted(name):
                return await self._end(found)
            if FINALIZER not in (found["metadata"].get("finalizers") or ()):
                await self._client.patch(SERVICE_CIDRS, name, {"metadata": {"finalizers": [FINALIZER]}})
            await self._mark(found, _READY)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
        return None

    async def _end(self, found: Json) -> timedelta | None:
        """Lets a deleted range go, if it may; how long to wait for that."""
        metadata = found["metadata"]
        if FINALIZER not in (metadata.get("finalizers") or ()):
            return None
        if self._needed(found):
            await self._mark(found, _STAYS)
            return None
        left = parse_time(metadata["deletionTimestamp"]) + GRACE - now()
        if left > timedelta():
            return left
        body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        await self._client.patch(SERVICE_CIDRS, metadata["name"], body)
        return None

    def _needed(self, found: Json) -> bool:
        """Whether an address of a service would be in no range without this one."""
        others = [each for each in self._ranges.objects.values() if each is not found]
        covering = [network for each in others for network in _networks(each)]
        if all(any(_within(own, other) for other in covering) for own in _networks(found)):
            return False
        return any(
            not any(_holds(other, address) for other in others)
            for address in self._addresses.objects.values()
            if _holds(found, address)
        )

    async def _mark(self, found: Json, state: tuple[str, str, str]) -> None:
        status, reason, message = state
        told = {"type": "Ready", "status": status, "reason": reason, "message": message}
        for known in (found.get("status") or {}).get("conditions") or ():
            if known["type"] == "Ready" and all(known.get(name, "") == value for name, value in told.items()):
                return
        body = {
            "apiVersion": SERVICE_CIDRS.api_version,
            "kind": SERVICE_CIDRS.kind,
            "metadata": {"name": found["metadata"]["name"]},
            "status": {"conditions": [{**told, "lastTransitionTime": go_time(now())}]},
        }
        await self._client.patch(
            SERVICE_CIDRS, found["metadata"]["name"], body, type="apply", subresource="status", field_manager=NAME,
            force=True,
        )  # fmt: skip


def _networks(found: Json) -> Iterator[Network]:
    return map(ipaddress.ip_network, found["spec"].get("cidrs") or ())


def _within(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _holds(found: Json | None, address: Json) -> bool:
    """Whether a service's address is one that services can have in a range."""
    label, owner = _OWNER
    if found is None or (address["metadata"].get("labels") or {}).get(label) != owner:
        return False
    return _usable(ipaddress.ip_address(address["metadata"]["name"]), _networks(found))


def _usable(address: Address, networks: Iterable[Network]) -> bool:
    """The first address of a range is nobody's, nor is the last one of IPv4."""
    return any(
        address in network
        and address != network.network_address
        and (network.version == 6 or address != network.broadcast_address)
        for network in networks
    )
