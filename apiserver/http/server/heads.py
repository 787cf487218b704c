"""Heads of responses as bytes: status line and header fields, cached by form where possible."""

from __future__ import annotations

import re
import time as system
from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from apiserver.request.audit_ids import audit_id, unused_id
from apiserver.request.messages import Request, Response, Stream

CLOSE: Final = b"connection: close\r\n"
CHUNKED: Final = b"transfer-encoding: chunked\r\n"
#: Statuses whose responses never have a body.
BODILESS: Final = (204, 304)
#: Characters that would end a field or the head.
_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
#: Bytes of a body from which on it is written separately instead of copied.
_LONG: Final = 64 * 1024
_CACHE_CONTROL: Final = "Cache-Control"
_NO_CACHE: Final = b"cache-control: no-cache, private\r\n"


@lru_cache(maxsize=512)
def status_line(status: int, content_type: str, *, cacheable: bool = False) -> bytes:
    """Return the status line and the common fields for a status and type.

    A `cacheable` response has a Cache-Control field of its own. A response of a status below 200 has none.
    """
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    line = f"HTTP/1.1 {status} {phrase}\r\n".encode()
    if status not in BODILESS and content_type:
        line += b"content-type: %b\r\n" % content_type.encode("latin-1")
    return line if cacheable or status < 200 else line + _NO_CACHE


def fields(headers: Iterable[tuple[str, str]]) -> bytes:
    """Build further fields. Line ends and other control characters become spaces, as in Go's server."""
    return b"".join(
        [b"%b: %b\r\n" % (name.lower().encode("latin-1"), _CONTROL.sub(" ", value).encode()) for name, value in headers]
    )


def marks(request: Request) -> bytes:
    """Return the fields about the request itself; empty for an unreadable request."""
    if not request.method:
        return b""
    made = request.audit_id or request.headers.get("audit-id")
    # The ID is used nowhere else, so it need not be decoded to text.
    identity = audit_id(request).encode("latin-1") if made else unused_id()
    return _date() + identity + b"\r\n" + request.marks


class _Date:
    """The Date field and the prefix of the next field: bytes that are rebuilt once per second."""

    __slots__ = ("_began", "_field")

    def __init__(self) -> None:
        self._began, self._field = 0.0, b""  # by the system's clock

    def __call__(self) -> bytes:
        if not 0 <= system.time() - self._began < 1:
            self._began = float(int(system.time()))
            self._field = b"date: %b\r\naudit-id: " % formatdate(self._began, usegmt=True).encode()
        return self._field


_date: Final = _Date()


def response_parts(answer: Response, marks: bytes, head: bool, close: bool) -> tuple[bytes, ...]:
    """Build a whole response; a long body is a part of its own, to avoid a copy.

    `head`: the client wants the length but no body; `close`: the connection ends with the response. `marks` are further
    fields, as bytes.
    """
    body = answer.body
    headers = answer.headers
    cacheable = bool(headers) and any(name == _CACHE_CONTROL for name, _ in headers)
    first = status_line(answer.status, answer.content_type, cacheable=cacheable) + marks
    if headers:
        first += fields(headers)
    if close:
        first += CLOSE
    if answer.status in BODILESS:
        return (first + b"\r\n",)
    first += b"content-length: %d\r\n\r\n" % len(body)
    if head:
        return (first,)
    return (first, body) if len(body) > _LONG else (first + body,)


def stream_head(answer: Stream, marks: bytes = b"", *, chunked: bool, close: bool) -> bytes:
    """Build the head of a stream. A stream that is not chunked ends with the connection."""
    first = status_line(answer.status, answer.content_type) + fields(answer.headers)
    return b"%b%b%b%b\r\n" % (first, marks, CHUNKED if chunked else b"", CLOSE if close else b"")
