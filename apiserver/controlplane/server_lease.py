"""The identity lease of a server (kube-system, `apiserver-…`), and the deletion of expired ones.

Facts: pkg/controlplane/apiserver/server.go; pkg/controlplane/controller/apiserverleasegc.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.authentication.authenticator import ADMIN
from apiserver.controlplane.about import server_id
from apiserver.registry.verbs.server_writes import create_own, delete_own, rewrite_own
from apiserver.runtime.clock import Timer, timers
from apiserver.storage.log.types import StorageError

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry

__all__ = ["IdentityLease"]


_LEASES: Final = ("coordination.k8s.io", "leases")
_NAMESPACE: Final = "kube-system"
_LABEL: Final = "apiserver.kubernetes.io/identity"
_NAME: Final = "kube-apiserver"
_LASTS: Final = 3600
#: Seconds between renewals. Upstream renews every 10 s. An idle server should write nothing, and a lease lasts an
#: hour.
_PAUSE: Final = 600.0

log = logging.getLogger(__name__)


class IdentityLease:
    """The lease of one server."""

    def __init__(self, registry: Registry, host: str) -> None:
        self._registry, self._name, self._host = registry, server_id(host), host
        self._holder = f"{self._name}_{registry.new_uid()}"

    async def renew_regularly(self) -> None:
        """Renew the lease and delete expired ones, until cancelled."""
        while True:
            with timers(Timer.UPKEEP):
                await asyncio.sleep(_PAUSE)
            try:
                await self.renew()
                await self.clean()
            except (StatusError, StorageError) as error:
                log.warning("the lease of this server is not renewed: %s", error)

    async def renew(self) -> None:
        """Create the lease, or take it over, for an hour from now. Raise StatusError."""
        moment = f"{self._registry.clock():%Y-%m-%dT%H:%M:%S.%fZ}"
        labels = {_LABEL: _NAME, "kubernetes.io/hostname": self._host}
        spec = {"holderIdentity": self._holder, "leaseDurationSeconds": _LASTS, "renewTime": moment}
        made: Json = {"metadata": {"name": self._name, "namespace": _NAMESPACE, "labels": labels}, "spec": spec}
        if await create_own(self._registry, ADMIN, *_LEASES, made):
            return
        await rewrite_own(
            self._registry,
            ADMIN,
            *_LEASES,
            _NAMESPACE,
            self._name,
            lambda stored: {
                **stored,
                "metadata": {**stored["metadata"], "labels": {**(stored["metadata"].get("labels") or {}), **labels}},
                "spec": {**stored["spec"], **spec},
            },
        )

    async def clean(self) -> None:
        """Delete expired leases of servers. Raise StatusError."""
        store, moment = self._registry.stores[_LEASES], self._registry.clock()
        for entry in store.cache.list(store.key(_NAMESPACE, "")).entries:
            labels = entry.obj["metadata"].get("labels") or {}
            if labels.get(_LABEL) == _NAME and _is_expired(entry.obj.get("spec") or {}, moment):
                await delete_own(self._registry, ADMIN, *_LEASES, _NAMESPACE, entry.obj["metadata"]["name"])


def _is_expired(spec: Json, moment: datetime) -> bool:
    """Return whether a lease has expired; one without a time or a duration has."""
    if not spec.get("renewTime") or spec.get("leaseDurationSeconds") is None:
        return True
    return datetime.fromisoformat(spec["renewTime"]) + timedelta(seconds=spec["leaseDurationSeconds"]) < moment
