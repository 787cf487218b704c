"""A watch as a websocket (RFC 6455), for programs in web pages: one frame per event.

Events in JSON are text, in protobuf binary. Data from the client is ignored, except a close frame. Facts: apiserver,
pkg/endpoints/handlers/watch.go; golang.org/x/net/websocket (a client must send Origin).
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from hashlib import sha1
from typing import Final

from apiserver.api.errors.status import PlainError, bad_request
from apiserver.request.messages import Stream

__all__ = ["asks_for_websocket", "over_websocket"]

_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _BINARY, _CLOSE = 1, 2, 8
#: The payload of a normal close (1000).
_NORMAL: Final = (1000).to_bytes(2, "big")


def asks_for_websocket(headers: Mapping[str, str]) -> bool:
    return headers.get("upgrade", "").lower() == "websocket" and "upgrade" in headers.get("connection", "").lower()


def over_websocket(stream: Stream, headers: Mapping[str, str], *, binary: bool) -> Stream:
    """Return the stream of a watch as one that takes the connection over. Raise 400 and 403."""
    key, protocol = headers.get("sec-websocket-key", ""), headers.get("sec-websocket-protocol", "")
    if not key or headers.get("sec-websocket-version") != "13":
        raise bad_request("a websocket has a Sec-WebSocket-Key and version 13")
    if "origin" not in headers:
        raise PlainError(403, "")
    accepted = b64encode(sha1(key.encode("latin-1") + _MAGIC, usedforsecurity=False).digest()).decode()
    fields = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accepted)]
    if protocol:
        fields.append(("Sec-WebSocket-Protocol", protocol.partition(",")[0].strip()))
    opened = Stream(101, headers=tuple(fields))
    listener = _Listener()
    opened.incoming = listener.feed
    opened.chunks = _frames(opened, stream, listener, binary=binary)
    return opened


async def _frames(opened: Stream, stream: Stream, listener: _Listener, *, binary: bool) -> AsyncIterator[bytes]:
    events, ended = stream.chunks, asyncio.ensure_future(listener.ended.wait())
    coming: asyncio.Future[bytes] | None = None
    try:
        while True:
            coming = asyncio.ensure_future(anext(events, b""))
            await asyncio.wait((coming, ended), return_when=asyncio.FIRST_COMPLETED)
            if not coming.done() or not (chunk := coming.result()):
                break
            frames = b"".join(
                _frame(_BINARY if binary else _TEXT, event) for event in (_messages(chunk) if binary else _lines(chunk))
            )
            opened.sent += len(frames)
            yield frames
        yield _frame(_CLOSE, _NORMAL)
    finally:
        ended.cancel()
        if coming is not None and not coming.done():
            coming.cancel()
            await asyncio.wait((coming,))
        await stream.close()
        opened.finish()


def _lines(chunk: bytes) -> Iterator[bytes]:
    """Yield the events of a chunk of JSON: one per line."""
    return iter(chunk.splitlines(keepends=True))


def _messages(chunk: bytes) -> Iterator[bytes]:
    """Yield the events of a chunk of protobuf, without their lengths."""
    at = 0
    while at < len(chunk):
        end = at + 4 + int.from_bytes(chunk[at : at + 4], "big")
        yield chunk[at + 4 : end]
        at = end


def _frame(kind: int, payload: bytes) -> bytes:
    """Build a server's frame: unfragmented and not masked."""
    size = len(payload)
    if size < 126:
        length = bytes((size,))
    elif size < 1 << 16:
        length = b"\x7e" + size.to_bytes(2, "big")
    else:
        length = b"\x7f" + size.to_bytes(8, "big")
    return bytes((0x80 | kind,)) + length + payload


class _Listener:
    """Waits for the client's close frame."""

    def __init__(self) -> None:
        self.ended, self._data, self._skip = asyncio.Event(), b"", 0

    def feed(self, data: bytes) -> None:
        """Parse the client's masked frames, in pieces of any size."""
        self._data += data
        while self._data:
            skipped = min(self._skip, len(self._data))
            self._data, self._skip = self._data[skipped:], self._skip - skipped
            if len(self._data) < 2:
                return
            kind, size = self._data[0] & 0x0F, self._data[1] & 0x7F
            if kind == _CLOSE:
                self.ended.set()
                self._data = b""
                return
            extended = {126: 2, 127: 8}.get(size, 0)
            if len(self._data) < 2 + extended:
                return
            size = int.from_bytes(self._data[2 : 2 + extended], "big") if extended else size
            self._skip = 2 + extended + (4 if self._data[1] & 0x80 else 0) + size
