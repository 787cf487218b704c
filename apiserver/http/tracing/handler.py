"""The handler that records a span of each sampled request. It runs after authentication.

It trusts the trace context only of administrators and of the monitoring.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Awaitable
from typing import Final, NamedTuple

from apiserver.http.handlers.chain import Handler
from apiserver.http.tracing.export import Exporter
from apiserver.http.tracing.spans import Span
from apiserver.request.audit_ids import audit_id
from apiserver.request.messages import Request, Response, Stream

__all__ = ["Tracing"]

_BELIEVED: Final = frozenset({"system:masters", "system:monitoring"})
_PARENT: Final = re.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ALL: Final = 1_000_000
#: Maximal characters of an Audit-Id in a span.
_SHOWN: Final = 64


class _Parent(NamedTuple):
    """The fields of a traceparent header."""

    trace: bytes
    span: bytes
    sampled: bool


class Tracing:
    """The link of the chain; `per_million` is the sampling rate of requests without a trusted decision."""

    next: Handler

    def __init__(self, exporter: Exporter, per_million: int) -> None:
        self._exporter, self._per_million, self._chance = exporter, per_million, random.SystemRandom()

    def try_fast(self, request: Request) -> Response | None:
        # Traced requests use `handle`, which has an end for the span.
        if self._per_million or "traceparent" in request.headers:
            return None
        return self.next.try_fast(request)

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        span = self._start_span(request)
        return self.next.handle(request) if span is None else self._traced(request, span)

    def _start_span(self, request: Request) -> Span | None:
        """Start the span of a request; return None if it is not sampled."""
        parent = _parent_of(request.headers.get("traceparent", ""))
        believed = parent is not None and request.user is not None and not _BELIEVED.isdisjoint(request.user.groups)
        if parent is not None and believed:
            if not parent.sampled:
                return None
        elif not self._per_million or self._chance.randrange(_ALL) >= self._per_million:
            return None
        own = parent is None or not believed
        return Span(
            trace=self._chance.randbytes(16) if parent is None or not believed else parent.trace,
            id=self._chance.randbytes(8),
            name=_name(request),
            start=time.time_ns(),
            parent=b"" if parent is None or own else parent.span,
            linked=(parent.trace, parent.span) if parent is not None and own else None,
            attributes=_attributes(request),
        )

    async def _traced(self, request: Request, span: Span) -> Response | Stream:
        try:
            answer = await self.next.handle(request)
        except Exception as error:
            self._end(span, getattr(error, "code", 500))
            raise
        if isinstance(answer, Stream):
            answer.when_ended.append(lambda: self._end(span, answer.status))
        else:
            self._end(span, answer.status)
        return answer

    def _end(self, span: Span, code: int) -> None:
        span.end = time.time_ns()
        span.attributes["http.response.status_code"] = code
        self._exporter.add(span)


def _parent_of(text: str) -> _Parent | None:
    """Parse a valid header; later versions may have further fields."""
    found = _PARENT.fullmatch(text.strip())
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    trace, span = bytes.fromhex(found[2]), bytes.fromhex(found[3])
    return _Parent(trace, span, bool(int(found[4], 16) & 1)) if any(trace) and any(span) else None


def _name(request: Request) -> str:
    """Return the span name of a kind of requests."""
    info = request.info
    if not info.resource:
        return request.method
    parts = ["apis", info.group, info.version] if info.group else ["api", info.version]
    if info.namespace:
        parts += ["namespaces", "{:namespace}"]
    parts += [info.resource, "{:name}" if info.name else "", info.subresource]
    return f"{request.method} /{'/'.join(filter(None, parts))}"


def _attributes(request: Request) -> dict[str, str | int]:
    host, _, port = request.headers.get("host", "").rpartition(":")
    found: dict[str, str | int] = {
        "http.request.method": request.method,
        "url.path": request.path,
        "http.target": request.logged_uri,
        "audit-id": audit_id(request)[:_SHOWN],
        "server.address": host or request.headers.get("host", ""),
        "user_agent.original": request.headers.get("user-agent", ""),
    }
    if host and port.isdigit():
        found["server.port"] = int(port)
    return {key: value for key, value in found.items() if value != ""}
