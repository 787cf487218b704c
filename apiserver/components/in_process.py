"""The server as a transport for clients in its own process: same paths, responses and watch streams, no socket.

Controllers define the transport's protocol; they may not import this module but are passed it. A request passes the
whole chain of handlers; only the socket is left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from apiserver.http.handlers.chain import HandlerChain
from apiserver.request.messages import ConnectionClosed, Request, Response, Stream, User

#: Type and object.
Event = tuple[str, dict[str, Any]]
Headers = Iterable[tuple[str, str]]


class InProcess:
    """A transport that calls the chain.

    `user` is the sender of the requests; None lets the server authenticate the headers. `closed` is the exception that
    the client expects when its connection closes.
    """

    def __init__(
        self, chain: HandlerChain, user: User | None = None, closed: type[Exception] = ConnectionClosed
    ) -> None:
        self._chain, self._user, self._closed = chain, user, closed

    async def _answer(self, request: Request) -> Response | Stream:
        answer = self._chain.try_fast(request)
        if answer is not None:
            return answer
        try:
            return await self._chain.handle(request)
        except ConnectionClosed as error:
            raise self._closed(f"the connection closed: {error}") from error

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        answer = await self._answer(Request(method, path, query, headers, body, self._user))
        if isinstance(answer, Response):
            return answer.status, answer.headers, answer.body
        return answer.status, answer.headers, b"".join([chunk async for chunk in self._chunks(answer)])

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], deadline: float | None = None
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        answer = await self._answer(Request(method, path, query, headers, b"", self._user))
        if isinstance(answer, Stream):
            answer.inside = True
            return answer.status, answer.headers, self._chunks(answer)
        return answer.status, answer.headers, _yield_body(answer.body)

    async def watch(
        self, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, Headers, AsyncIterator[bytes] | AsyncIterator[list[Event]]]:
        """Do as `stream` of a GET, but yield lists of events where the server has them at hand.

        The objects of the events belong to the server and must not be changed.
        """
        request = Request("GET", path, query, headers, b"", self._user)
        request.inside = True
        answer = await self._answer(request)
        if not isinstance(answer, Stream):
            return answer.status, answer.headers, _yield_body(answer.body)
        answer.inside = True
        if answer.objects is None:
            return answer.status, answer.headers, self._chunks(answer)
        return answer.status, answer.headers, answer.objects()

    async def _chunks(self, stream: Stream) -> AsyncIterator[bytes]:
        try:
            async for chunk in stream.chunks:
                yield chunk
        except ConnectionClosed as error:
            raise self._closed(f"the connection closed: {error}") from error
        finally:
            await stream.close()

    async def close(self) -> None:
        """Do nothing: the server continues."""


async def _yield_body(body: bytes) -> AsyncIterator[bytes]:
    yield body
