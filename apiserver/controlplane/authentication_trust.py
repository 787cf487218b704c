"""The ConfigMap extension-apiserver-authentication, by which other servers authenticate users as this one does.

Servers of one store may trust different authorities, and the certificates of a replaced authority are still valid. So
stored certificates are kept, ours are added, and expired ones are removed.
Facts: pkg/controlplane/controller/clusterauthenticationtrust.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.status import StatusError
from apiserver.authentication.authenticator import ADMIN
from apiserver.registry.verbs.server_writes import create_own, rewrite_own
from apiserver.runtime.clock import Timer, timers
from apiserver.storage import StorageError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from apiserver.authentication.settings import IdentitySettings
    from apiserver.authentication.x509.client_certificates import ClientCertificates
    from apiserver.registry.store.store import Registry

__all__ = ["AuthenticationInfo"]

log = logging.getLogger(__name__)

_SPACE: Final = "kube-system"
_NAME: Final = "extension-apiserver-authentication"
_CLIENTS: Final = "client-ca-file"
_PROXY: Final = "requestheader-"
#: Time that an expired certificate stays.
_SLACK: Final = dt.timedelta(minutes=5)
#: Seconds between two reads of the stored object.
_PAUSE: Final = 1.0


class AuthenticationInfo:
    """Reconciles the ConfigMap of one server; not created if client certificates are not accepted."""

    def __init__(self, registry: Registry, identity: IdentitySettings, certificates: ClientCertificates | None) -> None:
        self._registry, self._proxy, self._certificates = registry, identity.proxy, certificates
        #: The last stored version that was up to date.
        self._good = ""
        self._failed = ""
        if certificates is not None:
            certificates.changed.append(self._invalidate)

    def _invalidate(self) -> None:
        self._good = ""

    async def follow(self) -> None:
        """Restore the ConfigMap after changes and deletions, until cancelled."""
        while self._certificates is not None:
            with timers(Timer.MACHINE):
                await asyncio.sleep(_PAUSE)
            try:
                await self.ensure()
            except (StatusError, StorageError) as error:
                self._complain(error)

    async def ensure(self) -> None:
        """Store the ConfigMap unless it is up to date.

        Log a refusal or an unreadable object, once. Raise StatusError for a failure (5xx) and StorageError.
        """
        if self._certificates is None:
            return
        try:
            await self._store()
        except (StatusError, ValueError) as error:
            if isinstance(error, StatusError) and error.code >= 500:
                raise
            self._complain(error)
        else:
            self._failed = ""

    async def _store(self) -> None:
        found = self._registry.lookup("", "configmaps", _SPACE, _NAME)
        if found is None:
            made = {"metadata": {"name": _NAME, "namespace": _SPACE}, "data": self._add_own({})}
            await create_own(self._registry, ADMIN, "", "configmaps", made)
        elif found["metadata"]["resourceVersion"] != self._good:
            stored = found.get("data") or {}
            if self._add_own(stored) != stored:
                await rewrite_own(
                    self._registry,
                    ADMIN,
                    "",
                    "configmaps",
                    _SPACE,
                    _NAME,
                    lambda old: {**old, "data": self._add_own(old.get("data") or {})},
                )
            else:
                self._good = found["metadata"]["resourceVersion"]

    def _complain(self, error: Exception) -> None:
        if str(error) != self._failed:
            log.error("ConfigMap %s/%s is not kept up to date: %s", _SPACE, _NAME, error)
        self._failed = str(error)

    def _add_own(self, stored: dict[str, str]) -> dict[str, str]:
        """Return the stored data with ours added. Raise ValueError."""
        assert self._certificates is not None
        clients = _bundle(stored.get(_CLIENTS, ""), self._certificates.clients)
        proxies = _bundle(stored.get(f"{_PROXY}{_CLIENTS}", ""), self._certificates.proxies)
        found = {_CLIENTS: clients} if clients else {}
        if not proxies:
            return found
        proxy = self._proxy
        ours: dict[str, tuple[str, ...]] = {
            "username-headers": proxy.user if proxy else (),
            "uid-headers": proxy.uid if proxy else (),
            "group-headers": proxy.group if proxy else (),
            "extra-headers-prefix": proxy.extra if proxy else (),
            "allowed-names": proxy.names if proxy else (),
        }
        for key, values in ours.items():
            listed = _merge_lists(stored.get(f"{_PROXY}{key}", ""), values)
            if listed or key != "uid-headers":
                found[f"{_PROXY}{key}"] = json.dumps(listed, separators=(",", ":"))
        return {**found, f"{_PROXY}{_CLIENTS}": proxies}


def _merge_lists(stored: str, ours: tuple[str, ...]) -> list[str]:
    """Join both lists, each value once. Raise ValueError."""
    before: Any = json.loads(stored) if stored else []
    if not isinstance(before, list):
        raise ValueError(f"not a list: {stored}")
    return list(dict.fromkeys([*map(str, before or ()), *ours]))


def _bundle(stored: str, ours: list[Certificate]) -> str:
    """Return the unexpired certificates of both, each once, in PEM. Raise ValueError."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    before = x509.load_pem_x509_certificates(stored.encode()) if stored else []
    # The machine's time, as in the verification of connections, even if the control plane's time is virtual.
    oldest = dt.datetime.now(dt.UTC) - _SLACK
    kept = dict.fromkeys(each for each in (*before, *ours) if each.not_valid_after_utc > oldest)
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in kept)
