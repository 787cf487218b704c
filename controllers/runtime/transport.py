"""Transports of requests to a server.

One uses HTTP (`http.py`). Another stays in the server's process: the server provides it, with the same paths and
streams and no socket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NoReturn, Protocol

Headers = Iterable[tuple[str, str]]


class TransportError(Exception):
    """The server was not reached or the connection broke. The effect of the request is unknown."""


class Transport(Protocol):
    """A carrier of requests in bytes. Statuses of 400 and above are answers, not exceptions."""

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        """Send one request and return its whole answer. Header names are in lower case. Raise TransportError."""
        ...

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], deadline: float | None = None
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        """Send one request; return its answer in chunks cut anywhere. Closing the iterator (aclose) ends it.

        A stream that has not ended within `deadline` seconds raises TransportError. A transport without a network
        ignores the deadline: its connections cannot die unnoticed.
        """
        ...

    async def close(self) -> None: ...


class NoTransport:
    """A transport for components that only decide about given objects; every request is an error."""

    async def request(self, method: str, path: str, *_: Any) -> NoReturn:
        raise AssertionError(f"there is no server to send this to: {method} {path}")

    async def stream(self, method: str, path: str, *_: Any) -> NoReturn:
        raise AssertionError(f"there is no server to watch: {path}")

    async def close(self) -> None:
        """Do nothing: no connection is open."""
