"""Errors as responses."""

from __future__ import annotations

import logging

from apiserver.api.errors.status import PlainError, StatusError, internal_error
from apiserver.api.values.depth import TOO_DEEP
from apiserver.http.formats.encoding import encode
from apiserver.http.formats.negotiation import error_format, is_pretty
from apiserver.registry.store.store import refusal_of
from apiserver.request.messages import Request, Response
from apiserver.storage.log.types import StorageUnavailable
from kubedra.runtime.extras import MissingExtraError

log = logging.getLogger(__name__)


def error_response(request: Request, error: Exception) -> Response:
    """Build the response for an exception. An unexpected exception is logged and answered with a 500."""
    if isinstance(error, StatusError):
        return status_response(request, error)
    if isinstance(error, StorageUnavailable):
        return status_response(request, refusal_of(error))
    if isinstance(error, PlainError):
        headers = (("X-Content-Type-Options", "nosniff"), *error.headers)
        return Response(error.code, error.text.encode() + b"\n", "text/plain; charset=utf-8", headers)
    if isinstance(error, MissingExtraError):
        return status_response(request, internal_error(str(error)))
    log.error("%s %s failed", request.method, request.path, exc_info=error)
    why = f": an object is {TOO_DEEP}" if _is_about_depth(error) else "; see the server's log"
    return status_response(request, internal_error(f"{request.method} {request.path} failed{why}"))


def _is_about_depth(error: Exception) -> bool:
    """Return whether an object, as stored by an older version, is nested too deeply for Python or orjson."""
    return isinstance(error, RecursionError) or str(error).startswith(("Recursion limit", "depth limit"))


def status_response(request: Request, error: StatusError) -> Response:
    """Encode a Status in the client's format."""
    chosen = error_format(request.headers.get("accept", ""))
    headers = error.headers
    after = (error.details or {}).get("retryAfterSeconds")
    if after and not any(name == "Retry-After" for name, _ in headers):
        headers = (*headers, ("Retry-After", str(after)))
    body = encode(chosen.media, error.to_dict(), pretty=is_pretty(request, chosen))
    return Response(error.code, body, chosen.media, headers)
