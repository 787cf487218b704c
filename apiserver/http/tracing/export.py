"""Send spans in batches, by OTLP over gRPC without TLS. The gRPC library is loaded with the first batch."""

from __future__ import annotations

import asyncio
import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self

from apiserver.http.tracing.spans import Attributes, Span, request_of
from apiserver.runtime.clock import Timer, outside, timers

if TYPE_CHECKING:
    from grpclib.client import Channel

__all__ = ["Exporter"]

log = logging.getLogger(__name__)

_METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_SCOPE: Final = "kubedra"
#: As in upstream's library: maximal pending spans, spans per batch, seconds between two batches, and timeout of one
#: in seconds.
_WAITING: Final = 2048
_AT_ONCE: Final = 512
_PAUSE: Final = 5.0
_LONGEST: Final = 10.0
#: Maximal seconds for the last batch at the server's end.
_LAST: Final = 1.0


class _Batch:
    """A message that is already encoded."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def encode(self) -> bytes:
        return self._body

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(data)


class Exporter:
    """Exports spans to `endpoint`: a host with a port, or a unix socket's path. `resource` has common attributes."""

    def __init__(self, endpoint: tuple[str, int] | str, resource: Attributes) -> None:
        self._endpoint, self._resource = endpoint, resource
        self._spans: list[Span] = []
        self._some, self._many = asyncio.Event(), asyncio.Event()
        self._channel: Channel | None = None
        self._failing = False

    def add(self, span: Span) -> None:
        """Queue a span for the next batch. It is dropped if too many are pending."""
        if len(self._spans) < _WAITING:
            self._spans.append(span)
            self._some.set()
            if len(self._spans) >= _AT_ONCE:
                self._many.set()

    async def follow(self) -> None:
        """Send pending spans until cancelled."""
        while True:
            await self._some.wait()
            with timers(Timer.MACHINE):
                try:
                    async with asyncio.timeout(_PAUSE):
                        await self._many.wait()
                except TimeoutError:
                    pass
            await self._send(_LONGEST)

    async def close(self) -> None:
        """Send the remaining spans and close the channel."""
        if self._spans:
            await self._send(_LAST)
        if self._channel is not None:
            self._channel.close()

    async def _send(self, seconds: float) -> None:
        batch, self._spans = self._spans[:_AT_ONCE], self._spans[_AT_ONCE:]
        if len(self._spans) < _AT_ONCE:
            self._many.clear()
        if not self._spans:
            self._some.clear()
        try:
            await asyncio.to_thread(import_module, "grpclib.client")
            with outside(), timers(Timer.MACHINE):
                async with asyncio.timeout(seconds):
                    await self._call(request_of(batch, self._resource, _SCOPE), seconds)
        except Exception as error:  # noqa: BLE001 - an export failure must not end requests
            if not self._failing:  # logged once, until it works again
                log.warning(
                    "traces cannot be sent to %s: %s", self._format_endpoint(), str(error) or type(error).__name__
                )
            self._failing = True
        else:
            self._failing = False

    async def _call(self, body: bytes, seconds: float) -> None:
        from grpclib.client import Channel, UnaryUnaryMethod

        from kubedra.driver.codec import MessageCodec

        if self._channel is None:
            where: dict[str, Any] = {"path": self._endpoint}
            if isinstance(self._endpoint, tuple):
                where = {"host": self._endpoint[0], "port": self._endpoint[1]}
            self._channel = Channel(codec=MessageCodec(), **where)
        await UnaryUnaryMethod(self._channel, _METHOD, _Batch, _Batch)(_Batch(body), timeout=seconds + 1)

    def _format_endpoint(self) -> str:
        return self._endpoint if isinstance(self._endpoint, str) else f"{self._endpoint[0]}:{self._endpoint[1]}"
