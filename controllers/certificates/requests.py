"""What the controllers of CertificateSigningRequests ask of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver.api.credentials.certificates import RequestError, read_request
from controllers.runtime.controller import NotYetError
from controllers.runtime.kinds import Json

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["condition", "parse", "with_condition"]


def condition(request: Json, kind: str) -> Json | None:
    """The condition of a type that holds; None where there is none."""
    found = (request.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind and each["status"] == "True"), None)


def with_condition(request: Json, kind: str, reason: str, message: str) -> Json:
    """The request with one more condition, which holds."""
    status = request.get("status") or {}
    added = {"type": kind, "status": "True", "reason": reason, "message": message}
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), added]}}


def parse(request: Json) -> x509.CertificateSigningRequest:
    """What is asked for. Raises NotYetError: the server has checked it, this library may know less."""
    try:
        return read_request(request["spec"]["request"])
    except RequestError as error:
        raise NotYetError(f"unable to parse csr: {error}") from None
