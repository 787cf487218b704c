"""The server as a transport for clients in its own process: same paths, same answers, same watch streams, no socket.

Controllers define what a transport is (they may not import this module; it is handed to them). A request here runs the
whole way of a request from authentication on; only the bytes' way through a socket is left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

from apiserver.messages import Request, Response, Stream, User

Handle = Callable[[Request], Awaitable[Response | Stream]]
Headers = Iterable[tuple[str, str]]


class InProcess:
    """Calls the dispatcher. `user` is who the requests come from; None lets the server authenticate the headers."""

    def __init__(self, handle: Handle, user: User | None = None) -> None:
        self._handle, self._user = handle, user

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        answer = await self._handle(Request(method, path, query, headers, body, self._user))
        if isinstance(answer, Response):
            return answer.status, answer.headers, answer.body
        return answer.status, answer.headers, b"".join([chunk async for chunk in answer.chunks])

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        answer = await self._handle(Request(method, path, query, headers, b"", self._user))
        if isinstance(answer, Stream):
            return answer.status, answer.headers, answer.chunks
        return answer.status, answer.headers, _whole(answer.body)

    async def close(self) -> None:
        """Nothing to close: the server lives on."""


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body
