"""A watch's events as chunks: lines of JSON, or frames of protobuf (`protobuf.Frames`).

Each event is encoded once for all watchers with the same view.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

import orjson

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.go_json import escape_html
from apiserver.http.formats.batches import join_batch
from apiserver.http.formats.negotiation import PROTOBUF, ResponseFormat, negotiate_stream
from apiserver.http.formats.table import parse_include_object, table
from apiserver.http.formats.view import PARTIAL, View, partial
from apiserver.registry.definition.table import row_of, table_of
from apiserver.registry.store.results import WatchEvent
from apiserver.request.messages import Request, Stream
from apiserver.storage.watchcache.cache import Cache

_SHAPED_EVENTS: Final = 100
_PLAIN_EVENTS: Final = 1000
_OBJECTS: Final = 64


class Encoder(Protocol):
    """An encoder of batches.

    `possible`: the format can represent events; `most`: the maximal number of events to encode without a break.
    """

    possible: bool
    most: int

    def lines(self, events: Sequence[WatchEvent], now: datetime) -> bytes: ...


def event_encoder(request: Request, chosen: ResponseFormat, view: View) -> tuple[Encoder, str]:
    """Return the encoder of a watch's events and the content type. Raise 400."""
    if chosen.media == PROTOBUF:
        from apiserver.http.formats.protobuf import Frames

        return Frames(view, chosen), chosen.media + ";stream=watch"
    return EventLines(view, chosen, parse_include_object(request, chosen)), chosen.media


def error_event(accept: str, error: StatusError) -> bytes:
    """Encode the event that ends a watch. Raise 406."""
    event = WatchEvent("ERROR", status=error.to_dict())
    if negotiate_stream(accept).media == PROTOBUF:
        from apiserver.http.formats.protobuf import error_frame

        return error_frame(event)
    return _line(event.type, event.status)


async def chunks(
    stream: Stream, events: AsyncIterator[list[WatchEvent]], encoder: Encoder, clock: Callable[[], datetime]
) -> AsyncIterator[bytes]:
    """Yield the chunks of a stream: one per batch, several of a long one. Closing this iterator closes the watch."""
    try:
        async for batch in events:
            if not encoder.possible:
                return
            if len(batch) <= encoder.most:
                chunk = encoder.lines(batch, clock())
                stream.sent += len(chunk)
                yield chunk
                continue
            for start in range(0, len(batch), encoder.most):
                chunk = encoder.lines(batch[start : start + encoder.most], clock())
                stream.sent += len(chunk)
                yield chunk
                await asyncio.sleep(0)
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
        stream.finish()


async def objects(
    stream: Stream, events: AsyncIterator[list[WatchEvent]], view: View, cache: Cache
) -> AsyncGenerator[list[tuple[str, Json]], None]:
    """Yield the events as types and objects, without encoding, for a client in this process.

    The objects are those of the cache and must not be changed. Lists are short, so that the reader can yield to other
    tasks.
    """
    cache.followers += 1
    try:
        async for batch in events:
            for start in range(0, len(batch), _OBJECTS):
                piece = batch[start : start + _OBJECTS] if len(batch) > _OBJECTS else batch
                stream.sent += sum(_size(view, event) for event in piece)
                yield [(event.type, view.shared(event)) for event in piece]
    finally:
        cache.followers -= 1
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
        stream.finish()


def _size(view: View, event: WatchEvent) -> int:
    """Return the size of the event's line in bytes; 0 for bookmarks and errors, since they are few."""
    if event.entry is None:
        return 0
    return len('{"type":"","object":}\n') + len(event.type) + len(view.opening) + len(view.tail(event.entry))


class EventLines:
    """A watch's events as lines of JSON. `include` is that of a Table; only the first event has the columns.

    A list of metadata cannot be built of one event: such a watch opens, and ends with its first event (`possible`).
    """

    def __init__(self, view: View, chosen: ResponseFormat, include: str = "") -> None:
        self._view, self._format, self._include = view, chosen, include
        self._key = (
            view.resource.group,
            view.resource.plural,
            view.version.name,
            chosen.shape,
            chosen.version if chosen.shape else "",
        )
        self._columns = True
        self.possible = chosen.shape != PARTIAL + "List"
        #: Maximal number of events to encode without a break.
        self.most = _SHAPED_EVENTS if chosen.shape else _PLAIN_EVENTS

    def lines(self, events: Sequence[WatchEvent], now: datetime) -> bytes:
        """Encode a batch as one chunk."""
        if self._format.shape == "Table":
            return b"".join(self._table_line(event, now) for event in events)
        return join_batch(events, self._key, self._partial_line if self._format.shape else self._object_line)

    def _object_line(self, event: WatchEvent) -> bytes:
        if event.entry is not None:
            return b'{"type":"%b","object":%b}\n' % (event.type.encode(), self._view.object(event.entry))
        return _line(event.type, event.status or self._view.bookmark(event))

    def _partial_line(self, event: WatchEvent) -> bytes:
        if event.entry is None:
            return _line(event.type, event.status or partial(self._view.bookmark(event), self._format.version))
        return _line(event.type, partial(event.entry.obj, self._format.version))

    def _table_line(self, event: WatchEvent, now: datetime) -> bytes:
        if event.status is not None:
            return _line(event.type, event.status)
        columns, self._columns = self._columns, False
        if event.entry is not None:
            meta = {"resourceVersion": str(event.entry.revision)}
            return _line(
                event.type, table(self._view, self._format, [event.entry], meta, now, self._include, columns=columns)
            )
        mark = self._view.bookmark(event)
        row = row_of(self._view.resource, mark, now) | {"object": partial(mark, self._format.version)}
        made = table_of(
            self._view.resource,
            [row],
            {"resourceVersion": str(event.revision)},
            version=self._format.version,
            columns=columns,
        )
        return _line(event.type, made)


def _line(kind: str, obj: Any) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), escape_html(orjson.dumps(obj)))
