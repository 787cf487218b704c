"""Decoding of a server's responses: return the object, or raise the reported error."""

from __future__ import annotations

import json

from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True


class ApiError(Exception):
    """A response that reports a failure. `reason` and `code` are the Status's ("NotFound", 404)."""

    def __init__(self, code: int, reason: str, message: str, status: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.status = code, reason, message, status or {}


def decode(code: int, text: str) -> Json:
    """Return the object of a response. Raises ApiError."""
    try:
        found = json.loads(text)
    except ValueError:
        found = {"message": text.strip()}
    if code >= 400:
        found = found if isinstance(found, dict) else {}
        message = found.get("message") or found.get("detail") or text
        raise ApiError(code, found.get("reason", ""), str(message), found)
    return found if isinstance(found, dict) else {"value": found}
