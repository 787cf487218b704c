"""Repair of IPAddresses: those of services exist, and orphaned ones are deleted.

A server that ends while it creates a Service leaves an IPAddress without one.
Facts: pkg/registry/core/service/ipallocator/controller (repairip.go); client-go, tools/events.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.times import parse_time
from apiserver.authentication.authenticator import ADMIN
from apiserver.registry.store.store import Registry
from apiserver.registry.verbs.server_writes import create_own, delete_own
from apiserver.resources.services.network import ADDRESSES, address_object
from apiserver.resources.services.shape import has_addresses, is_headless
from apiserver.runtime.clock import Timer, timers
from apiserver.storage.log.types import StorageUnavailable

__all__ = ["AddressRepair"]

log = logging.getLogger(__name__)

#: Seconds between two passes.
_PERIOD: Final = 180.0
#: Lifetime of an IPAddress without a Service: a server may be about to store the Service.
_GRACE: Final = timedelta(seconds=60)
_REPORTER: Final = "ipallocator-repair-controller"
_MANAGED_BY: Final = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io")


class AddressRepair:
    """The repair of one server."""

    def __init__(self, registry: Registry, host: str) -> None:
        self._registry, self._instance = registry, f"{_REPORTER}-{host}"

    async def follow(self) -> None:
        """Repair periodically until cancelled. Log a failure and retry in the next pass."""
        while True:
            with timers(Timer.UPKEEP):
                await asyncio.sleep(_PERIOD)
            try:
                await self._registry.consistent()
                await self.repair()
            except (StatusError, StorageUnavailable) as error:
                log.warning("could not repair IPAddresses: %s", error)

    async def repair(self) -> None:
        """Delete orphaned IPAddresses, and create the missing ones of Services."""
        owners: dict[str, tuple[str, str]] = {}
        for service in self._registry.all_of("", "services"):
            spec, metadata = service["spec"], service["metadata"]
            if has_addresses(spec) and not is_headless(spec):
                for address in spec.get("clusterIPs") or ():
                    owners.setdefault(address, (metadata["namespace"], metadata["name"]))
        for address in list(self._registry.all_of(*ADDRESSES)):
            name, parent = address["metadata"]["name"], address["spec"]["parentRef"]
            label, value = _MANAGED_BY
            if (address["metadata"].get("labels") or {}).get(label) != value or not self._is_old(address):
                continue
            if owners.get(name) != (parent.get("namespace", ""), parent.get("name", "")):
                await self._warn(address, parent)
                await delete_own(self._registry, ADMIN, *ADDRESSES, "", name)
        for name, owner in owners.items():
            if self._registry.lookup(*ADDRESSES, "", name) is None:
                await create_own(self._registry, ADMIN, *ADDRESSES, address_object(name, *owner))

    def _is_old(self, address: Json) -> bool:
        return self._registry.clock() - parse_time(address["metadata"]["creationTimestamp"]) > _GRACE

    async def _warn(self, address: Json, parent: Json) -> None:
        """Emit an event about an IPAddress that is deleted. A refusal is logged."""
        name, namespace, service = address["metadata"]["name"], parent.get("namespace", ""), parent.get("name", "")
        reason, text = "IPAddressNotAllocated", "appears to have leaked: cleaning up"
        if self._registry.lookup("", "services", namespace, service) is not None:
            reason, text = "IPAddressWrongReference", "has a wrong reference; cleaning up"
        now = self._registry.clock()
        event = {
            "metadata": {
                "name": f"{name.replace(':', '-').strip('-')}.{int(now.timestamp() * 1e9):x}",
                "namespace": "default",
            },
            "type": "Warning",
            "reason": reason,
            "action": "IPAddressAllocation",
            "note": f"IPAddress: {name} for Service {namespace}/{service} {text}",
            "regarding": {
                "kind": "IPAddress",
                "apiVersion": "networking.k8s.io/v1",
                "name": name,
                "uid": address["metadata"]["uid"],
                "resourceVersion": address["metadata"]["resourceVersion"],
            },
            "reportingController": _REPORTER,
            "reportingInstance": self._instance,
            "eventTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        try:
            await create_own(self._registry, ADMIN, "events.k8s.io", "events", event)
        except StatusError as error:
            log.warning("could not record an event: %s", error)
