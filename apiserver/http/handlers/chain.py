"""The chain of handlers for every request, from a socket or from a client in this process.

    HandlerChain                 the request info; a record of the request and its response
      Faults                     injected failures; only while there are some (`insert_first`)
      FixedHeaders               headers of all responses; only with --strict-transport-security-directives
      Errors                     exceptions as responses in upstream's words; warnings as headers
      CoverageLink               requests, error responses and events as reached behaviours; only with --coverage
      FailedAuthenticationAudit  events of refused credentials; only with an audit policy
      Authentication             the user, with impersonation
      Audit                      events of all other requests; only with an audit policy
      Tracing                    spans; only with --tracing-config-file
      Fairness                   seats by priority and fairness; not with --enable-priority-and-fairness=false
      Authorization              the user's permission; only if an authorizer may refuse
      Cbor                       bodies and responses in CBOR; only with the gate CBORServingAndStorage
      AggregationHandler         aggregated API servers; only while there are some (`append_link`)
      Dispatch                   the resource's verb, or a document

Each handler has a reference to the next one. `apiserver.handler_chain` builds the chain once at start, in this order;
only faults and aggregated servers come and go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, Final, Protocol

from apiserver.http.formats.errors import error_response
from apiserver.http.formats.warning import warning_headers
from apiserver.request.info import request_info
from apiserver.request.messages import ConnectionClosed, Request, Response, Stream
from apiserver.request.records import COMPLETE, STARTED, RequestRecord
from apiserver.runtime.clock import now
from apiserver.runtime.metrics import Family, Gauge, Labels
from apiserver.runtime.offload import LONG, run_in_thread

#: Verbs that may be answered without waiting.
_FAST_VERBS: Final = frozenset({"get", "list"})
_READING: Final = frozenset({"get", "list", "watch"})

#: Counts an answered request: the response's status, seconds.
Count = Callable[[Request, int, float], object]
Sink = Callable[[RequestRecord], object]


class Handler(Protocol):
    """Answers a request by itself or with the next handler.

    `try_fast` answers without waiting. None means: call `handle`; the request and the server are then unchanged. Both
    may raise; the errors handler converts exceptions to responses.
    """

    def try_fast(self, request: Request) -> Response | None: ...

    def handle(self, request: Request) -> Awaitable[Response | Stream]: ...


class Link(Handler, Protocol):
    """A handler with a next one."""

    next: Handler


class Errors:
    """The link that converts later exceptions to responses, and warnings to headers.

    Only ConnectionClosed passes it.
    """

    next: Handler

    def try_fast(self, request: Request) -> Response | None:
        try:
            answer = self.next.try_fast(request)
        except Exception as error:  # noqa: BLE001 - each kind has its answer
            answer = error_response(request, error)
        if request.warnings and answer is not None:
            answer.headers += warning_headers(request.warnings)
        return answer

    async def handle(self, request: Request) -> Response | Stream:
        answer: Response | Stream
        try:
            answer = await self.next.handle(request)
        except ConnectionClosed:
            raise
        except Exception as error:  # noqa: BLE001 - each kind has its answer
            answer = error_response(request, error)
        if request.warnings:
            answer.headers += warning_headers(request.warnings)
        return answer


async def _read_query(request: Request) -> None:
    """Parse a long query; the request keeps the results."""
    request.info = request_info(request.method, request.path, request.query)
    _ = request.params


class HandlerChain:
    """The handlers, from the first to the last. Every response is counted, and the sinks receive its record.

    A watch is counted when it opens, and has two records, as in upstream's audit log: when it opens (ResponseStarted),
    and with its duration and bytes when it has ended (ResponseComplete).
    """

    def __init__(self, *links: Link, last: Handler, count: Count, sinks: Sequence[Sink] = ()) -> None:
        for link, following in zip(links, (*links[1:], last), strict=True):
            link.next = following
        self._first: Handler = links[0] if links else last
        self._last = last
        self._count, self._sinks = count, tuple(sinks)
        #: Number of running read and write requests. An open watch counts as answered.
        self._in_flight = [0, 0]

    def families(self) -> list[Family]:
        """Return the metric families of running requests."""
        name, text = "apiserver_current_inflight_requests", "Running requests."
        return [Gauge(name, text, ("request_kind",), self._now)]

    def _now(self) -> dict[Labels, float]:
        reading, changing = self._in_flight
        return {("readOnly",): reading, ("mutating",): changing}

    def insert_first(self, link: Link) -> None:
        """Insert a link before all others."""
        link.next, self._first = self._first, link

    def append_link(self, link: Link) -> None:
        """Insert a link after all others, before the last handler."""
        self._replace(self._last, link)
        link.next = self._last

    def remove_link(self, link: Link) -> None:
        """Remove a link. Requests that it has begun continue in it."""
        self._replace(link, link.next)

    def _replace(self, handler: Handler, by: Handler) -> None:
        """Replace a handler in the chain."""
        if self._first is handler:
            self._first = by
            return
        before: Any = self._first
        while before.next is not handler:
            before = before.next
        before.next = by

    def try_fast(self, request: Request) -> Response | None:
        """Return the response of `handle` if it takes no waiting, else None. Never raises.

        These are an object or a whole collection in the server's cache.
        """
        if request.method != "GET" or request.query or request.body:
            return None
        info = request.info = request_info("GET", request.path)
        if info.verb not in _FAST_VERBS or info.subresource or not info.resource:
            return None
        started = perf_counter()
        answer = self._first.try_fast(request)
        if answer is not None:
            self._record(request, perf_counter() - started, answer.status, len(answer.body))
        return answer

    async def handle(self, request: Request) -> Response | Stream:
        """Return the response to a request. Raise only ConnectionClosed, to close without a response."""
        if len(request.query) > LONG:
            await run_in_thread(_read_query(request))
        if not request.info.verb:
            request.info = request_info(request.method, request.path, request.query)
        started = perf_counter()
        kind = request.info.verb not in _READING
        self._in_flight[kind] += 1
        try:
            answer = await self._first.handle(request)
        except ConnectionClosed:
            self._record(request, perf_counter() - started, 0, 0)
            raise
        finally:
            self._in_flight[kind] -= 1
        if isinstance(answer, Response):
            self._record(request, perf_counter() - started, answer.status, len(answer.body))
        else:
            self._record_stream(request, answer, started)
        return answer

    def _record(self, request: Request, seconds: float, code: int, size: int) -> None:
        self._count(request, code, seconds)
        record = RequestRecord.of(request, request.time or now(), seconds, code, size)
        for sink in self._sinks:
            sink(record)

    def _record_stream(self, request: Request, stream: Stream, started: float) -> None:
        def record_stage(stage: str) -> None:
            record = RequestRecord.of(request, now(), perf_counter() - started, stream.status, stream.sent, stage)
            for sink in self._sinks:
                sink(record)

        self._count(request, stream.status, perf_counter() - started)
        record_stage(STARTED)
        stream.when_ended.append(lambda: record_stage(COMPLETE))
