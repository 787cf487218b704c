"""Signs approved requests of the four signers of kubernetes.io.

Facts: upstream's pkg/controller/certificates/signer.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.certificates.requests import RETRY_DELAYS, condition, parse, with_condition
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent, NotYetError
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import SIGNING_REQUESTS
from controllers.signing.authority import AuthorityError
from controllers.signing.purposes import SIGNERS

if TYPE_CHECKING:
    from cryptography import x509

NAME: Final = "certificatesigningrequest-signing-controller"
_WORKERS: Final = 5
_SHORTEST: Final = timedelta(minutes=10)


def build(client: Client, informers: Informers, options: Options) -> Signer:
    """Build the component for the manager."""
    return Signer(client, informers, options)


class Signer(ControllerComponent):
    """The signing controller. Keys are names of requests. It is idle without authorities."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client, self._options = client.for_controller("certificate-controller"), options.signing
        self._controller = Controller(
            NAME, self.reconcile, workers=_WORKERS, queue="certificate", retry_delays=RETRY_DELAYS
        )
        self._signers = frozenset(signer for signer in SIGNERS if self._options.can_sign(signer))
        if self._signers:
            self._requests = informers.of(SIGNING_REQUESTS)
            self._controller.follow(self._requests)

    async def reconcile(self, name: str) -> None:
        request = self._requests.get(name)
        if request is None or request["spec"]["signerName"] not in self._signers:
            return
        if (request.get("status") or {}).get("certificate") or condition(request, "Failed"):
            return
        if not condition(request, "Approved") or condition(request, "Denied"):
            return
        csr, spec = parse(request), request["spec"]
        problem = SIGNERS[spec["signerName"]](csr, spec.get("usages") or ())
        if problem:
            answered = with_condition(request, "Failed", "SignerValidationFailure", problem)
        else:
            pem = await asyncio.to_thread(self._sign, spec, csr)
            answered = {**request, "status": {**request["status"], "certificate": b64encode(pem).decode()}}
        try:
            await self._client.update_status(SIGNING_REQUESTS, answered)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise

    def _sign(self, spec: Json, csr: x509.CertificateSigningRequest) -> bytes:
        """Sign a request. Raise NotYetError for unusable files, which may be repaired later."""
        try:
            pair = self._options.pair(spec["signerName"])
            assert pair is not None, "only configured signers are reconciled"
            return pair.read().sign(csr, spec.get("usages") or (), self._lifetime(spec), now())
        except (AuthorityError, OSError) as error:
            raise NotYetError(f"error auto signing csr: {error}") from None

    def _lifetime(self, spec: Json) -> timedelta:
        seconds = spec.get("expirationSeconds")
        longest = self._options.duration
        return longest if seconds is None else min(longest, max(timedelta(seconds=seconds), _SHORTEST))
