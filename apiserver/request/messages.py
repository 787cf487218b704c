"""Requests and responses for all parts of the server, without sockets and HTTP encoding."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote_plus

from apiserver.request.info import RequestInfo, parse_query

#: Maximal size of a request's body, in bytes (413). Of a longer body only enough is read to detect the excess.
MAX_BODY: Final = 3 * 1024 * 1024


class ConnectionClosed(Exception):
    """The client's connection is closed instead of a response, or of the rest of one."""


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request. The anonymous user is `system:anonymous` in group `system:unauthenticated`."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    """The identity in a client's certificate: a user, or a `proxy` that may act for others.

    `ends` is the certificate's expiry, in seconds since 1970. `refused`: not every verifier accepted the certificate,
    so that the request is unauthenticated (not anonymous) without other credentials.
    """

    user: User | None
    proxy: bool = False
    ends: float = 0.0
    refused: bool = False


def redact(query: str) -> str:
    """Return a query string for logs, without the values of `access_token` (RFC 6750)."""
    if "access_token" not in query and "%" not in query:
        return query
    pairs = ((pair, pair.partition("=")[0]) for pair in query.split("&"))
    return "&".join(f"{name}=REDACTED" if unquote_plus(name) == "access_token" else pair for pair, name in pairs)


_NOT_PARSED: Final = RequestInfo("")
_NOTHING: Final[Mapping[str, str]] = {}


class Request:
    """One request.

    `headers` has lower-case names; `query` is the raw query string, `params` its parsed form (a name maps to all its
    values in order). `user` is set by clients in this process, else by authentication; `info` by the chain of handlers.
    The handler of the request sets `warnings`, for Warning headers, and `annotations`, for the record of the request.
    `fault` is the injected one; `time` is the start of a resource's verb.
    """

    __slots__ = (
        "_params",
        "annotations",
        "audit_id",
        "authorization",
        "body",
        "constraint",
        "fault",
        "headers",
        "impersonator",
        "info",
        "inside",
        "marks",
        "method",
        "path",
        "peer",
        "query",
        "time",
        "user",
        "warnings",
    )

    def __init__(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, user: User | None = None
    ) -> None:
        self.method, self.path, self.query, self.headers = method, path, query, headers
        self.body, self.user = body, user
        self.info = _NOT_PARSED
        #: whether the client is in this process and reads the objects of a watch
        self.inside = False
        #: the impersonating user, if any
        self.impersonator: User | None = None
        #: the verb of constrained impersonation that allowed it
        self.constraint = ""
        #: annotations of the authorizer's decision, if the request had to wait for it
        self.authorization: Mapping[str, str] = _NOTHING
        #: the identity in the certificate of the connection, if there is one
        self.peer: Peer | None = None
        self.warnings: Sequence[str] = ()
        self.annotations: Mapping[str, str] = _NOTHING
        self.fault = ""
        #: the audit ID (`apiserver.request.audit_ids`); further header fields of the response, as bytes
        self.audit_id, self.marks = "", b""
        self.time: datetime | None = None
        self._params: dict[str, list[str]] | None = None

    @property
    def logged_uri(self) -> str:
        """The path and the query for logs, without access tokens."""
        return f"{self.path}?{redact(self.query)}" if self.query else self.path

    @property
    def params(self) -> dict[str, list[str]]:
        if self._params is None:
            self._params = {}
            for name, value in parse_query(self.query):
                self._params.setdefault(name, []).append(value)
        return self._params


@dataclass(slots=True)
class Response:
    """A whole response."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, eq=False)
class Stream:
    """A response in chunks (a watch).

    `chunks` is set after the construction. `close` ends the stream; the server ends it by finishing the iterator.
    `sent` counts the bytes of the chunks so far. Each callback of `when_ended` is called once after the last chunk.
    `inside` marks a client in this process: it may read the events of a watch from `objects` instead of `chunks`, as
    types and immutable objects. `objects` is None if there are none, or if the chunks were transformed. With status 101
    the stream takes over the connection: `incoming` receives the bytes that the client sends from then on.
    """

    status: int
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    chunks: AsyncIterator[bytes] = field(init=False)
    sent: int = 0
    incoming: Callable[[bytes], object] | None = None
    inside: bool = False
    objects: Callable[[], AsyncGenerator[list[tuple[str, dict[str, Any]]], None]] | None = None
    when_ended: list[Callable[[], object]] = field(default_factory=list)

    async def close(self) -> None:
        """End the chunks, whether they have begun or not."""
        close = getattr(self.chunks, "aclose", None)
        if close is not None:
            await close()
        self.finish()

    def finish(self) -> None:
        """Call the callbacks after the last chunk. The producer of the chunks calls this."""
        calls, self.when_ended = self.when_ended, []
        for call in calls:
            call()
