"""Decoding of a server's responses: return the object, or raise the reported error."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from typing import Final

from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True
log = logging.getLogger("kubedra.client")
#: The value of a Warning header: code, agent and quoted text.
_WARNING: Final = re.compile(r'^299 \S+ "(.*)"$')


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


def log_warnings(headers: Iterable[str]) -> None:
    """Log the server's warnings, as kubectl prints them. pytest shows them with a failing test."""
    for header in headers:
        if match := _WARNING.match(header):
            log.warning("%s", re.sub(r"\\(.)", r"\1", match[1]))
