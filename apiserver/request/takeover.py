"""Requests that take the connection over (exec, port-forward, websockets), forwarded to another server.

Each has a connection of its own. If the other server agrees (101), bytes pass both ways until one side ends; any other
response is an ordinary one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

from apiserver.request.messages import Response, Stream

if TYPE_CHECKING:
    import h11

__all__ = ["Refused", "answer_of", "take_leave", "take_over"]

#: Size of the chunks that are passed on, in bytes.
_PIECE: Final = 64 * 1024
_SWITCHING: Final = 101
#: Maximal seconds for the peer to close a connection, too.
_FAREWELL: Final = 1.0

Pairs = Sequence[tuple[bytes, bytes]]


class Refused(Exception):
    """The other server's response is invalid or incomplete."""


async def take_over(
    place: tuple[str, int], trust: ssl.SSLContext, name: str, method: str, target: bytes, headers: Pairs, body: bytes
) -> Response | Stream:
    """Forward a request for another protocol and return its response.

    `name` is the server name in the certificate. Raise OSError, ssl.SSLError and Refused.
    """
    import h11

    reader, writer = await asyncio.open_connection(*place, ssl=trust, server_hostname=name, limit=_PIECE)
    try:
        connection = h11.Connection(h11.CLIENT)
        answer = await _asked(connection, reader, writer, method, target, headers, body)
        if isinstance(answer, h11.InformationalResponse) and answer.status_code == _SWITCHING:
            return _switched(connection, answer, reader, writer)
        return await _whole(connection, answer, reader, writer)
    except h11.RemoteProtocolError as error:
        writer.transport.abort()
        raise Refused(str(error)) from None
    except BaseException:
        writer.transport.abort()
        raise


async def answer_of(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, target: bytes, headers: Pairs
) -> tuple[h11.Connection, h11.Response]:
    """Return the head of a server's response. Raise OSError and Refused; then the connection is closed."""
    import h11

    connection = h11.Connection(h11.CLIENT)
    try:
        answer = await _asked(connection, reader, writer, method, target, headers, b"")
    except h11.RemoteProtocolError as error:
        writer.transport.abort()
        raise Refused(str(error)) from None
    except BaseException:
        writer.transport.abort()
        raise
    if not isinstance(answer, h11.Response):
        writer.transport.abort()
        raise Refused("EOF")
    return connection, answer


async def _asked(
    connection: h11.Connection,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    target: bytes,
    headers: Pairs,
    body: bytes,
) -> h11.Event:
    """Send a request and return the first event of the response."""
    import h11

    length = [(b"Content-Length", str(len(body)).encode())] if body else []
    request = h11.Request(method=method.encode(), target=target, headers=[*headers, *length])
    parts = [connection.send(request), connection.send(h11.Data(data=body)), connection.send(h11.EndOfMessage())]
    writer.write(b"".join(part for part in parts if part))
    return await _next(connection, reader)


async def take_leave(writer: asyncio.StreamWriter) -> None:
    """Close a connection once all is sent.

    The connection is aborted after a short time in any case: TLS would wait longer for the peer's close than this
    server may run.
    """
    writer.close()
    try:
        async with asyncio.timeout(_FAREWELL):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        pass  # closed, or aborted below
    finally:
        writer.transport.abort()


async def _next(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Event:
    import h11

    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_PIECE))
        elif isinstance(event, h11.InformationalResponse) and event.status_code != _SWITCHING:
            continue  # 100 Continue and similar
        elif isinstance(event, h11.Event):
            return event


def _switched(
    connection: h11.Connection,
    answer: h11.InformationalResponse,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> Stream:
    stream = Stream(_SWITCHING, headers=_texts(answer))
    stream.incoming = writer.write
    stream.chunks = _pieces(connection.trailing_data[0], reader, writer, stream)
    stream.when_ended.append(writer.transport.abort)  # for a stream that is never read
    return stream


async def _pieces(
    first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream
) -> AsyncIterator[bytes]:
    try:
        piece = first or await reader.read(_PIECE)
        while piece:
            stream.sent += len(piece)
            yield piece
            piece = await reader.read(_PIECE)
    except OSError:
        return
    finally:
        await take_leave(writer)
        stream.finish()


async def _whole(
    connection: h11.Connection, answer: h11.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Response:
    """Return the whole response of a server that refused the upgrade."""
    import h11

    if not isinstance(answer, h11.Response):
        raise Refused("the connection was closed without an answer")
    parts = []
    while isinstance(event := await _next(connection, reader), h11.Data):
        parts.append(bytes(event.data))
    await take_leave(writer)
    headers = _texts(answer)
    kind = next((value for name, value in headers if name.lower() == "content-type"), "")
    own = ("connection", "keep-alive", "transfer-encoding", "content-length", "content-type", "date", "upgrade")
    kept = tuple(pair for pair in headers if pair[0].lower() not in own)
    return Response(answer.status_code, b"".join(parts), kind, kept)


def _texts(answer: h11.Response | h11.InformationalResponse) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers.raw_items())
