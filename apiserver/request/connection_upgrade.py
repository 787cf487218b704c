"""Requests that take the connection over (exec, port-forward, websockets), forwarded to another server.

Each has a connection of its own. If the other server agrees (101), bytes pass both ways until one side ends; any other
response is an ordinary one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final

from apiserver.request.messages import Response, Stream

if TYPE_CHECKING:
    import h11

__all__ = ["InvalidResponse", "close_writer", "forward_upgrade", "send_request"]

#: Size of the chunks that are passed on, in bytes.
_CHUNK_SIZE: Final = 64 * 1024
_SWITCHING: Final = 101
#: Seconds that the peer has to close its side of a connection.
_CLOSE_SECONDS: Final = 1.0

Headers = Sequence[tuple[bytes, bytes]]


class InvalidResponse(Exception):
    """The other server's response is invalid or incomplete."""


async def forward_upgrade(
    address: tuple[str, int],
    context: ssl.SSLContext,
    name: str,
    method: str,
    target: bytes,
    headers: Headers,
    body: bytes,
    identify: Callable[[asyncio.StreamWriter], Headers] = lambda writer: [],
) -> Response | Stream:
    """Forward a request for another protocol and return its response.

    `name` is the server name in the certificate. `identify` returns further headers for the open connection, or raises
    an exception that ends it. Raise OSError, ssl.SSLError and InvalidResponse.
    """
    import h11

    reader, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=name, limit=_CHUNK_SIZE)
    try:
        connection = h11.Connection(h11.CLIENT)
        answer = await _send(connection, reader, writer, method, target, [*headers, *identify(writer)], body)
        if isinstance(answer, h11.InformationalResponse) and answer.status_code == _SWITCHING:
            return _build_stream(connection, answer, reader, writer)
        return await _read_response(connection, answer, reader, writer)
    except h11.RemoteProtocolError as error:
        writer.transport.abort()
        raise InvalidResponse(str(error)) from None
    except BaseException:
        writer.transport.abort()
        raise


async def send_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, target: bytes, headers: Headers
) -> tuple[h11.Connection, h11.Response]:
    """Send a request and return the head of the response.

    Raise OSError and InvalidResponse; then the connection is closed.
    """
    import h11

    connection = h11.Connection(h11.CLIENT)
    try:
        answer = await _send(connection, reader, writer, method, target, headers, b"")
    except h11.RemoteProtocolError as error:
        writer.transport.abort()
        raise InvalidResponse(str(error)) from None
    except BaseException:
        writer.transport.abort()
        raise
    if not isinstance(answer, h11.Response):
        writer.transport.abort()
        raise InvalidResponse("EOF")
    return connection, answer


async def _send(
    connection: h11.Connection,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    target: bytes,
    headers: Headers,
    body: bytes,
) -> h11.Event:
    """Send a request and return the first event of the response."""
    import h11

    length = [(b"Content-Length", str(len(body)).encode())] if body else []
    request = h11.Request(method=method.encode(), target=target, headers=[*headers, *length])
    parts = [connection.send(request), connection.send(h11.Data(data=body)), connection.send(h11.EndOfMessage())]
    writer.write(b"".join(part for part in parts if part))
    return await _next_event(connection, reader)


async def close_writer(writer: asyncio.StreamWriter) -> None:
    """Close a connection once all is sent.

    The connection is aborted after a short time in any case: TLS would wait longer for the peer's close than this
    server may run.
    """
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        pass  # closed, or aborted below
    finally:
        writer.transport.abort()


async def _next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Event:
    import h11

    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_CHUNK_SIZE))
        elif isinstance(event, h11.InformationalResponse) and event.status_code != _SWITCHING:
            continue  # 100 Continue and similar
        elif isinstance(event, h11.Event):
            return event


def _build_stream(
    connection: h11.Connection,
    answer: h11.InformationalResponse,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> Stream:
    stream = Stream(_SWITCHING, headers=_decode_headers(answer))
    stream.incoming = writer.write
    stream.chunks = _read_chunks(connection.trailing_data[0], reader, writer, stream)
    stream.when_ended.append(writer.transport.abort)  # for a stream that is never read
    return stream


async def _read_chunks(
    first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream
) -> AsyncIterator[bytes]:
    try:
        piece = first or await reader.read(_CHUNK_SIZE)
        while piece:
            stream.sent += len(piece)
            yield piece
            piece = await reader.read(_CHUNK_SIZE)
    except OSError:
        return
    finally:
        await close_writer(writer)
        stream.finish()


async def _read_response(
    connection: h11.Connection, answer: h11.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Response:
    """Return the whole response of a server that refused the upgrade."""
    import h11

    if not isinstance(answer, h11.Response):
        raise InvalidResponse("the connection was closed without an answer")
    parts = []
    while isinstance(event := await _next_event(connection, reader), h11.Data):
        parts.append(bytes(event.data))
    await close_writer(writer)
    headers = _decode_headers(answer)
    kind = next((value for name, value in headers if name.lower() == "content-type"), "")
    own = ("connection", "keep-alive", "transfer-encoding", "content-length", "content-type", "date", "upgrade")
    kept = tuple(pair for pair in headers if pair[0].lower() not in own)
    return Response(answer.status_code, b"".join(parts), kind, kept)


def _decode_headers(answer: h11.Response | h11.InformationalResponse) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers.raw_items())
