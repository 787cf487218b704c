"""Accessors of CertificateSigningRequests, shared by their controllers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from apiserver.api.credentials.certificates import RequestError, read_request
from apiserver.api.objects import Json
from controllers.runtime.controller import NotYetError
from controllers.runtime.workqueue import RetryDelays

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["RETRY_DELAYS", "condition", "parse", "with_condition"]

#: Delays of failing requests.
RETRY_DELAYS: Final = RetryDelays(timedelta(milliseconds=200), timedelta(seconds=1000))


def condition(request: Json, kind: str) -> Json | None:
    """Return the true condition of a type, or None."""
    found = (request.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind and each["status"] == "True"), None)


def with_condition(request: Json, kind: str, reason: str, message: str) -> Json:
    """Return the request with one more true condition."""
    status = request.get("status") or {}
    added = {"type": kind, "status": "True", "reason": reason, "message": message}
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), added]}}


def parse(request: Json) -> x509.CertificateSigningRequest:
    """Parse the certificate request. Raise NotYetError if this library cannot, although the server has checked it."""
    try:
        return read_request(request["spec"]["request"])
    except RequestError as error:
        raise NotYetError(f"unable to parse csr: {error}") from None
