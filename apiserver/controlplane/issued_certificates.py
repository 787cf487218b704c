"""Count the issued certificates of requests with a requested duration.

Facts: pkg/registry/certificates/certificates/storage (metrics.go).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from apiserver.api.objects import Json
from apiserver.registry.store.changes import batches
from apiserver.runtime.metrics import Counter, Family

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry
    from apiserver.storage.watchcache.entry import Event

__all__ = ["IssuedCertificates"]


_REQUESTS: Final = ("certificates.k8s.io", "certificatesigningrequests")
_NAME: Final = "apiserver_certificates_registry_csr"
_KNOWN: Final = "kubernetes.io/"
#: Tolerated difference to the requested duration: a certificate may begin before its creation.
_BEFORE: Final = timedelta(minutes=5)


class IssuedCertificates:
    """A counter that watches certificate signing requests."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        text = "Issued certificates with a requested duration"
        self._requested = Counter(f"{_NAME}_requested_duration_total", f"{text}.", ("signerName",))
        self._honored = Counter(f"{_NAME}_honored_duration_total", f"{text} that the signer honored.", ("signerName",))

    def families(self) -> list[Family]:
        return [self._honored, self._requested]

    async def follow(self) -> None:
        """Count until the server ends."""
        store = self._registry.stores.get(_REQUESTS)
        if store is None:
            return
        async for events in batches(store.cache):
            for event in events or ():
                await self._count_certificate(event)

    async def _count_certificate(self, event: Event) -> None:
        if event.old is None or event.deleted:
            return
        before, issued = _certificate(event.old.obj), _certificate(event.new.obj)
        wanted = event.new.obj["spec"].get("expirationSeconds")
        if before or not issued or wanted is None:
            return
        signer = event.new.obj["spec"]["signerName"]
        signer = signer if signer.startswith(_KNOWN) else "other"
        self._requested.inc(signer)
        lasts = await asyncio.to_thread(_get_duration, issued)
        asked = timedelta(seconds=wanted)
        if lasts is not None and abs(asked - lasts) < _BEFORE + asked / 20:
            self._honored.inc(signer)


def _certificate(obj: Json) -> str:
    found: str = (obj.get("status") or {}).get("certificate") or ""
    return found


def _get_duration(encoded: str) -> timedelta | None:
    """Return the duration of the first certificate, of PEM in base64; None if it cannot be parsed."""
    from base64 import b64decode

    from cryptography import x509

    try:
        first = x509.load_pem_x509_certificates(b64decode(encoded))[0]
    except ValueError:
        return None
    return first.not_valid_after_utc - first.not_valid_before_utc
