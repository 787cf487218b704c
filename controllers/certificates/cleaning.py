"""Deletes old CertificateSigningRequests.

Signed, denied and failed ones are deleted after an hour, pending ones after a day, and those with an expired
certificate immediately. Facts: upstream's pkg/controller/certificates/cleaner, which runs once an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import SIGNING_REQUESTS
from controllers.runtime.times import parse_time
from controllers.runtime.workqueue import Resync

NAME: Final = "certificatesigningrequest-cleaner-controller"
_DECIDED: Final = timedelta(hours=1)
_PENDING: Final = timedelta(hours=24)


def build(client: Client, informers: Informers, options: Options) -> Cleaner:
    """Build the component for the manager."""
    return Cleaner(client, informers)


class Cleaner(ControllerComponent):
    """The cleaner. Keys are names of requests."""

    name = NAME

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client.for_controller("certificate-controller")
        self._requests = informers.of(SIGNING_REQUESTS)
        self._controller = Controller(NAME, self.reconcile, queue="certificate_cleaner")
        self._controller.follow(self._requests)

    async def reconcile(self, name: str) -> timedelta | None:
        request = self._requests.get(name)
        if request is None or "deletionTimestamp" in request["metadata"]:
            return None
        end = min(_deletion_times(request), default=None)
        if end is None:
            return None
        left = end - now()
        if left > timedelta():
            return Resync(seconds=left.total_seconds())
        try:
            await self._client.delete(SIGNING_REQUESTS, name, uid=request["metadata"]["uid"])
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise
        return None


def _deletion_times(request: Json) -> Iterator[datetime]:
    """Yield the deletion time of a request for each reason."""
    status = request.get("status") or {}
    certificate, conditions = status.get("certificate", ""), status.get("conditions") or ()
    if not conditions:
        yield parse_time(request["metadata"]["creationTimestamp"]) + _PENDING
    for each in conditions:
        approved = each["type"] == "Approved"
        if approved and certificate:
            yield from _expiry(certificate)
        if (approved or each["type"] in ("Denied", "Failed")) and each.get("lastUpdateTime"):
            rest = _PENDING if approved and not certificate else _DECIDED
            yield parse_time(each["lastUpdateTime"]) + rest


def _expiry(encoded: str) -> Iterator[datetime]:
    """Yield the expiry of the first certificate; nothing if it is unreadable."""
    from base64 import b64decode

    from cryptography import x509

    try:
        yield x509.load_pem_x509_certificate(b64decode(encoded)).not_valid_after_utc
    except ValueError:
        return
