"""Audit IDs: the Audit-Id of every response, and of a request's events in the audit log."""

from __future__ import annotations

from itertools import count
from typing import Final
from uuid import uuid4

from apiserver.request.messages import Request

__all__ = ["audit_id", "unused_id"]

#: A UUID per request is expensive: the IDs of one process differ only in their last part.
_FIRST: Final = str(uuid4())[:-12]
_NUMBERS: Final = count()
_FIRST_BYTES: Final = _FIRST.encode()


def audit_id(request: Request) -> str:
    """Return the client's audit ID, or a new one."""
    made = request.audit_id
    if not made:
        made = request.audit_id = request.headers.get("audit-id") or f"{_FIRST}{next(_NUMBERS):012x}"
    return made


def unused_id() -> bytes:
    """Return an unused ID, as bytes."""
    return b"%b%012x" % (_FIRST_BYTES, next(_NUMBERS))
