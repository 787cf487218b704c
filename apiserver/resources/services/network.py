"""Allocate the addresses and node ports of services.

Each address is owned by an IPAddress object; node ports are only recorded in services. Facts:
pkg/registry/core/service/storage, ipallocator, portallocator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.errors.status import StatusError, internal_error, server_error
from apiserver.api.errors.status import invalid as invalid_status
from apiserver.api.objects import Json
from apiserver.api.values.networks import parse_address
from apiserver.registry.verbs.server_writes import create_own, delete_own
from apiserver.resources.services.familyrules import (
    choose_families,
    complete_new,
    family_of,
    keep_allocated,
    unchanged_dual_stack,
)
from apiserver.resources.services.port_holds import PortHolds
from apiserver.resources.services.ranges import AddressRange, PortRange
from apiserver.resources.services.shape import has_addresses, is_headless, needs_health_check, node_ports
from apiserver.runtime.offload import on_loop

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Registry
    from apiserver.request.messages import User

__all__ = ["ADDRESSES", "Held", "ServiceNetwork", "address_object"]


ADDRESSES: Final = ("networking.k8s.io", "ipaddresses")
_RANGES: Final = ("networking.k8s.io", "servicecidrs")
_CLUSTER_IPS: Final = Path("spec") / "clusterIPs"
_PORTS: Final = Path("spec") / "ports"
_FULL: Final = "range is full"
_TAKEN: Final = "provided port is already allocated"
#: Dry runs report the ports after this one.
_DRY_PORT: Final = 32768


def address_object(address: str, namespace: str, name: str) -> Json:
    """Build the IPAddress object of a service's address."""
    labels = {
        "ipaddress.kubernetes.io/ip-family": family_of(address),
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    parent = {"group": "", "resource": "services", "namespace": namespace, "name": name}
    return {"metadata": {"name": address, "labels": labels}, "spec": {"parentRef": parent}}


class Held:
    """The reservations of one write until it is over."""

    def __init__(self, network: ServiceNetwork, *, dry_run: bool) -> None:
        self._network, self.dry_run = network, dry_run
        self.ports: set[int] = set()
        #: The reserved addresses, and those that the service releases once it is stored.
        self.taken: list[str] = []
        self.leaving: list[str] = []

    async def finish(self, *, stored: bool) -> None:
        await self._network.finish(self, self.leaving if stored else self.taken)


class ServiceNetwork:
    """The allocator of addresses and node ports.

    `families` are the cluster's IP families, default first. `choose(n)` returns one of 0 … n-1.
    """

    def __init__(
        self, registry: Registry, user: User, cidrs: tuple[str, ...], ports: PortRange, choose: Callable[[int], int]
    ) -> None:
        self._registry, self._user, self._choose = registry, user, choose
        self.cidrs, self.ports = cidrs, ports
        self._parsed: dict[str, AddressRange] = {cidr: AddressRange(cidr) for cidr in cidrs}
        self.families = tuple(self._parsed[cidr].family for cidr in cidrs)
        self._holds = PortHolds(registry)

    @property
    def own_address(self) -> str:
        """Return the address of the API server's own service."""
        return self._parsed[self.cidrs[0]].first()

    @on_loop
    async def reserve(self, ctx: Context, obj: Json, old: Json | None) -> Held:
        """Reserve addresses and ports for a write; see `apiserver.registry.definition.reservations`."""
        held = Held(self, dry_run=ctx.dry_run)
        try:
            if self._registry.shared:
                await self._registry.consistent()
            await self._reserve(ctx, obj, None if old is None else old["spec"], held)
        except BaseException:
            await held.finish(stored=False)
            raise
        return held

    async def _reserve(self, ctx: Context, obj: Json, old: Json | None, held: Held) -> None:
        spec = obj["spec"]
        if old is None:
            complete_new(spec)
        else:
            keep_allocated(spec, old)
        strict = ctx.features.enabled("StrictIPCIDRValidation")
        _refuse(obj, choose_families(spec, old, self.families, strict))
        if old is None:
            await self._take_all(ctx, obj, held)
            await self._new_ports(obj, held)
        else:
            await self._change_addresses(ctx, obj, old, held)
            await self._change_ports(obj, old, held)

    @on_loop
    async def release(self, ctx: Context, obj: Json) -> None:
        """Free the addresses of a deleted service and delete its Endpoints."""
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        await delete_own(self._registry, self._user, "", "endpoints", namespace, name)
        if has_addresses(obj["spec"]) and not is_headless(obj["spec"]):
            await self._free(obj["spec"].get("clusterIPs") or [])

    async def finish(self, held: Held, leaving: list[str]) -> None:
        """End a write: drop its port reservations and free these addresses."""
        await self._holds.drop(held.ports)
        await self._free(leaving)

    async def _free(self, addresses: list[str]) -> None:
        for address in addresses:
            await delete_own(self._registry, self._user, *ADDRESSES, "", _canonical(address))

    # --- addresses

    def _ranges(self) -> Iterator[AddressRange]:
        """Yield the ranges to allocate from: those of each ready ServiceCIDR that is not being deleted."""
        for found in self._registry.all_of(*_RANGES):
            conditions = (found.get("status") or {}).get("conditions") or ()
            unready = any(item["type"] == "Ready" and item["status"] != "True" for item in conditions)
            if "deletionTimestamp" in found["metadata"] or unready:
                continue
            for cidr in found["spec"].get("cidrs") or ():
                if cidr not in self._parsed:
                    self._parsed[cidr] = AddressRange(cidr)
                yield self._parsed[cidr]

    async def _take_all(self, ctx: Context, obj: Json, held: Held) -> None:
        """Allocate an address of each family, as requested or chosen."""
        spec = obj["spec"]
        if not has_addresses(spec) or is_headless(spec):
            return
        addresses = list(spec.get("clusterIPs") or ())
        addresses += [""] * (len(spec["ipFamilies"]) - len(addresses))
        spec["clusterIPs"] = addresses
        for index, family in enumerate(spec["ipFamilies"]):
            addresses[index] = await self._take(ctx, obj, family, addresses[index], held)
        spec["clusterIP"] = addresses[0]

    async def _change_addresses(self, ctx: Context, obj: Json, old: Json, held: Held) -> None:
        spec = obj["spec"]
        if unchanged_dual_stack(spec, old):
            return
        if not has_addresses(old):
            await self._take_all(ctx, obj, held)
            return
        if is_headless(old):
            return
        had = old.get("clusterIPs") or []
        if not has_addresses(spec):
            held.leaving += [] if ctx.dry_run else had
        elif len(old.get("ipFamilies") or ()) == 1 and len(spec["ipFamilies"]) == 2:
            addresses = [*(spec.get("clusterIPs") or ()), ""][:2]
            spec["clusterIPs"] = addresses
            addresses[1] = await self._take(ctx, obj, spec["ipFamilies"][1], addresses[1], held)
        elif len(old.get("ipFamilies") or ()) == 2 and len(spec["ipFamilies"]) == 1:
            held.leaving += [] if ctx.dry_run else had[1:]

    async def _take(self, ctx: Context, obj: Json, family: str, address: str, held: Held) -> str:
        if address:
            problem = await self._take_certain(ctx, obj, _canonical(address), held)
            if problem:
                text = f"failed to allocate IP {address}: {problem}"
                _refuse(obj, [invalid(_CLUSTER_IPS, obj["spec"]["clusterIPs"], text)])
            return address
        for found in self._ranges():
            if found.family != family:
                continue
            if ctx.dry_run:  # a dry run chooses nothing
                return found.network_address
            for candidate in found.candidates(self._choose):
                if self._registry.lookup(*ADDRESSES, "", candidate) is None and await self._hold(
                    obj, candidate, held, ""
                ):
                    return candidate
        name = obj["metadata"].get("name", "")
        raise internal_error(f'failed to allocate a serviceIP for Service "{name}": {_FULL}')

    async def _take_certain(self, ctx: Context, obj: Json, address: str, held: Held) -> str:
        """Allocate a requested address. Return the problem, or "" on success."""
        ranges = list(self._ranges())
        if not any(address in found for found in ranges):
            if ctx.dry_run and ranges:
                valid = f"The range of valid IPs is {ranges[0].cidr}"
                return f"the provided IP ({address}) is not in the valid range. {valid}"
            return "the provided network does not match the current range"
        if ctx.dry_run or await self._hold(obj, address, held, address):
            return ""
        return "provided IP is already allocated"

    async def _hold(self, obj: Json, address: str, held: Held, wanted: str) -> bool:
        """Create the IPAddress. Return False if the address is taken.

        `wanted` is the address that the service requested, or "".
        """
        metadata = obj["metadata"]
        # Names are validated later, so a missing name is first reported by the IPAddress.
        made = address_object(address, metadata["namespace"], metadata.get("name", ""))
        try:
            if not await create_own(self._registry, self._user, *ADDRESSES, made):
                return False
        except StatusError as error:
            if error.code >= 500:
                raise
            text = f"failed to allocate IP {wanted}: {error.message}"
            _refuse(obj, [invalid(_CLUSTER_IPS, obj["spec"]["clusterIPs"], text)])
        held.taken.append(address)
        return True

    # --- node ports

    def _used(self) -> set[int]:
        used = set[int]()
        for service in self._registry.all_of("", "services"):
            used.update(node_ports(service["spec"]))
            used.add(service["spec"].get("healthCheckNodePort", 0))
        return used

    async def _hold_port(self, port: int, held: Held, used: set[int]) -> str:
        """Reserve a requested port. Return the problem, or "" on success."""
        if port not in self.ports and not held.dry_run:  # upstream's dry run skips the range
            return f"provided port is not in the valid range. The range of valid ports is {self.ports}"
        if port in used:
            return _TAKEN
        if not held.dry_run:
            held.ports.add(port)  # before a failure of `take`, which `finish` releases
            if not await self._holds.take(port):
                held.ports.discard(port)
                return _TAKEN
            if self._registry.shared and port in self._used():
                return _TAKEN
        used.add(port)
        return ""

    async def _any_port(self, held: Held, used: set[int], what: str) -> int:
        if held.dry_run:  # a dry run chooses nothing
            port = max(held.ports, default=_DRY_PORT) + 1
            held.ports.add(port)
            return port
        for port in self.ports.numbers.candidates(self._choose):
            if not await self._hold_port(port, held, used):
                return port
        raise internal_error(f"failed to allocate a {what}: {_FULL}")

    async def _asked_port(self, obj: Json, index: int, port: int, held: Held, used: set[int]) -> None:
        problem = await self._hold_port(port, held, used)
        if problem:
            _refuse(obj, [invalid(_PORTS[index] / "nodePort", port, problem)])

    async def _new_ports(self, obj: Json, held: Held) -> None:
        """Allocate node ports. Ports with the same number share one, unless they request several."""
        spec = obj["spec"]
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            used, ports = self._used(), spec.get("ports") or []
            chosen: dict[int, int] = {}
            for index, port in enumerate(ports):
                number, asked = port.get("port", 0), port.get("nodePort", 0)
                if not asked and not _chooses(spec):
                    continue
                if number not in chosen:
                    same = (
                        item["nodePort"] for item in ports if item.get("port", 0) == number and item.get("nodePort")
                    )
                    first = next(same, 0)
                    if first:
                        await self._asked_port(obj, index, first, held, used)
                    chosen[number] = port["nodePort"] = first or await self._any_port(held, used, "nodePort")
                elif not asked:
                    port["nodePort"] = chosen[number]
                elif asked != chosen[number]:
                    await self._asked_port(obj, index, asked, held, used)
        if needs_health_check(spec):
            await self._health_port(spec, held)

    async def _change_ports(self, obj: Json, old: Json, held: Held) -> None:
        spec = obj["spec"]
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            used, before, mine = self._used(), set(node_ports(old)), set[tuple[str, int]]()
            for index, port in enumerate(spec.get("ports") or ()):
                asked = port.get("nodePort", 0)
                if asked:
                    if asked not in before and asked not in held.ports:
                        await self._asked_port(obj, index, asked, held, used)
                elif _chooses(spec):
                    port["nodePort"] = await self._any_port(held, used, "nodePort")
                else:
                    continue
                key = port.get("protocol", ""), port["nodePort"]
                if key in mine:
                    raise server_error(f"duplicate nodePort: {{{key[0]} {key[1]}}}")
                mine.add(key)
        if needs_health_check(spec) and not needs_health_check(old):
            await self._health_port(spec, held)

    async def _health_port(self, spec: Json, held: Held) -> None:
        asked = spec.get("healthCheckNodePort", 0)
        used = self._used()
        if not asked:
            spec["healthCheckNodePort"] = await self._any_port(held, used, "HealthCheck NodePort 0")
            return
        problem = await self._hold_port(asked, held, used)
        if problem:
            raise internal_error(f"failed to allocate requested HealthCheck NodePort {asked}: {problem}")


def _chooses(spec: Json) -> bool:
    """Return whether ports get node ports that they do not request."""
    return spec.get("type") == "NodePort" or bool(spec.get("allocateLoadBalancerNodePorts"))


def _canonical(address: str) -> str:
    return str(parse_address(address) or address)


def _refuse(obj: Json, errors: list[FieldError]) -> None:
    if errors:
        raise invalid_status("Service", "", obj["metadata"].get("name", ""), errors)
