"""How requests reach a server. Two implementations: HTTP (`http.py`), and in the server's own process
(made by the server and handed in; same paths, same streams, no socket)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NoReturn, Protocol

Headers = Iterable[tuple[str, str]]


class TransportError(Exception):
    """The server was not reached or the connection broke: it is unknown whether the request had an effect."""


class Transport(Protocol):
    """Carries bytes. Statuses of 400 and above are answers, not exceptions."""

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Headers, bytes]:
        """One request and its whole answer. Header names are lower-case both ways. Raises TransportError."""
        ...

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str], deadline: float | None = None
    ) -> tuple[int, Headers, AsyncIterator[bytes]]:
        """Send one request; return its answer in chunks cut anywhere. Closing the iterator (aclose) ends it.

        Args:
            deadline: Seconds after which a stream that has not ended raises TransportError. A transport without a
                network ignores it: its connections cannot die unnoticed.
        """
        ...

    async def close(self) -> None: ...


class NoTransport:
    """For components that decide about objects they were given, and never ask a server."""

    async def request(self, method: str, path: str, *_: Any) -> NoReturn:
        raise AssertionError(f"there is no server to send this to: {method} {path}")

    async def stream(self, method: str, path: str, *_: Any) -> NoReturn:
        raise AssertionError(f"there is no server to watch: {path}")

    async def close(self) -> None:
        """Nothing is open."""
