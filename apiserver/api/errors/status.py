"""API errors: one exception, one function per reason, with upstream's texts.

StatusError
  404 not_found · 409 already_exists, conflict · 422 invalid · 400 bad_request · 401 unauthorized · 403 forbidden
  405 method_not_allowed · 406 not_acceptable · 410 expired · 415 unsupported_media_type
  429 too_many_requests · 500 internal_error (with reason), server_error (bare) · 503 unavailable · 504 timed_out
  507 insufficient_storage

PlainError is a text/plain answer on the wire ("404 page not found").
"""

from __future__ import annotations

from typing import Any

from apiserver.api.errors.field_errors import FieldError, aggregate
from apiserver.api.objects import Json


class StatusError(Exception):
    """An answer of kind Status. `code` is the HTTP status, `reason` may be empty (upstream's bare 500)."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Json | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details, self.headers = code, reason, message, details, headers

    def to_dict(self) -> Json:
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class PlainError(Exception):
    """A plain-text answer, as upstream gives for paths outside every known group."""

    def __init__(self, code: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(text)
        self.code, self.text, self.headers = code, text, headers


def qualified(resource: str, group: str) -> str:
    """Return the qualified resource: `resourceclaims.resource.k8s.io`, or `pods` for the core group."""
    return f"{resource}.{group}" if group else resource


def _details(name: str, group: str, kind: str, **more: Any) -> Json:
    details: Json = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update(more)
    return details


def not_found(resource: str, group: str, name: str) -> StatusError:
    return StatusError(
        404, "NotFound", f'{qualified(resource, group)} "{name}" not found', _details(name, group, resource)
    )


def already_exists(resource: str, group: str, name: str) -> StatusError:
    return StatusError(
        409, "AlreadyExists", f'{qualified(resource, group)} "{name}" already exists', _details(name, group, resource)
    )


def conflict(resource: str, group: str, name: str, cause: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {cause}'
    return StatusError(409, "Conflict", message, _details(name, group, resource))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: str, group: str, name: str, errors: list[FieldError]) -> StatusError:
    message = f'{qualified(kind, group)} "{name}" is invalid: {aggregate(errors)}'
    return StatusError(422, "Invalid", message, _details(name, group, kind, causes=[e.cause() for e in errors]))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: str, group: str, name: str, cause: str) -> StatusError:
    """Build the error for a denial by authorization or admission: `pods "p" is forbidden: CAUSE`."""
    subject = (
        f'{qualified(resource, group)} "{name}" is forbidden' if name else f"{qualified(resource, group)} is forbidden"
    )
    return StatusError(403, "Forbidden", f"{subject}: {cause}", _details(name, group, resource))


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unknown_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_many_requests(message: str, retry_after: int, causes: list[Json]) -> StatusError:
    """Build a 429 that asks the client to retry after `retry_after` seconds (0 if unknown)."""
    details: Json = {"causes": causes}
    return StatusError(
        429, "TooManyRequests", message, {**details, "retryAfterSeconds": retry_after} if retry_after else details
    )


def server_error(message: str) -> StatusError:
    """Build a bare 500 without reason."""
    return StatusError(500, "", message)


def internal_error(message: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def timed_out() -> StatusError:
    """Build the error for a request that was not read or not answered within its timeout."""
    return StatusError(504, "Timeout", "Timeout: request did not complete within the allotted timeout", {})


def insufficient_storage(message: str) -> StatusError:
    """Build the error for a full disk. It has no Retry-After, so that clients report it immediately."""
    return StatusError(507, "InsufficientStorage", message)


def unavailable(message: str, retry_after: int = 1) -> StatusError:
    return StatusError(
        503, "ServiceUnavailable", message, {"retryAfterSeconds": retry_after}, (("Retry-After", str(retry_after)),)
    )
