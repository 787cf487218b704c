"""The first handler: a record of every request and its answer, given to the sinks.

A watch gives two records, as in upstream's audit log: when it opens (ResponseStarted), and with its duration and bytes
when it has ended (ResponseComplete).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from time import perf_counter

from apiserver.http.handlers.chain import Handler
from apiserver.http.sinks.record import COMPLETE, STARTED, RequestRecord
from apiserver.messages import ConnectionClosed, Request, Response, Stream

Sink = Callable[[RequestRecord], object]


class History:
    """Measures each request. `clock` says when it came."""

    next: Handler

    def __init__(self, sinks: Sequence[Sink], clock: Callable[[], datetime]) -> None:
        self._sinks, self._clock = list(sinks), clock

    def add(self, sink: Sink) -> None:
        """Give records to this sink, too."""
        self._sinks.append(sink)

    def try_fast(self, request: Request) -> Response | None:
        started = perf_counter()
        answer = self.next.try_fast(request)
        if answer is not None:
            self._record(request, answer.status, len(answer.body), started)
        return answer

    async def handle(self, request: Request) -> Response | Stream:
        started = perf_counter()
        try:
            answer = await self.next.handle(request)
        except ConnectionClosed:
            self._record(request, 0, 0, started)
            raise
        if isinstance(answer, Response):
            self._record(request, answer.status, len(answer.body), started)
        else:
            self._record_stream(request, answer, started)
        return answer

    def _record(self, request: Request, code: int, size: int, started: float) -> None:
        record = RequestRecord(request, request.time or self._clock(), perf_counter() - started, code, size)
        for sink in self._sinks:
            sink(record)

    def _record_stream(self, request: Request, stream: Stream, started: float) -> None:
        def record(stage: str) -> None:
            seconds = perf_counter() - started
            made = RequestRecord(request, self._clock(), seconds, stream.status, stream.sent, stage, long_running=True)
            for sink in self._sinks:
                sink(made)

        record(STARTED)
        stream.when_ended.append(lambda: record(COMPLETE))
