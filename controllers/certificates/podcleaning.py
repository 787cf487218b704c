"""Deletes PodCertificateRequests a quarter of an hour after their creation, whatever their state.

Enabled with the gate PodCertificateRequest if the server serves certificates.k8s.io/v1beta1. Facts: upstream's
pkg/controller/certificates/cleaner (pcrcleaner.go), which runs every five minutes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from apiserver.runtime.clock import now
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import POD_CERTIFICATE_REQUESTS
from controllers.runtime.times import parse_time
from controllers.runtime.workqueue import Resync

NAME: Final = "podcertificaterequest-cleaner-controller"
_GATE: Final = "PodCertificateRequest"
_MAX_AGE: Final = timedelta(minutes=15)


def build(client: Client, informers: Informers, options: Options) -> PodCleaner:
    """Build the component for the manager."""
    return PodCleaner(client, informers, options)


class PodCleaner(ControllerComponent):
    """The cleaner. Keys are those of requests."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller("podcertificaterequestcleaner")
        self._controller = Controller(NAME, self.reconcile, queue="podcertificaterequest_cleaner")
        if options.features.enabled(_GATE):
            self._requests = informers.of(POD_CERTIFICATE_REQUESTS)
            self._controller.follow(self._requests)

    async def reconcile(self, key: str) -> timedelta | None:
        request = self._requests.get(key)
        if request is None or "deletionTimestamp" in request["metadata"]:
            return None
        metadata = request["metadata"]
        left = parse_time(metadata["creationTimestamp"]) + _MAX_AGE - now()
        if left > timedelta():
            return Resync(seconds=left.total_seconds())
        try:
            await self._client.delete(
                POD_CERTIFICATE_REQUESTS, metadata["name"], metadata["namespace"], uid=metadata["uid"]
            )
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise
        return None
